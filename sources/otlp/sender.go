package otlp

import (
	"time"

	"crowsnest/internal/times"
)

// maxMarks is the largest number of marks of a sender.
const maxMarks = 32

// sender is the state of one sender. Source.mu guards it.
type sender struct {
	heard  time.Time // time of the newest request with records of the sender
	newest time.Time // time of its newest record, but not after its arrival
	marks  []mark    // marks that are not old enough yet, from old to new
	// proven is the watermark. It is zero until a mark is old enough.
	proven time.Time
	// arrived is set when a record has arrived in this process. Records that arrived in an earlier process prove
	// nothing, because the collector could not send while no process ran.
	arrived bool
}

// mark states that a record of a time had arrived at another time.
type mark struct{ record, arrived time.Time }

// accept notes that a record of the sender has arrived.
func (x *sender) accept(record, now time.Time) {
	x.heard, x.newest, x.arrived = now, times.Max(x.newest, times.Min(record, now)), true
}

// advance moves the watermark to the newest record that arrived at least lateness ago. It reports whether the watermark
// moved.
func (x *sender) advance(now time.Time, lateness time.Duration) bool {
	last := mark{record: x.proven}
	if n := len(x.marks); n > 0 {
		last = x.marks[n-1]
	}
	if x.arrived && x.newest.After(last.record) && now.Sub(last.arrived) >= lateness/maxMarks {
		x.marks = append(x.marks, mark{x.newest, now})
	}
	moved := false
	for len(x.marks) > 0 && now.Sub(x.marks[0].arrived) >= lateness {
		x.proven, x.marks, moved = x.marks[0].record, x.marks[1:], true
	}
	return moved
}

// restart makes the marks count from now on.
func (x *sender) restart(now time.Time) {
	for i := range x.marks {
		x.marks[i].arrived = now
	}
}

// followClock moves the times of this process's clock after the clock was set back. Otherwise a mark in the future would
// hold the watermark for as long as the clock was set back.
func (x *sender) followClock(now time.Time) {
	for i := range x.marks {
		x.marks[i].arrived = times.Min(x.marks[i].arrived, now)
	}
	x.heard, x.newest = times.Min(x.heard, now), times.Min(x.newest, now)
}
