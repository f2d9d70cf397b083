// Package wire is the protocol between an agent and the aggregator: hits on their way over the
// network.
//
// A Builder folds the hits of a short time into a batch. Equal hits share their rule, part,
// values and labels, which are written once. Each line adds its time, its fingerprint and
// sometimes its text. A batch keeps the reading order and everything that affects decisions,
// so the engine draws the same conclusions from a Batch as from the hits themselves. A Message
// carries a batch, or only a watermark. A Report carries what only an agent knows.
//
// The package has no clock and does no I/O. Its input comes from a peer, so it checks every
// size before it allocates memory.
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
)

// The HTTP interface of the aggregator for agents.
const (
	// Path accepts messages by POST.
	Path = "/api/v1/agents/hits"
	// NodePath and the name of a node accept a DELETE, which forgets the node.
	NodePath = "/api/v1/agents/nodes/"
	// ContentType is the media type of a message.
	ContentType = "application/vnd.crowsnest.hits"
	// ProcessHeader is in every response of an aggregator, with a random name that its
	// process chose at its start.
	ProcessHeader = "Crowsnest-Process"
	// Header is in every response of an aggregator, with its protocol version.
	Header = "Crowsnest-Agents"
	// MaxMessage is the maximum size of a message: a batch and its envelope.
	MaxMessage = MaxPayload + maxEnvelope
	// MaxAfter is the maximum number of previous instances that an agent names.
	MaxAfter = 16
	// MaxName is the maximum length of a node name, in bytes.
	MaxName = 253

	maxLagging  = 64 << 10           // encoded bytes of lagging streams
	maxEnvelope = maxLagging + 4<<10 // bytes
	maxInstance = 64                 // bytes of the name of an instance
)

// Version is the version of the format. Readers refuse newer ones.
const Version = 1

// ErrVersion is returned for a message of a newer version.
var ErrVersion = errors.New("the agent uses a newer version of the protocol; update the aggregator first")

// Message is a message from an agent: a line of JSON, and after it the batch.
type Message struct {
	// Node is the name of the sender. Instance is a random text that its process chose at its
	// start.
	Node     string `json:"node"`
	Instance string `json:"instance"`
	// After are the previous instances that used the same saved state: the last one that is
	// known to have been accepted, and those since.
	After []string `json:"after,omitempty"`
	// Sequence is the number of the batch. The first one has the number 1. Without a batch,
	// Sequence is the number of the newest batch, or 0 if there was none.
	Sequence uint64 `json:"sequence"`
	// First is the oldest batch that the agent still has, or the next one if it has none.
	// Older ones cannot be sent again.
	First uint64 `json:"first"`
	// Sent is the sending time by the steady clock of the agent: the clock of the node when the agent started, plus the
	// time that has elapsed since. Watermark and the times of hits are by the same clock, which nobody sets, so the
	// aggregator can correct all of them by one difference.
	Sent time.Time `json:"sent"`
	// Watermark is the time up to which this batch and the previous ones contain everything
	// that the agent reads. Zero means that it is unknown.
	Watermark time.Time `json:"watermark,omitzero"`
	// Lagging are the streams that are read only up to earlier times, at most
	// matcher.MaxLagging.
	Lagging []matcher.LaggingStream `json:"lagging,omitempty"`
	// Goodbye means that the agent stops, and Final that it will not come back.
	Goodbye bool `json:"goodbye,omitempty"`
	Final   bool `json:"final,omitempty"`
	// Reports means that the agent also sends reports (Report).
	Reports bool `json:"reports,omitempty"`
	// Payload is a sealed batch, or nil.
	Payload []byte `json:"-"`
}

// envelope is the first line of a message.
type envelope struct {
	Version int `json:"v"`
	Message
}

// Append appends the encoded message to b.
func (m *Message) Append(b []byte) []byte {
	out := envelope{Version, *m}
	out.Lagging = encodableLagging(m.Lagging)
	out.clampTimes()
	text, _ := json.Marshal(out) // Strings, numbers and clamped times always marshal.
	return append(append(append(b, text...), '\n'), m.Payload...)
}

// encodableLagging returns the streams with values that JSON can encode. If they are too
// large, one that stands for all streams takes their place.
func encodableLagging(all []matcher.LaggingStream) []matcher.LaggingStream {
	out := slices.Clone(matcher.BoundLagging(all))
	for i := range out {
		labels := matcher.Labels{}
		for name, value := range out[i].Labels {
			if utf8.ValidString(name) && utf8.ValidString(value) {
				labels[name] = value
			} else {
				out[i].Unknown = append(slices.Clip(out[i].Unknown), strings.ToValidUTF8(name, "?"))
			}
		}
		out[i].Labels, out[i].ReadUpTo = labels, at(nanos(out[i].ReadUpTo))
	}
	if text, _ := json.Marshal(out); len(text) > maxLagging {
		oldest := slices.MinFunc(out, func(x, y matcher.LaggingStream) int { return x.ReadUpTo.Compare(y.ReadUpTo) })
		return []matcher.LaggingStream{{ReadUpTo: oldest.ReadUpTo}}
	}
	return out
}

// clampTimes limits the times to 1970 to 2200.
func (m *Message) clampTimes() {
	m.Sent = at(nanos(m.Sent))
	if !m.Watermark.IsZero() {
		m.Watermark = at(nanos(m.Watermark))
	}
	for i := range m.Lagging {
		m.Lagging[i].ReadUpTo = at(nanos(m.Lagging[i].ReadUpTo))
	}
}

// ReadMessage decodes a message. Its payload aliases b and is not checked.
func ReadMessage(b []byte) (Message, error) {
	if len(b) > MaxMessage {
		return Message{}, fmt.Errorf("read message: %d bytes are more than %d", len(b), MaxMessage)
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
		return Message{}, fmt.Errorf("read message: an envelope of %d bytes is larger than %d", len(text), maxEnvelope)
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
	case badInstance(m.Instance) || slices.ContainsFunc(m.After, badInstance):
		return fmt.Errorf("an instance has 1 to %d letters, digits, dots, dashes and underscores", maxInstance)
	case len(m.After) > MaxAfter || len(m.Lagging) > matcher.MaxLagging:
		return fmt.Errorf("%d instances and %d lagging streams are more than there can be", len(m.After), len(m.Lagging))
	case m.First == 0 || m.First > m.Sequence+1 || m.Payload != nil && (m.Sequence == 0 || m.First > m.Sequence):
		return fmt.Errorf("batch %d is impossible when the oldest that the agent keeps is %d", m.Sequence, m.First)
	case m.Sequence > 1<<62:
		return fmt.Errorf("no process has sent %d batches", m.Sequence)
	}
	return nil
}

// CheckName returns what is wrong with the name of a node, or nil. The name becomes part of
// metrics, alerts and logs.
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
	// Taken is the newest batch of this instance that was accepted. The agent continues with
	// the batch after it.
	Taken uint64 `json:"taken"`
	// Saved is the newest batch that is on disk, so the agent need not keep it.
	Saved uint64 `json:"saved"`
	// Report identifies the aggregator's copy of this instance's report, and the rules that it
	// was compared with. Without a copy it is "", and the agent sends its report.
	Report string `json:"report,omitempty"`
}

// ReportAnswer is the aggregator's JSON response to a report.
type ReportAnswer struct {
	// Report is the value of Answer.Report until the agent must send its report again.
	Report string `json:"report"`
	// Behind are the rules that the aggregator has in another version, and since when. The
	// agent keeps the text of every line that its own version finds (Builder.Whole), and reads
	// older lines again when it gets that version.
	Behind map[string]time.Time `json:"behind,omitempty"`
}
