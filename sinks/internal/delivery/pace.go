package delivery

import (
	"context"
	"math/rand/v2"
	"time"
)

// Drain is how long Run goes on after its context.
const Drain = 3 * time.Second

// Outlive returns a context for requests, which ends Drain after ctx. cancel ends
// it at once and frees what it takes.
func DrainContext(ctx context.Context) (reqs context.Context, cancel func()) {
	reqs, end := context.WithCancel(context.WithoutCancel(ctx))
	last := time.AfterFunc(1<<62, end)
	stop := context.AfterFunc(ctx, func() { last.Reset(Drain) })
	return reqs, func() {
		stop()
		last.Stop()
		end()
	}
}

// Sleep returns after d, when wake says so, or when ctx ends.
func Sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-wake:
	case <-ctx.Done():
	}
}

// Backoff says how long to wait after a failure: after each about twice as long
// as after the one before, from First up to Max. It is not safe for concurrent
// use.
type Backoff struct {
	First, Max time.Duration // at least 2 ns

	last time.Duration
}

// Next returns the next wait: half of it is by lot, so that not everybody comes
// back at once.
func (b *Backoff) Next() time.Duration {
	b.last = min(max(2*b.last, b.First), b.Max)
	return b.last/2 + rand.N(b.last/2)
}

// Reset forgets the failures.
func (b *Backoff) Reset() { b.last = 0 }
