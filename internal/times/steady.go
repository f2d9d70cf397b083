package times

import "time"

// Steady is a clock that setting the wall clock does not change. It consists of one reading of the wall clock and the
// time that has elapsed since then.
type Steady struct{ began time.Time }

// NewSteady returns a clock that now shows the time now.
func NewSteady(now time.Time) Steady { return Steady{now} }

// SetAhead returns the duration by which the wall clock was set ahead between the first reading and now. It is negative
// if the wall clock was set back. It is zero if one of the two readings has no monotonic part.
func (s Steady) SetAhead(now time.Time) time.Duration { return ClockStep(s.began, now) }

// Now returns the time of this clock at the moment when the wall clock shows now.
func (s Steady) Now(now time.Time) time.Time { return now.Round(0).Add(-s.SetAhead(now)) }

// ClockStep returns the duration by which the wall clock was set ahead between two of its readings. It is negative if the
// wall clock was set back. It is zero if one of the readings has no monotonic part.
func ClockStep(earlier, later time.Time) time.Duration {
	return later.Round(0).Sub(earlier.Round(0)) - later.Sub(earlier)
}
