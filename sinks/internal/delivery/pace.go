package delivery

import (
	"context"
	"math/rand/v2"
	"time"
)

// Drain is how long Run continues after its context ended.
const Drain = 3 * time.Second

// drainContext returns a context for requests, which ends Drain after ctx. cancel
// ends it at once and releases its resources.
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

// Backoff computes the wait after a failure: about twice the one before, from First
// up to Max. It is not safe for concurrent use.
type Backoff struct {
	First, Max time.Duration // at least 2 ns

	last time.Duration
}

// Next returns the next wait. Half of it is random, so that clients do not all
// return at once.
func (b *Backoff) Next() time.Duration {
	b.last = min(max(2*b.last, b.First), b.Max)
	return b.last/2 + rand.N(b.last/2)
}

// Reset forgets the failures.
func (b *Backoff) Reset() { b.last = 0 }
