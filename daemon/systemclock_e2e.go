//go:build e2e

package daemon

import (
	"os"
	"sync/atomic"
	"time"
)

// stopped is when the clock stopped; nil: it runs.
var stopped atomic.Pointer[time.Time]

// systemClock is a clock that stands still while the file named by the variable
// CROWSNEST_STOPPED_CLOCK exists: tests with real processes make a leader lead that has
// lost its lease.
func systemClock() time.Time {
	name := os.Getenv("CROWSNEST_STOPPED_CLOCK")
	if name == "" {
		return time.Now()
	}
	if _, err := os.Stat(name); err != nil {
		stopped.Store(nil)
		return time.Now()
	}
	now := time.Now()
	stopped.CompareAndSwap(nil, &now)
	if at := stopped.Load(); at != nil {
		return *at
	}
	return now
}
