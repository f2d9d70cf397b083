// Package pause waits, and computes how long to wait after failures.
package pause

import (
	"context"
	"time"
)

// Sleep waits for d, for wake or for the end of ctx. It reports whether ctx has not
// ended. wake may be nil.
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
