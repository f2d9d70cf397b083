// Package pause waits, and computes how long to wait after failures.
package pause

import (
	"context"
	"time"
)

// Sleep waits until d has passed, until it can receive from wake, or until ctx ends. It returns false if ctx has ended.
// wake may be nil.
func Sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-ctx.Done():
		case <-wake:
		case <-t.C:
		}
	}
	return ctx.Err() == nil
}

// Wake ends a Sleep that waits for the channel, or else the next one. The channel must have room for one value.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
