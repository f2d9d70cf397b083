// Package wire is the protocol between agents and the aggregator. It carries hits.
//
// A Builder combines the hits of a short time to a batch. Equal hits share their rule, part, values and labels, which
// are written once. Each line adds its time, its fingerprint and sometimes its text. A batch keeps the order of reading
// and everything that affects decisions, so the engine decides the same from a Batch as from the hits themselves. A
// Message carries a batch, or only a watermark, which is the time up to which the agent's logs were read. A Report
// carries information that only the agent has, such as problems of its node.
//
// The package uses no clock and does no I/O. Its input comes from the network, so the package checks every size before
// it allocates memory.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// The HTTP interface between the aggregator and agents.
const (
	// Path is the path to which messages are sent by POST.
	Path = "/api/v1/agents/hits"
	// NodePath, followed by the name of a node, is the path of a node. A DELETE makes the aggregator forget the node.
	NodePath = "/api/v1/agents/nodes/"
	// RulesPath is the path of the active rule files of namespaces. A POST without a body returns them.
	RulesPath = "/api/v1/agents/rules"
	// MaxRules is the largest size of the response with these files in bytes.
	MaxRules = 16 << 20
	// ContentType is the media type of a message.
	ContentType = "application/vnd.crowsnest.hits"
	// ProcessHeader is in every response of an aggregator. Its value is a random name that the
	// process chose when it started.
	ProcessHeader = "Crowsnest-Process"
	// Header is in every response of an aggregator. Its value is the protocol version.
	Header = "Crowsnest-Agents"
	// MaxMessage is the largest size of a message in bytes, which is a batch with its envelope.
	MaxMessage = MaxPayload + maxEnvelope
	// MaxAfter is the largest number of earlier instances that an agent names.
	MaxAfter = 16
	// MaxName is the largest length of a node name in bytes.
	MaxName = 253

	maxLagging  = 64 << 10           // largest encoded size of lagging streams, in bytes
	maxEnvelope = maxLagging + 4<<10 // largest size of an envelope, in bytes
	maxInstance = 64                 // largest length of the name of an instance, in bytes
)

// Version is the version of the format. Newer versions are refused.
const Version = 1

// ErrVersion is returned for a message of a newer version.
var ErrVersion = errors.New("the agent uses a newer version of the protocol; update the aggregator")

// Message is a message from an agent. It is encoded as a line of JSON followed by the batch.
type Message struct {
	// Node is the name of the node that sends the message. Instance is a random text that the
	// sender's process chose when it started.
	Node     string `json:"node"`
	Instance string `json:"instance"`
	// EarlierInstances names the earlier processes that used the same saved state: the last process that
	// the aggregator is known to have accepted, and every later one.
	EarlierInstances []string `json:"after,omitempty"`
	// Sequence is the number of the batch, counted from 1. In a message without a batch it is
	// the number of the newest batch, or 0 if there is none.
	Sequence uint64 `json:"sequence"`
	// OldestSequence is the number of the oldest batch that the agent still has. If it has none, OldestSequence
	// is the number of the next batch. Older batches cannot be sent again.
	OldestSequence uint64 `json:"first"`
	// SentAt is the time of sending by the steady clock of the agent. This clock starts with the time of the node when
	// the agent started, and advances by the elapsed time. Watermark and the times of hits are by the same clock. The
	// clock never jumps, so the aggregator can correct all of these times by one difference.
	SentAt time.Time `json:"sent"`
	// Watermark is a time up to which this batch and the earlier ones contain all hits, except
	// the hits of lagging streams. Zero means that it is unknown.
	Watermark time.Time `json:"watermark,omitzero"`
	// Lagging are the streams that were read only up to earlier times. There are at most matcher.MaxLagging.
	Lagging []matcher.LaggingStream `json:"lagging,omitempty"`
	// Goodbye means that the agent stops. Final means that the agent will not come back.
	Goodbye bool `json:"goodbye,omitempty"`
	Final   bool `json:"final,omitempty"`
	// Reports means that the agent also sends reports (see Report).
	Reports bool `json:"reports,omitempty"`
	// Payload is a sealed batch, or nil.
	Payload []byte `json:"-"`
}

// envelope is the first line of an encoded message.
type envelope struct {
	Version int `json:"v"`
	Message
}

// Append appends the encoded message to b.
func (m *Message) Append(b []byte) []byte {
	out := envelope{Version, *m}
	out.Lagging = encodableLagging(m.Lagging)
	out.clampTimes()
	text, _ := json.Marshal(out) // strings, numbers and clamped times can always be encoded
	return append(append(append(b, text...), '\n'), m.Payload...)
}

// encodableLagging returns the streams with values that JSON can encode. If the encoded
// streams are too large, it returns one stream that represents all streams.
func encodableLagging(all []matcher.LaggingStream) []matcher.LaggingStream {
	out := slices.Clone(matcher.BoundLagging(all))
	for i := range out {
		labels := matcher.Labels{}
		for name, value := range out[i].Labels {
			if utf8.ValidString(name) && utf8.ValidString(value) {
				labels[name] = value
			} else {
				out[i].UnknownLabels = append(slices.Clip(out[i].UnknownLabels), strings.ToValidUTF8(name, "?"))
			}
		}
		out[i].Labels, out[i].ReadUpTo = labels, timeOfNanos(clampNanos(out[i].ReadUpTo))
	}
	if text, _ := json.Marshal(out); len(text) > maxLagging {
		oldest := slices.MinFunc(out, func(x, y matcher.LaggingStream) int { return x.ReadUpTo.Compare(y.ReadUpTo) })
		return []matcher.LaggingStream{{ReadUpTo: oldest.ReadUpTo}}
	}
	return out
}

func (m *Message) clampTimes() {
	m.SentAt = timeOfNanos(clampNanos(m.SentAt))
	if !m.Watermark.IsZero() {
		m.Watermark = timeOfNanos(clampNanos(m.Watermark))
	}
	for i := range m.Lagging {
		m.Lagging[i].ReadUpTo = timeOfNanos(clampNanos(m.Lagging[i].ReadUpTo))
	}
}

// ReadMessage decodes a message. The payload refers to the memory of b and is not checked.
func ReadMessage(b []byte) (Message, error) {
	if len(b) > MaxMessage {
		return Message{}, fmt.Errorf("read message: the message has %d bytes, at most %d are allowed", len(b), MaxMessage)
	}
	text, payload, found := bytes.Cut(b, []byte("\n"))
	var in envelope
	err := json.Unmarshal(text, &in)
	switch {
	case in.Version > Version:
		return Message{}, fmt.Errorf("read message: %w", ErrVersion)
	case !found || err != nil || in.Version < 1:
		return Message{}, errors.New("read message: it does not come from crowsnest; only sinks.upstream of an agent may send to this address")
	case len(text) > maxEnvelope:
		return Message{}, fmt.Errorf("read message: the part before the payload has %d bytes, at most %d are allowed", len(text), maxEnvelope)
	}
	m := in.Message
	if len(payload) > 0 {
		m.Payload = payload
	}
	if err := m.check(); err != nil {
		return Message{}, fmt.Errorf("read message: %w", err)
	}
	m.clampTimes()
	return m, nil
}

func (m *Message) check() error {
	badInstance := func(s string) bool { return len(s) > maxInstance || CheckName(s) != nil }
	switch {
	case CheckName(m.Node) != nil:
		return CheckName(m.Node)
	case badInstance(m.Instance) || slices.ContainsFunc(m.EarlierInstances, badInstance):
		return fmt.Errorf("the name of an instance has 1 to %d characters: letters, digits, dots, dashes and underscores", maxInstance)
	case len(m.EarlierInstances) > MaxAfter || len(m.Lagging) > matcher.MaxLagging:
		return fmt.Errorf("%d instances and %d lagging streams are more than there can be", len(m.EarlierInstances), len(m.Lagging))
	case m.OldestSequence == 0 || m.OldestSequence > m.Sequence+1 || m.Payload != nil && (m.Sequence == 0 || m.OldestSequence > m.Sequence):
		return fmt.Errorf("batch %d is impossible when the oldest that the agent keeps is %d", m.Sequence, m.OldestSequence)
	case m.Sequence > 1<<62:
		return fmt.Errorf("no process has sent %d batches", m.Sequence)
	}
	return nil
}

// CheckName returns an error if the name of a node is not valid. The name becomes part of metrics, alerts and logs.
func CheckName(node string) error {
	if node == "" || len(node) > MaxName {
		return fmt.Errorf("the name of a node has 1 to %d bytes, not %d", MaxName, len(node))
	}
	for _, c := range []byte(node) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return fmt.Errorf("node name %q: use only a-z, A-Z, 0-9, dots, dashes and underscores", node)
		}
	}
	return nil
}

// Answer is the aggregator's JSON response to a message.
type Answer struct {
	// AcceptedSequence is the number of the newest accepted batch of this instance. The agent continues
	// with the next batch.
	AcceptedSequence uint64 `json:"taken"`
	// SavedSequence is the number of the newest batch on the aggregator's disk. The agent need not
	// keep this batch or earlier ones.
	SavedSequence uint64 `json:"saved"`
	// Report identifies the report of this instance that the aggregator has, and the rules with which the report was
	// compared. It is "" if the aggregator has no report, and the agent then sends its report.
	Report string `json:"report,omitempty"`
	// OwnedRules identifies the active rule files of namespaces, which the agent fetches from
	// RulesPath. It is "" if the aggregator does not know them yet.
	OwnedRules string `json:"owned_rules,omitempty"`
}

// RulesAnswer is the aggregator's JSON response to a request for the rule files of namespaces.
type RulesAnswer struct {
	// ID is the value of Answer.OwnedRules for these files.
	ID    string       `json:"id"`
	Files []rules.File `json:"files"`
}

// ReportAnswer is the aggregator's JSON response to a report.
type ReportAnswer struct {
	// Report is an identifier. While Answer.Report has this value, the agent need not send its report again.
	Report string `json:"report"`
	// MismatchedRules are the rules that the aggregator has in another version, and since when. For
	// these rules, the agent sends the text of every line that its own version finds (see
	// Builder.FullTextRules). When it gets the aggregator's version, it reads older lines again.
	MismatchedRules map[string]time.Time `json:"behind,omitempty"`
}
