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

// Name returns how the part is written for people: "clear", "unless", "match",
// or "sequence_2" for the second step of a sequence.
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

// Labels are the labels of a stream. A label with an empty value is missing.
type Labels map[string]string

// Hit says that one line plays one part for one rule. It owns its memory unless it
// is in that of a Buffer; the maps and the rule are shared and must not be changed.
//
// The hits of one line and rule come in the order clear, unless, steps.
type Hit struct {
	Rule *rules.Rule
	Part Part
	// Time is the event time. TextTime tells that it was parsed out of the
	// text because the envelope has none.
	Time     time.Time
	TextTime bool
	// Line is the text without its envelope and without a trailing CR, cut at
	// MaxLine.
	Line string
	// LineNumber counts physical lines of the stream from 1; of a line that was
	// joined it is the number of the first part.
	LineNumber int64
	// Values belong to Rule.CapturedNames, one by one: captures, then stream labels,
	// then fields of the line. "" means that there is none.
	Values []string
	Labels Labels
	// ID is the fingerprint of the line: of the stream's identity, its time as
	// it was read, and its text, and of its place if equal lines have the same time and
	// the source knows places. A line has the same ID over restarts. One
	// that states no time has the time of its arrival and its number instead.
	ID uint64
}

// Bounds of a line, in bytes.
const (
	MaxLine   = 16 << 10 // what is matched of a line
	MaxMerged = 64 << 10 // what is kept while parts are joined
)
