package matcher

import (
	"strconv"
	"time"

	"crowsnest/rules"
)

// Part is the role of a matcher in a rule.
type Part int

// Parts of a rule. The steps of a sequence count from 0. `match` is step 0.
const (
	PartClear  Part = -2
	PartUnless Part = -1
)

// Name returns the name of the part for people: "clear", "unless", "match", or "sequence_2" for the second step of a
// sequence.
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

// Hit is one line that matches one part of one rule. It owns its memory unless it comes from a call with a Buffer. Its
// maps and its rule are shared and read-only.
//
// The hits of the same line and rule come in the order clear, unless, steps.
type Hit struct {
	Rule *rules.Rule
	Part Part
	// Time is the event time. TextTime means that the time was read from the text, because the envelope has no time.
	// Untimed means that neither the line nor an earlier line has a time. Then Time is the time of arrival.
	Time     time.Time
	TextTime bool
	Untimed  bool
	// ClockShift is Time minus the timestamp of the line. It is not zero if the clock that wrote the timestamp was set since
	// then.
	ClockShift time.Duration
	// Line is the text without its CRI or Docker envelope and without a trailing CR, truncated at MaxLine.
	Line string
	// LineNumber counts physical lines of the stream from 1. A logical line has the number of its first physical line.
	LineNumber int64
	// Values has one value for each of Rule.CapturedNames: a capture, otherwise a stream label,
	// otherwise a field of the line. It is "" if there is none.
	Values []string
	Labels Labels
	// ID is the fingerprint of the line. It is a hash of the stream's identity, the line's original time, and its text.
	// If the source reports offsets, equal lines with the same time get different IDs. An ID survives restarts. If a
	// line has no time, the time of arrival and the line number replace it. The ID is 0 if the Buffer is from
	// NewBufferWithoutIDs. If a whole panic adds values to the hit of one of its lines, the new hit has the bitwise
	// complement of that hit's ID.
	ID uint64
}

// Limits of a line, in bytes.
const (
	MaxLine   = 16 << 10 // maximum number of bytes of a line that are matched
	maxMerged = 64 << 10 // maximum number of bytes that are read while the parts of a line are joined
)
