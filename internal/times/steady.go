package times

import "time"

// Steady is a clock that nobody sets: a wall clock as it was read once, and what has elapsed since.
type Steady struct{ began time.Time }

// NewSteady returns a clock that shows now.
func NewSteady(now time.Time) Steady { return Steady{now} }

// Ahead returns how far the wall clock was set ahead of the steady one between the first reading and now. It is
// negative if the wall clock was set back, and zero without monotonic readings.
func (s Steady) Ahead(now time.Time) time.Duration { return Stepped(s.began, now) }

// Now returns what the clock shows when the wall clock shows now.
func (s Steady) Now(now time.Time) time.Time { return now.Round(0).Add(-s.Ahead(now)) }

// Stepped returns how far the wall clock was set ahead between two of its readings. It is negative if the wall clock
// was set back, and zero without monotonic readings.
func Stepped(from, to time.Time) time.Duration {
	return to.Round(0).Sub(from.Round(0)) - to.Sub(from)
}
