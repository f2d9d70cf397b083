package lead

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"crowsnest/test/setclock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errAway = errors.New("away")

// memory is a store in memory.
type memory struct {
	mu       sync.Mutex
	rec      Record
	revision int
	away     map[string]bool // by holder that asks
}

// from returns the store as one process sees it.
func (m *memory) from(id string) Store { return &view{m, id} }

type view struct {
	*memory
	id string
}

func (v *view) Where() string { return "memory" }

func (v *view) Get(context.Context) (Record, string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.away[v.id] {
		return Record{}, "", errAway
	}
	if v.revision == 0 {
		return Record{}, "", nil
	}
	return v.rec, strconv.Itoa(v.revision), nil
}

func (v *view) Put(_ context.Context, rec Record, revision string) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.away[v.id] {
		return "", errAway
	}
	now := ""
	if v.revision > 0 {
		now = strconv.Itoa(v.revision)
	}
	if now != revision {
		return "", ErrConflict
	}
	v.revision++
	v.rec = rec
	return strconv.Itoa(v.revision), nil
}

func (m *memory) set(id string, away bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away == nil {
		m.away = map[string]bool{}
	}
	m.away[id] = away
}

// process is a candidate in a bubble.
type process struct {
	*Elector
	stop func()
}

func run(t *testing.T, m *memory, id string, state bool) *process {
	t.Helper()
	e := NewElector(m.from(id), Candidate{ID: id, URL: "http://" + id, State: state, Version: 1}, DefaultTimes, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { e.Run(ctx) })
	return &process{e, func() { cancel(); wg.Wait() }}
}

// pair starts a leader and its standby.
func pair(t *testing.T, m *memory) (a, b *process) {
	t.Helper()
	a = run(t, m, "a", true)
	synctest.Wait()
	require.True(t, a.IsLeading())
	b = run(t, m, "b", true)
	pass(5 * time.Second)
	return a, b
}

func bubble(t *testing.T, f func(t *testing.T, m *memory)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, &memory{}) })
}

// pass lets time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// The standby leads soon after the leader is gone, and never beside it.
func TestTakeover(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		a := run(t, m, "a", true)
		synctest.Wait()
		require.True(t, a.IsLeading(), "the first one with a state leads at once")
		b := run(t, m, "b", true)
		defer b.stop()
		pass(time.Hour)
		require.True(t, a.IsLeading())
		require.False(t, b.IsLeading())
		require.NoError(t, a.SetCurrent(t.Context(), "a", "b"))
		a.stop()
		died := time.Now()
		for !b.IsLeading() {
			pass(100 * time.Millisecond)
			require.False(t, a.IsLeading() && b.IsLeading())
		}
		require.LessOrEqual(t, time.Since(died), DefaultTimes.Lease+2*DefaultTimes.Retry)
		require.False(t, a.IsLeading(), "its renewal is too old, although it does not know more")
		require.Equal(t, []string{"b"}, b.Status().Record.Current)
	})
}

// A leader that gives up the lead is replaced at once.
func TestRelease(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		a, b := pair(t, m)
		defer b.stop()
		require.NoError(t, a.SetCurrent(t.Context(), "a", "b"))
		pass(5 * time.Second)
		require.NoError(t, a.Release(t.Context()))
		a.stop()
		require.False(t, a.IsLeading())
		pass(DefaultTimes.Retry)
		require.True(t, b.IsLeading())
	})
}

// A candidate that lacks something that was confirmed waits for one that has it.
func TestNotCurrent(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		a, b := pair(t, m)
		pass(5 * time.Second)
		a.stop()
		pass(DefaultTimes.Lease + 30*time.Second)
		require.False(t, b.IsLeading())
		again := run(t, m, "a", true)
		defer again.stop()
		synctest.Wait()
		require.True(t, again.IsLeading(), "the process with the same disk leads at once")
		b.stop()

		again.stop()
		c := run(t, m, "c", true)
		defer c.stop()
		pass(DefaultTimes.Lease + DefaultTimes.Grace - 2*DefaultTimes.Retry)
		require.False(t, c.IsLeading())
		pass(4 * DefaultTimes.Retry)
		require.True(t, c.IsLeading(), "nobody came back")
	})
}

// Without a record, one that has state goes first.
func TestEmptyDisks(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		a := run(t, m, "a", false)
		defer a.stop()
		pass(5 * time.Second)
		require.False(t, a.IsLeading())
		b := run(t, m, "b", true)
		defer b.stop()
		synctest.Wait()
		require.True(t, b.IsLeading())
	})
	bubble(t, func(t *testing.T, m *memory) {
		a := run(t, m, "a", false)
		defer a.stop()
		pass(DefaultTimes.Empty + DefaultTimes.Retry)
		require.True(t, a.IsLeading())
	})
}

// While the store is away, the leader leads as long as the standby promises not to take
// the lead, and no longer.
func TestStoreAway(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		a, b := pair(t, m)
		defer a.stop()
		defer b.stop()
		pass(5 * time.Second)
		require.NoError(t, a.SetCurrent(t.Context(), "a", "b"))
		m.set("a", true)
		for range 60 {
			began := time.Now()
			require.True(t, b.PromiseNotToLead())
			a.NotePromise(began)
			pass(time.Second)
			require.True(t, a.IsLeading())
			require.False(t, b.IsLeading())
		}
		require.ErrorIs(t, a.Status().Err, errAway)
		pass(DefaultTimes.Renew + DefaultTimes.Retry)
		require.False(t, a.IsLeading())
		require.True(t, b.IsLeading())
		m.set("a", false)
		pass(DefaultTimes.Retry)
		<-a.Lost()
	})
}

// A leader that could not renew the record for a while leads again if nobody did meanwhile.
func TestStoreComesBack(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		a := run(t, m, "a", true)
		defer a.stop()
		pass(time.Second)
		m.set("a", true)
		pass(time.Hour)
		require.False(t, a.IsLeading())
		m.set("a", false)
		pass(DefaultTimes.Retry)
		require.True(t, a.IsLeading())
	})
}

// A removed record is created again by the leader, and taken by nobody else.
func TestRecordRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		a, b := pair(t, m)
		defer a.stop()
		defer b.stop()
		pass(5 * time.Second)
		for range 5 {
			m.mu.Lock()
			m.rec, m.revision = Record{}, 0
			m.mu.Unlock()
			pass(3 * DefaultTimes.Retry)
			require.True(t, a.IsLeading())
			require.False(t, b.IsLeading())
			require.Equal(t, "a", a.Status().Record.Holder)
		}
	})
}

// A process that was paused knows at once that it does not lead, whichever clock stood
// still.
func TestPaused(t *testing.T) {
	wall := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	require.Equal(t, time.Minute, timeBetween(wall, wall.Add(time.Minute)))
	bubble(t, func(t *testing.T, m *memory) {
		e := NewElector(m.from("a"), Candidate{ID: "a", State: true}, DefaultTimes, nil)
		e.renewOrCampaign(t.Context())
		require.True(t, e.IsLeading())
		pass(DefaultTimes.Renew)
		require.False(t, e.IsLeading())
	})
	bubble(t, func(t *testing.T, m *memory) {
		now := wall // a clock without a monotonic reading, which is set ahead
		e := NewElector(m.from("a"), Candidate{ID: "a", State: true}, DefaultTimes, func() time.Time { return now })
		e.renewOrCampaign(t.Context())
		require.True(t, e.IsLeading())
		now = now.Add(DefaultTimes.Renew)
		require.False(t, e.IsLeading())
	})
}

// A standby whose clock is set back or ahead takes the lead when the lease has run out by elapsed time.
func TestTheClockOfAStandbyIsSet(t *testing.T) {
	for _, by := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		bubble(t, func(t *testing.T, m *memory) {
			var clock setclock.Clock
			a := NewElector(m.from("a"), Candidate{ID: "a", State: true}, DefaultTimes, nil)
			a.renewOrCampaign(t.Context())
			require.NoError(t, a.SetCurrent(t.Context(), "a", "b"))
			b := NewElector(m.from("b"), Candidate{ID: "b", State: true}, DefaultTimes, clock.Now)
			b.renewOrCampaign(t.Context())
			clock.Set(by)
			pass(DefaultTimes.Lease - time.Second)
			b.renewOrCampaign(t.Context())
			require.False(t, b.IsLeading())
			pass(time.Second)
			b.renewOrCampaign(t.Context())
			require.True(t, b.IsLeading())
		})
	}
}

// Whatever happens to the processes and their connections, never do two lead at a time,
// and one leads again soon after all is well.
func TestElectionPlans(t *testing.T) {
	for seed := range uint64(8) {
		bubble(t, func(t *testing.T, m *memory) {
			r := rand.New(rand.NewPCG(seed, 1))
			ids := []string{"a", "b"}
			all := map[string]*process{}
			for _, id := range ids {
				all[id] = run(t, m, id, true)
			}
			leaders := func() (out []string) {
				for _, id := range ids {
					if all[id].IsLeading() {
						out = append(out, id)
					}
				}
				return out
			}
			for range 60 {
				id := ids[r.IntN(2)]
				other := ids[0]
				if other == id {
					other = ids[1]
				}
				switch r.IntN(8) {
				case 0:
					all[id].stop()
					all[id] = run(t, m, id, true)
				case 1:
					m.set(id, true)
				case 2, 3:
					m.set(id, false)
				case 4:
					began := time.Now()
					if all[other].PromiseNotToLead() {
						all[id].NotePromise(began)
					}
				case 5:
					_ = all[id].SetCurrent(t.Context(), ids...)
				}
				for range 1 + r.IntN(40) {
					pass(250 * time.Millisecond)
					require.LessOrEqual(t, len(leaders()), 1, "seed %d", seed)
				}
				for _, id := range ids { // the daemon ends a process that lost the lead
					select {
					case <-all[id].Lost():
						all[id].stop()
						all[id] = run(t, m, id, true)
					default:
					}
				}
			}
			m.set("a", false)
			m.set("b", false)
			pass(DefaultTimes.Lease + DefaultTimes.Grace + 3*DefaultTimes.Retry)
			for _, id := range ids {
				select {
				case <-all[id].Lost():
					all[id].stop()
					all[id] = run(t, m, id, true)
				default:
				}
			}
			pass(DefaultTimes.Lease + DefaultTimes.Grace + 3*DefaultTimes.Retry)
			require.Len(t, leaders(), 1, "seed %d", seed)
			for _, id := range ids {
				all[id].stop()
			}
		})
	}
}

// The stores exclude each other's writes.
func TestFileStore(t *testing.T) {
	dir := t.TempDir()
	a, b := NewFileStore(dir), NewFileStore(dir)
	_, revision, err := a.Get(t.Context())
	require.NoError(t, err)
	require.Empty(t, revision)
	rec := Record{Holder: "a", URL: "http://x", Current: []string{"a"}, Version: 1, Since: time.Unix(1, 0).UTC(), Turns: 3}
	one, err := a.Put(t.Context(), rec, "")
	require.NoError(t, err)
	_, err = b.Put(t.Context(), rec, "")
	require.ErrorIs(t, err, ErrConflict)
	got, revision, err := b.Get(t.Context())
	require.NoError(t, err)
	require.Equal(t, rec, got)
	require.Equal(t, one, revision)
	two, err := b.Put(t.Context(), rec, one)
	require.NoError(t, err)
	require.NotEqual(t, one, two)
	_, err = a.Put(t.Context(), rec, one)
	require.ErrorIs(t, err, ErrConflict)
}

// Of many writers of one revision, one succeeds.
func TestFileStoreConcurrent(t *testing.T) {
	dir := t.TempDir()
	revision := ""
	for range 3 {
		var mu sync.Mutex
		var won []string
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				next, err := NewFileStore(dir).Put(context.Background(), Record{}, revision)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won = append(won, next)
				}
			})
		}
		wg.Wait()
		require.Len(t, slices.Compact(won), 1)
		revision = won[0]
	}
}
