package hits

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
)

// How agents reach the aggregator.
const (
	// Path takes messages, by POST. Below NodePath a node is forgotten, by DELETE.
	Path     = "/api/v1/agents/hits"
	NodePath = "/api/v1/agents/nodes/"
	// ContentType is that of a message.
	ContentType = "application/vnd.crowsnest.hits"
	// ProcessHeader is in every answer of an aggregator, with a name that its process
	// drew by lot at its start. A GET of Path asks for nothing else.
	ProcessHeader = "Crowsnest-Process"
	// Header is in every answer of an aggregator, with the version it speaks.
	Header = "Crowsnest-Agents"
	// MaxMessage is the size of a message: a batch and what is around it.
	MaxMessage = MaxPayload + 4<<10
	// MaxAfter is how many instances before its own an agent names.
	MaxAfter = 16
	// MaxName is the length of the name of a node, in bytes.
	MaxName = 253
)

// Version is the version of the format. A reader refuses what is newer.
const Version = 1

// ErrVersion is returned for a message of a newer version.
var ErrVersion = errors.New("the agent speaks a newer version of the protocol; update the aggregator first")

const magic = "CNH"

// instanceMost is the length of an instance, in bytes.
const instanceMost = 64

// Message is what an agent sends.
type Message struct {
	// Node is the name of the sender, Instance a random text that its process
	// chose at its start.
	Node, Instance string
	// After are the instances before it that used the same saved state: the last
	// one that is known to have been let in, and those that came since.
	After []string
	// Sequence is the number of the batch, from 1 on. Without a batch it is that
	// of the last one, 0 if there was none.
	Sequence uint64
	// First is the oldest batch that the agent still has, or the next one if it
	// has none: what is older cannot be sent again.
	First uint64
	// Sent is when it was sent, by the clock of the agent.
	Sent time.Time
	// Watermark is up to when everything that the agent reads is in this batch and
	// those before it; zero: not known.
	Watermark time.Time
	// Goodbye says that the agent stops, and Final that it will not come back.
	Goodbye, Final bool
	// Reports says that the agent also sends reports (Report).
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
	flagReports // aggregators that do not know it ignore it
)

// Append writes the message behind b.
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
	b = append(b, flags)
	b = binary.AppendVarint(b, nanos(m.Sent))
	if flags&flagWatermark != 0 {
		b = binary.AppendVarint(b, nanos(m.Watermark))
	}
	return append(b, m.Payload...)
}

// ReadMessage reads a message. Its payload is part of b and is not looked at.
func ReadMessage(b []byte) (Message, error) {
	if len(b) > MaxMessage {
		return Message{}, fmt.Errorf("read message: %d bytes are more than %d", len(b), MaxMessage)
	}
	if len(b) <= len(magic) || string(b[:len(magic)]) != magic || b[len(magic)] == 0 {
		return Message{}, errors.New("read message: it is none of crowsnest's; point sinks.upstream of an agent here, and nothing else")
	}
	if b[len(magic)] > Version {
		return Message{}, fmt.Errorf("read message: %w", ErrVersion)
	}
	r := &reader{b: b[len(magic)+1:]}
	m := Message{Node: r.name(MaxName), Instance: r.name(instanceMost)}
	for range r.count("instances", MaxAfter) {
		m.After = append(m.After, r.name(instanceMost))
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

// name reads a text that is at most so long.
func (r *reader) name(most uint64) string {
	n := r.uvarint()
	if n > most {
		r.fail(fmt.Errorf("a name has %d bytes, at most %d are allowed", n, most))
		return ""
	}
	return string(r.take(n))
}

func (m *Message) check() error {
	switch {
	case CheckName(m.Node) != nil:
		return CheckName(m.Node)
	case slices.ContainsFunc(append([]string{m.Instance}, m.After...), func(s string) bool { return CheckName(s) != nil }):
		return errors.New("an instance has only letters, digits, dots, dashes and underscores")
	case m.First == 0 || m.First > m.Sequence+1 || m.Payload != nil && (m.Sequence == 0 || m.First > m.Sequence):
		return fmt.Errorf("batch %d with %d as the first is not possible", m.Sequence, m.First)
	case m.Sequence > 1<<62:
		return fmt.Errorf("no process has sent %d batches", m.Sequence)
	}
	return nil
}

// CheckName tells what is wrong with the name of a node. It becomes part of
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

// Answer is what the aggregator says to a message, as JSON.
type Answer struct {
	// Taken is the last batch of this instance that was taken, and Saved the last
	// one that is on the disk: it need not be kept any longer. The next batch to
	// send is the one after Taken.
	Taken uint64 `json:"taken"`
	Saved uint64 `json:"saved"`
	// Report identifies the report that the aggregator holds of this instance, and
	// the rules it was compared with. "" means none: the agent sends its report.
	Report string `json:"report,omitempty"`
}

// ReportAnswer is what the aggregator says to a report, as JSON.
type ReportAnswer struct {
	// Report is what Answer has from now on, until the agent has to send it again.
	Report string `json:"report"`
	// Behind are the rules that the aggregator has in another version, and since
	// when. The agent keeps the text of every line that its own version finds
	// (Builder.Whole), and looks at older lines again when it has that version.
	Behind map[string]time.Time `json:"behind,omitempty"`
}
