package matcher

import (
	"strconv"
	"time"

	"crowsnest/rules"
)

// Part is the role that a line plays for a rule.
type Part int

// The parts. Steps count from 0; the matcher of `match` is step 0.
const (
	PartClear  Part = -2
	PartUnless Part = -1
)

// Name returns the name of the part for people: "clear", "unless", "match", or
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

// From returns the selector of the streams whose lines the part reads. The rule must have
// the part.
func (p Part) From(r *rules.Rule) rules.Selector {
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
	// Time is the event time. TextTime means that it was parsed from the text because
	// the envelope has none, and Untimed that neither the line nor one before it states one: it is
	// the time of arrival.
	Time     time.Time
	TextTime bool
	Untimed  bool
	// Moved is how far Time is from the timestamp of the line, because the clock that made it was set since.
	Moved time.Duration
	// Line is the text without its envelope and without a trailing CR, truncated at
	// MaxLine.
	Line string
	// LineNumber counts physical lines of the stream from 1; of a line that was
	// joined it is the number of the first part.
	LineNumber int64
	// Values belong to Rule.CapturedNames, one by one: captures, then stream labels,
	// then fields of the line. "" means that there is none.
	Values []string
	Labels Labels
	// ID is the fingerprint of the line: of the stream's identity, the line's time as it
	// was read, and its text; and of its place, if equal lines have the same time and the
	// source knows places. It survives restarts. For a line that states no time, the time
	// of arrival and the line number take the place of its time. It is 0 if the Buffer is of
	// NewBufferWithoutIDs.
	ID uint64
}

// Bounds of a line, in bytes.
const (
	MaxLine   = 16 << 10 // bytes of a line that are matched
	maxMerged = 64 << 10 // bytes that are stored while parts are joined
)
