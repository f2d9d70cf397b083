// Package setclock has a clock for tests that can be set as an operator or NTP
// sets that of a machine: the time of day leaps, and what has passed does not.
package setclock

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// Clock shows the time of day, but for how far it was set. The zero value is
// right. It is safe for concurrent use.
type Clock struct{ ahead atomic.Int64 } // seconds

// Set sets the clock by d, a number of seconds, ahead or back.
func (c *Clock) Set(d time.Duration) { c.ahead.Add(int64(d / time.Second)) }

// Ahead is how far the clock is ahead of the right time.
func (c *Clock) Ahead() time.Duration { return time.Duration(c.ahead.Load()) * time.Second }

// Of the first word of a time, the highest bit tells that there is a monotonic
// reading. Then there are seconds above the 30 bits of the nanoseconds.
const (
	hasMonotonic = 1 << 63
	nanosBits    = 30
)

// Now returns what time.Now would return on a machine whose clock was set: the
// wall clock is off, the monotonic reading is not. Package time has no way to
// make such a time, so it is made by hand; the test of this package fails if its
// layout changes. In a bubble of testing/synctest times have no monotonic
// reading: there the clock leaps and so does what has passed.
func (c *Clock) Now() time.Time {
	t := time.Now()
	word := (*uint64)(unsafe.Pointer(&t))
	if *word&hasMonotonic == 0 {
		return t.Add(c.Ahead())
	}
	*word += uint64(c.ahead.Load()) << nanosBits
	return t
}
