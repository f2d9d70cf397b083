// Package daemon gets this file in a binary of the tests.
package daemon

import (
	"os"
	"sync/atomic"
	"time"
)

// stopped is when the clock stopped; nil: it runs.
var stopped atomic.Pointer[time.Time]

// stoppedClock stands still while the file named by CROWSNEST_STOPPED_CLOCK exists.
func stoppedClock() time.Time {
	now := time.Now()
	if _, err := os.Stat(os.Getenv("CROWSNEST_STOPPED_CLOCK")); err != nil {
		stopped.Store(nil)
		return now
	}
	if stopped.CompareAndSwap(nil, &now) {
		return now
	}
	if at := stopped.Load(); at != nil {
		return *at
	}
	return now
}
