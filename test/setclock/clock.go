// Package setclock provides a clock for tests that can be set as an operator or NTP sets
// a machine's clock: the wall clock jumps, and elapsed time does not.
package setclock

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// Clock shows the wall clock plus an offset. The zero value has none. It is safe for
// concurrent use.
type Clock struct{ ahead atomic.Int64 } // seconds

// Set moves the clock by d, a whole number of seconds, forward or back.
func (c *Clock) Set(d time.Duration) { c.ahead.Add(int64(d / time.Second)) }

// Ahead returns the offset.
func (c *Clock) Ahead() time.Duration { return time.Duration(c.ahead.Load()) * time.Second }

// The highest bit of the first word of a time.Time says that it has a monotonic reading. Then the seconds since 1885 are
// above the 30 bits of the nanoseconds, and the second word is the reading.
const (
	hasMonotonic = 1 << 63
	nanosBits    = 30
	from1885     = 2682288000 // seconds until 1970
)

// bubble is when the time of a synctest bubble begins.
var bubble = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Now returns what time.Now would return on a machine whose clock was set: the wall
// clock is off, the monotonic reading is not. Package time cannot create such a time, so
// Now builds it by hand; the test of this package fails if the layout changes. In a
// synctest bubble, where times have no monotonic reading, it adds one.
func (c *Clock) Now() time.Time {
	t := time.Now()
	words := (*[2]uint64)(unsafe.Pointer(&t))
	if words[0]&hasMonotonic == 0 {
		elapsed := t.Sub(bubble)
		words[0] = hasMonotonic | uint64(t.Unix()+from1885)<<nanosBits | uint64(t.Nanosecond())
		words[1] = uint64(elapsed + 1)
	}
	words[0] += uint64(c.ahead.Load()) << nanosBits
	return t
}
