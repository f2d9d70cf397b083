package matcher

import (
	"strconv"
	"time"

	"crowsnest/rules"
)

// Part is the role that a line plays for a rule.
type Part int

// Parts of a rule. Steps count from 0. `match` is step 0.
const (
	PartClear  Part = -2
	PartUnless Part = -1
)

// Name returns the name of the part as people see it: "clear", "unless", "match", or
// "sequence_2" for the second step of a sequence.
func (p Part) Name(r *rules.Rule) string {
	switch {
	case p == PartClear:
		return "clear"
	case p == PartUnless:
		return "unless"
	case !r.Sequence:
		return "match"
	}
	return "sequence_" + strconv.Itoa(int(p)+1)
}

// SelectorOf returns the selector of the streams whose lines the part reads. The rule must have
// the part.
func (p Part) SelectorOf(r *rules.Rule) rules.Selector {
	switch p {
	case PartClear:
		return r.Clear.From
	case PartUnless:
		return r.Unless.From
	}
	return r.Steps[p].From
}

// Labels are the labels of a stream. A label with an empty value is missing.
type Labels map[string]string

// Hit is one line that matches one part of one rule. It owns its memory unless a Buffer
// does; the maps and the rule are shared and read-only.
//
// The hits of one line and rule come in the order clear, unless, steps.
type Hit struct {
	Rule *rules.Rule
	Part Part
	// Time is the event time. TextTime means that it was read from the text because the
	// envelope has no time. Untimed means that neither the line nor an earlier one states a
	// time, so that Time is the time of arrival.
	Time     time.Time
	TextTime bool
	Untimed  bool
	// Moved is the difference between Time and the timestamp of the line, if the clock that
	// wrote the timestamp was changed since.
	Moved time.Duration
	// Line is the text without its envelope and without a trailing CR, truncated at
	// MaxLine.
	Line string
	// LineNumber counts physical lines of the stream from 1. For a line that was joined, it is
	// the number of its first part.
	LineNumber int64
	// Values has one value for each of Rule.CapturedNames: a capture, otherwise a stream label,
	// otherwise a field of the line. It is "" if there is none.
	Values []string
	Labels Labels
	// ID is the fingerprint of the line. It is made of the stream's identity, the line's time
	// as it was read, and its text. If equal lines have the same time and the source knows
	// places, it is also made of the place. It survives restarts. For a line that states no
	// time, the time of arrival and the line number take the place of its time. It is 0 if the
	// Buffer is of NewBufferWithoutIDs. If a whole panic matches again, with more values, the
	// hit has the complement of the ID of the line's hit.
	ID uint64
}

// Bounds of a line, in bytes.
const (
	MaxLine   = 16 << 10 // number of bytes of a line that are matched
	maxMerged = 64 << 10 // number of bytes that are stored while the parts of a line are joined
)
