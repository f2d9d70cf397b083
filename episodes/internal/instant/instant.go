// Package instant converts times to nanoseconds since 1970, and corrects those of before the
// clock was set.
package instant

import (
	"math"
	"time"
)

// end2200 is the end of the year 2200 in seconds since 1970.
const end2200 = 7289654400

// Of returns a time in nanoseconds since 1970, clamped to what fits.
func Of(t time.Time) int64 {
	switch s := t.Unix(); {
	case s < 0:
		return 0
	case s >= end2200:
		return math.MaxInt64 / 2
	}
	return t.UnixNano()
}

// Time is the inverse of Of, in UTC.
func Time(ns int64) time.Time { return time.Unix(0, ns).UTC() }

// Step is the last time that the clock was set. The zero value means that it was not.
type Step struct {
	Old int64 // what it showed before
	By  int64 // how far it was set, ahead or back
	// slack is how far ahead of the clock a new line may be, because the clock of its node
	// is ahead.
	slack int64
}

// Set returns the step of a clock that was set by some time and now shows now.
func Set(by, now int64) Step { return Step{Old: now - by, By: by} }

// maxAfterSave bounds the time between a snapshot and the setting of the clock, in which
// lines were written.
const maxAfterSave = int64(time.Minute)

// SetBack returns the step of a clock that was set back after a snapshot, at saved, and now
// shows now.
func SetBack(saved, now int64) Step {
	by := now - saved
	return Step{Old: saved + maxAfterSave, By: by, slack: -by / 2}
}

// Corrected returns the time of a line as the clock shows it now: a line may be written
// before the clock is set and read after it.
func (s Step) Corrected(t, now int64) int64 {
	switch {
	case s.By > 0 && t <= s.Old:
		return t + s.By
	case s.By < 0 && t <= s.Old && t > now+s.slack: // the clock has not reached t again
		return min(t+s.By, now)
	}
	return t
}
