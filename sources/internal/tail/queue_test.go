package tail

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"crowsnest/internal/pause"
)

func newIdleFollower() *follower { return &follower{streamState: &streamState{}} }

func TestFollowersComeInOrderAndOnce(t *testing.T) {
	q := newQueue(8)
	a, b, c := newIdleFollower(), newIdleFollower(), newIdleFollower()
	for _, f := range []*follower{a, b, a, c} {
		q.add(f)
	}
	for _, f := range []*follower{a, b, c} {
		require.Same(t, f, q.take(t.Context()))
	}
	require.Empty(t, q.waiting)
}

// A follower that is added while a worker has it gets another turn, after the worker is done
// and behind the followers that wait.
func TestAnotherTurn(t *testing.T) {
	q := newQueue(8)
	a, b := newIdleFollower(), newIdleFollower()
	q.add(a)
	require.Equal(t, turnQueued, a.turn.Load(), "a worker is about to take it")
	require.Same(t, a, q.take(t.Context()))
	require.Equal(t, turnRunning, a.turn.Load())
	q.add(a)
	q.add(a)
	q.add(b)
	require.False(t, q.done(a, false))
	require.Same(t, b, q.take(t.Context()))
	require.Same(t, a, q.take(t.Context()))
	require.False(t, q.done(b, false))
	require.True(t, q.done(a, false), "no follower is left")
	require.Equal(t, turnIdle, a.turn.Load())

	q.add(a)
	require.Same(t, a, q.take(t.Context()))
	require.False(t, q.done(a, true), "it has more to do")
	require.Same(t, a, q.take(t.Context()))
}

func TestTakeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(8)
		ctx, cancel := context.WithCancel(t.Context())
		var workers sync.WaitGroup
		for range 3 {
			workers.Go(func() { require.Nil(t, q.take(ctx)) })
		}
		synctest.Wait()
		cancel()
		workers.Wait()
		q.add(newIdleFollower())
		require.Nil(t, q.take(ctx))
	})
}

// Followers that are added by many goroutines while workers have them get a turn after each
// addition, and never two at the same time.
func TestConcurrentTurns(t *testing.T) {
	const followers, rounds = 50, 200
	q := newQueue(followers)
	var all []*follower
	var held [followers]sync.Mutex
	var added, seen [followers]int
	for range followers {
		all = append(all, newIdleFollower())
	}
	index := map[*follower]int{}
	for i, c := range all {
		index[c] = i
	}
	var add [followers]sync.Mutex
	ctx, cancel := context.WithCancel(t.Context())
	var workers, adders sync.WaitGroup
	idle := make(chan struct{}, 1)
	for range 4 {
		workers.Go(func() {
			for c := q.take(ctx); c != nil; c = q.take(ctx) {
				i := index[c]
				require.True(t, held[i].TryLock(), "two workers have the same follower")
				add[i].Lock()
				seen[i] = added[i]
				add[i].Unlock()
				held[i].Unlock()
				if q.done(c, false) {
					pause.Wake(idle)
				}
			}
		})
	}
	for range 3 {
		adders.Go(func() {
			for range rounds {
				for i, c := range all {
					add[i].Lock()
					added[i]++
					add[i].Unlock()
					q.add(c)
				}
			}
		})
	}
	adders.Wait()
	for q.busy.Load() > 0 {
		<-idle
	}
	cancel()
	workers.Wait()
	require.Equal(t, added, seen)
}
