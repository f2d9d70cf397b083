package casefile

import (
	"bytes"
	"cmp"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/internal/times"
	"crowsnest/matcher"
	"crowsnest/replay"
)

// maxEdge bounds the bytes at the beginning and at the end of an input in which a time is
// searched.
const maxEdge = 2 << 10

// Spans observes from when to when recorded inputs have lines.
type Spans struct {
	now  time.Time
	seen []*seen
}

type seen struct {
	source      string // kind
	node        string // node that a journal comes from
	lines       int64
	from, until time.Time
}

// Observe returns the inputs in a form that notes what is read from them. Each may be opened
// once. The earlier of now and Until of an input supplies the year
// of times without one.
func Observe(inputs []replay.Input, now time.Time) ([]replay.Input, *Spans) {
	s := &Spans{now: now}
	out := slices.Clone(inputs)
	for i, in := range inputs {
		labels := in.StreamLabels()
		of := &seen{source: sourceOf(labels)}
		if of.source == sourceJournal {
			of.node = strings.Clone(cmp.Or(labels["node"], labels["node_name"]))
		}
		s.seen = append(s.seen, of)
		out[i].Open = func() (io.ReadCloser, error) {
			rc, err := in.Open()
			if err != nil {
				return nil, err
			}
			return &observed{ReadCloser: rc, of: of, until: in.Latest(now)}, nil
		}
	}
	return out, s
}

// observed notes the first and the last time of what is read.
type observed struct {
	io.ReadCloser
	of         *seen
	until      time.Time // supplies the year of times without one
	head, tail []byte
	began      bool
	broken     bool // the last line has no end
}

// Read reads from the input. At its end it notes the times.
func (o *observed) Read(p []byte) (int, error) {
	n, err := o.ReadCloser.Read(p)
	o.note(p[:n])
	if err != nil {
		o.end()
	}
	return n, err
}

func (o *observed) note(data []byte) {
	if len(data) == 0 {
		return
	}
	o.of.lines += int64(bytes.Count(data, []byte("\n")))
	o.broken = data[len(data)-1] != '\n'
	if !o.began {
		o.head = append(o.head, data[:min(len(data), maxEdge-len(o.head))]...)
		if len(o.head) == maxEdge {
			o.begin()
		}
	}
	data = data[max(0, len(data)-maxEdge):]
	o.tail = append(o.tail[max(0, min(len(o.tail), len(o.tail)+len(data)-maxEdge)):], data...)
}

func (o *observed) begin() {
	o.began = true
	for l := range bytes.Lines(o.head) {
		if t, ok := matcher.TimeOf(bytes.TrimRight(l, "\r\n"), o.until); ok {
			o.of.from = t
			break
		}
	}
	o.head = nil
}

// end notes the times of what was read, once.
func (o *observed) end() {
	if !o.began {
		o.begin()
	}
	if o.tail == nil {
		return
	}
	if o.broken {
		o.of.lines++
		o.broken = false
	}
	all := bytes.Split(bytes.TrimRight(o.tail, "\r\n"), []byte("\n"))
	for _, l := range slices.Backward(all) {
		if t, ok := matcher.TimeOf(bytes.TrimRight(l, "\r"), o.until); ok {
			o.of.until = t
			break
		}
	}
	o.tail = nil
}

// Close closes the input.
func (o *observed) Close() error {
	o.end()
	return o.ReadCloser.Close()
}

// sources sums the inputs up by their kind and, for journals, by node.
func (s *Spans) sources() []Source {
	by := map[string]*Source{}
	for _, in := range s.seen {
		name := in.source
		if in.node != "" {
			name += " of node " + in.node
		}
		of := by[name]
		if of == nil {
			of = &Source{Name: name}
			by[name] = of
		}
		of.Streams++
		of.Lines += in.lines
		if !in.from.IsZero() && (of.From == nil || in.from.Before(*of.From)) {
			of.From = optional(in.from)
		}
		if of.Until == nil {
			of.Until = optional(in.until)
		} else {
			of.Until = optional(times.Later(*of.Until, in.until))
		}
	}
	out := []Source{}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		out = append(out, *by[name])
	}
	return out
}
