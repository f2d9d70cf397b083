package hits

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"crowsnest/matcher"
)

// The HTTP interface of the aggregator for agents.
const (
	// Path accepts messages by POST. A DELETE below NodePath forgets a node.
	Path     = "/api/v1/agents/hits"
	NodePath = "/api/v1/agents/nodes/"
	// ContentType is the media type of a message.
	ContentType = "application/vnd.crowsnest.hits"
	// ProcessHeader is in every response of an aggregator, with a random name that its
	// process chose at its start.
	ProcessHeader = "Crowsnest-Process"
	// Header is in every response of an aggregator, with its protocol version.
	Header = "Crowsnest-Agents"
	// MaxMessage is the maximum size of a message: a batch and its envelope.
	MaxMessage = MaxPayload + maxLagging + 4<<10
	// maxLagging is the maximum size of the lagging streams in a message.
	maxLagging = 64 << 10
	// MaxAfter is the maximum number of previous instances that an agent names.
	MaxAfter = 16
	// MaxName is the maximum length of a node name, in bytes.
	MaxName = 253
)

// Version is the version of the format. Readers refuse newer ones.
const Version = 1

// ErrVersion is returned for a message of a newer version.
var ErrVersion = errors.New("the agent uses a newer version of the protocol; update the aggregator first")

const magic = "CNH"

// maxInstance is the maximum length of an instance name, in bytes.
const maxInstance = 64

// Message is a message from an agent.
type Message struct {
	// Node is the name of the sender; Instance is a random text that its process
	// chose at its start.
	Node, Instance string
	// After are the previous instances that used the same saved state: the last one
	// known to have been accepted, and those since.
	After []string
	// Sequence is the number of the batch, starting at 1. Without a batch it is the
	// number of the last one, 0 if there was none.
	Sequence uint64
	// First is the oldest batch that the agent still has, or the next one if it has
	// none: older ones cannot be sent again.
	First uint64
	// Sent is the sending time by the steady clock of the agent: the clock of the node when the agent started, plus the
	// time that has elapsed since. Watermark and the times of hits are by the same clock, which nobody sets, so the
	// aggregator can correct all of them by one difference.
	Sent time.Time
	// Watermark is the time up to which this batch and the previous ones contain
	// everything that the agent reads; zero: unknown.
	Watermark time.Time
	// Lagging are the streams that are read only up to earlier times, at most
	// matcher.MaxLagging.
	Lagging []matcher.LaggingStream
	// Goodbye reports that the agent stops, Final that it will not come back.
	Goodbye, Final bool
	// Reports states that the agent also sends reports (Report).
	Reports bool
	// Payload is a sealed batch; nil: none.
	Payload []byte
}

// Flags of a message.
const (
	flagWatermark = 1 << iota
	flagGoodbye
	flagFinal
	flagPayload
	flagReports
	flagLagging
)

// Append appends the encoded message to b.
func (m *Message) Append(b []byte) []byte {
	b = append(append(b, magic...), Version)
	b = appendString(appendString(b, m.Node), m.Instance)
	b = binary.AppendUvarint(b, uint64(len(m.After)))
	for _, before := range m.After {
		b = appendString(b, before)
	}
	b = binary.AppendUvarint(binary.AppendUvarint(b, m.Sequence), m.First)
	flags := byte(0)
	set := func(flag byte, on bool) {
		if on {
			flags |= flag
		}
	}
	set(flagWatermark, !m.Watermark.IsZero())
	set(flagGoodbye, m.Goodbye)
	set(flagFinal, m.Final)
	set(flagPayload, m.Payload != nil)
	set(flagReports, m.Reports)
	set(flagLagging, len(m.Lagging) > 0)
	b = append(b, flags)
	b = binary.AppendVarint(b, nanos(m.Sent))
	if flags&flagWatermark != 0 {
		b = binary.AppendVarint(b, nanos(m.Watermark))
	}
	if flags&flagLagging != 0 {
		b = appendLagging(b, m.Lagging)
	}
	return append(b, m.Payload...)
}

// ReadMessage decodes a message. Its payload aliases b and is not checked.
func ReadMessage(b []byte) (Message, error) {
	if len(b) > MaxMessage {
		return Message{}, fmt.Errorf("read message: %d bytes are more than %d", len(b), MaxMessage)
	}
	if len(b) <= len(magic) || string(b[:len(magic)]) != magic || b[len(magic)] == 0 {
		return Message{}, errors.New("read message: it does not come from crowsnest; only sinks.upstream of an agent may send to this address")
	}
	if b[len(magic)] > Version {
		return Message{}, fmt.Errorf("read message: %w", ErrVersion)
	}
	r := &reader{b: b[len(magic)+1:]}
	m := Message{Node: r.text("name", MaxName), Instance: r.text("name", maxInstance)}
	for range r.count("instances", MaxAfter) {
		m.After = append(m.After, r.text("name", maxInstance))
	}
	m.Sequence, m.First = r.uvarint(), r.uvarint()
	flags := byte(0)
	if f := r.take(1); f != nil {
		flags = f[0]
	}
	m.Sent = at(r.varint())
	if flags&flagWatermark != 0 {
		m.Watermark = at(r.varint())
	}
	if flags&flagLagging != 0 {
		m.Lagging = r.lagging()
	}
	m.Goodbye, m.Final, m.Reports = flags&flagGoodbye != 0, flags&flagFinal != 0, flags&flagReports != 0
	if flags&flagPayload != 0 {
		m.Payload = r.b
	} else if len(r.b) > 0 {
		r.fail(fmt.Errorf("%d bytes follow it", len(r.b)))
	}
	if r.err == nil {
		r.err = m.check()
	}
	if r.err != nil {
		return Message{}, fmt.Errorf("read message: %w", r.err)
	}
	return m, nil
}

func (m *Message) check() error {
	switch {
	case CheckName(m.Node) != nil:
		return CheckName(m.Node)
	case slices.ContainsFunc(append([]string{m.Instance}, m.After...), func(s string) bool { return CheckName(s) != nil }):
		return errors.New("an instance has only letters, digits, dots, dashes and underscores")
	case m.First == 0 || m.First > m.Sequence+1 || m.Payload != nil && (m.Sequence == 0 || m.First > m.Sequence):
		return fmt.Errorf("batch %d is impossible when the oldest that the agent keeps is %d", m.Sequence, m.First)
	case m.Sequence > 1<<62:
		return fmt.Errorf("no process has sent %d batches", m.Sequence)
	}
	return nil
}

// CheckName reports what is wrong with the name of a node. The name becomes part of
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
	// Taken is the last batch of this instance that was accepted, and Saved the last
	// one that is on disk: the agent need not keep it. The next batch to send is the
	// one after Taken.
	Taken uint64 `json:"taken"`
	Saved uint64 `json:"saved"`
	// Report identifies the aggregator's copy of this instance's report, and the rules
	// it was compared with. "" means none: the agent sends its report.
	Report string `json:"report,omitempty"`
}

// ReportAnswer is the aggregator's JSON response to a report.
type ReportAnswer struct {
	// Report is the value of Answer.Report until the agent must send its report again.
	Report string `json:"report"`
	// Behind are the rules that the aggregator has in another version, and since when.
	// The agent keeps the text of every line that its own version finds
	// (Builder.Whole), and reads older lines again when it gets that version.
	Behind map[string]time.Time `json:"behind,omitempty"`
}
