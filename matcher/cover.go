package matcher

import (
	"math/bits"
	"time"
)

// Line is a logical line, of which only one thing about the rules is known. Its text
// belongs to the Buffer.
type Line struct {
	Text string
	// Time is as in Hit.
	Time time.Time
	// Number is as LineNumber in Hit.
	Number int64
	// Covered means that the line matches a part of a rule, whatever its role.
	Covered bool
}

// NewLineBuffer returns a buffer. The calls that use it return no hits, and every line
// instead: of a line that matches, the first part that does is enough. The streams must not
// join records.
func NewLineBuffer() *Buffer { return &Buffer{everyLine: true} }

// Lines returns the lines of the last call, in the order in which they were completed. They
// are valid until the next one.
func (b *Buffer) Lines() []Line { return b.lines }

// keep adds a line to those of the buffer.
func (r *run) keep(text []byte, at moment, covered bool) {
	at = r.resolve(at)
	r.buf.lines = append(r.buf.lines, Line{Text: r.buf.textOf(text), Time: at.time, Number: at.number, Covered: covered})
}

// covered reports whether a marked part holds for a line, and unmarks all.
func (r *run) covered(text []byte) (yes bool) {
	sc := r.sc
	sc.read(text, r.fields...)
	for w, mask := range sc.marks {
		sc.marks[w] = 0
		for ; mask != 0 && !yes; mask &= mask - 1 {
			yes = r.holds(r.part(w<<6|bits.TrailingZeros64(mask)), text)
		}
	}
	return yes
}

// holds reports whether a part holds for a line. A panic counts as in tryPart.
func (r *run) holds(pt *part, text []byte) (yes bool) {
	if pt.meter.quarantined() {
		return false
	}
	defer func() {
		if recover() != nil {
			pt.meter.state.Add(1)
		}
	}()
	if len(r.sc.states) < pt.conds {
		r.sc.states = make([]condState, pt.conds)
	}
	return pt.holds(r.sc, text)
}
