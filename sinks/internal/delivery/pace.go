package delivery

import (
	"context"
	"time"
)

// Drain is the time for which Run continues after its context has ended.
const Drain = 3 * time.Second

// drainContext returns a context for requests, which ends Drain after ctx. cancel ends it
// immediately and releases its resources.
func drainContext(ctx context.Context) (reqs context.Context, cancel func()) {
	reqs, end := context.WithCancel(context.WithoutCancel(ctx))
	last := time.AfterFunc(1<<62, end)
	stop := context.AfterFunc(ctx, func() { last.Reset(Drain) })
	return reqs, func() {
		stop()
		last.Stop()
		end()
	}
}
