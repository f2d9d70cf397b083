package daemon

import (
	"context"
	"sync"
	"time"
)

// group runs functions until it is stopped.
type group struct {
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func newGroup(ctx context.Context) *group {
	g := &group{}
	g.ctx, g.cancel = context.WithCancel(ctx)
	return g
}

// start starts f, which must return soon after its context ends.
func (g *group) start(f func(context.Context)) { g.wg.Go(func() { f(g.ctx) }) }

func startGroup(ctx context.Context, f func(context.Context)) *group {
	g := newGroup(ctx)
	g.start(f)
	return g
}

// stop ends the context and waits for the functions until timeout. It reports whether all have returned.
func (g *group) stop(timeout time.Duration) bool {
	g.cancel()
	done := make(chan struct{})
	go func() {
		g.wg.Wait()
		close(done)
	}()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
