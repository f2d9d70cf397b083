package turns

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func opened() *Queue[string] {
	q := New[string]()
	q.Open()
	return q
}

func take(t *testing.T, q *Queue[string]) string {
	t.Helper()
	item, ok := q.Take()
	require.True(t, ok)
	return item
}

func TestItemsComeInOrderAndOnce(t *testing.T) {
	q := opened()
	for _, item := range []string{"a", "b", "a", "c"} {
		q.Add(item)
	}
	require.Equal(t, []string{"a", "b", "c"}, []string{take(t, q), take(t, q), take(t, q)})
}

// An item that is added while a worker has it gets another turn, after the worker is done
// and behind the items that wait.
func TestAnotherTurn(t *testing.T) {
	q := opened()
	q.Add("a")
	require.False(t, q.IsHeld("a"))
	require.False(t, q.IsIdle("a"), "a worker is about to take it")
	require.Equal(t, "a", take(t, q))
	require.True(t, q.IsHeld("a"))
	q.Add("a")
	q.Add("a")
	q.Add("b")
	require.False(t, q.Done("a", false))
	require.Equal(t, []string{"b", "a"}, []string{take(t, q), take(t, q)})
	require.False(t, q.Done("b", false))
	require.True(t, q.Done("a", false), "no item is left")
	require.True(t, q.IsIdle("a"))

	q.Add("a")
	take(t, q)
	require.False(t, q.Done("a", true), "it has more to do")
	require.Equal(t, "a", take(t, q))
}

func TestCloseWakesEveryWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := opened()
		for range 3 {
			go func() {
				_, ok := q.Take()
				require.False(t, ok)
			}()
		}
		synctest.Wait()
		q.Close()
		synctest.Wait() // a worker that still waits would fail the test at its end
		q.Add("a")
		_, ok := q.Take()
		require.False(t, ok, "closed")
		q.Open()
		q.Add("b")
		require.Equal(t, "b", take(t, q), "Open empties the queue")
	})
}

// AddAll wakes few workers, and no item waits while a worker is free.
func TestAddAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New[int]()
		q.Open()
		const items = 10_000 // also more than the queue keeps of items that were taken
		var mu sync.Mutex
		got := map[int]int{}
		for range 4 {
			go func() {
				for {
					i, ok := q.Take()
					if !ok {
						return
					}
					mu.Lock()
					got[i]++
					mu.Unlock()
					q.Done(i, false)
				}
			}()
		}
		all := make([]int, items)
		for i := range all {
			all[i] = i
		}
		synctest.Wait()
		q.AddAll(slices.Values(all))
		synctest.Wait()
		require.Len(t, slices.Collect(maps.Keys(got)), items)
		for _, n := range got {
			require.Equal(t, 1, n)
		}
		q.Close()
	})
}

// A worker that hangs keeps no other item waiting: the next call wakes another worker.
func TestAddAllBesideAHungWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := opened()
		taken := make(chan string, 2)
		for range 2 {
			go func() {
				if item, ok := q.Take(); ok {
					taken <- item // and never Done
				}
			}()
		}
		synctest.Wait()
		q.AddAll(slices.Values([]string{"hangs", "waits"})) // wakes one worker
		synctest.Wait()
		require.Equal(t, "hangs", <-taken)
		q.AddAll(slices.Values([]string{"hangs", "waits"}))
		synctest.Wait()
		require.Equal(t, "waits", <-taken)
		q.Close()
	})
}
