//go:build !e2e

package daemon

import "time"

// systemClock is the clock of all parts unless Options has another one.
func systemClock() time.Time { return time.Now() }
