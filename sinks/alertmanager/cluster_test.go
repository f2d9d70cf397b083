package alertmanager

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/fault"
)

// inCluster runs f with two Alertmanagers that are one cluster.
func inCluster(t *testing.T, f func(b *bench)) {
	t.Helper()
	inBubble(t, 2, func(b *bench) {
		b.stop()
		b.ams[0].SetCluster("one", "two")
		b.ams[1].SetCluster("two", "one")
		b.open(Config{}, nil)
		f(b)
	})
}

// restart stops and starts the sink, with what it saved.
func (b *bench) restart() {
	b.t.Helper()
	state, err := b.sink.Export()
	require.NoError(b.t, err)
	b.stop()
	b.open(Config{}, state)
}

// An alert that the cluster was notified of is not sent as firing again to a member that
// was away, whether or not crowsnest restarts meanwhile.
func TestMemberReturns(t *testing.T) {
	f := func(away time.Duration, restarts bool) {
		t.Helper()
		inCluster(t, func(b *bench) {
			stays, gone := b.ams[0], b.ams[1]
			open, before, both := fire("Open"), fire("Before"), fire("Both")
			b.notify(open, before, both)
			b.pass(5 * time.Minute)
			gone.Set(fault.Reset)
			b.notify(end(before))
			short := fire("Short") // it begins and ends while the member is away
			b.notify(short)
			b.pass(away / 2)
			if restarts {
				b.restart()
				b.notify(open, both)
			}
			short = end(short)
			b.notify(short)
			b.pass(away / 2)
			gone.SetCluster("two again", "one")
			gone.Restart()
			gone.Set(nil)
			from := len(gone.Accepted("Open"))
			b.within(5*time.Second, "what is open", func() bool { return len(gone.Accepted("Open")) > from })
			b.notify(end(both))
			b.pass(5 * time.Minute)

			require.Equal(t, "firing resolved", stays.States("Before"))
			require.Equal(t, "firing resolved", stays.States("Short"))
			require.NotContains(t, gone.States("Short"), "firing", "people were notified")
			require.Contains(t, []string{"firing", "firing resolved"}, gone.States("Before"))
			b.told("Both", "firing resolved")
		})
	}
	for _, away := range []time.Duration{2 * time.Minute, 10 * time.Minute, time.Hour} {
		f(away, false)
		f(away, true)
	}
}

// An Alertmanager outside a cluster notifies people independently: it is sent everything.
func TestNoCluster(t *testing.T) {
	inBubble(t, 2, func(b *bench) {
		b.ams[1].Set(fault.Reset)
		ep := fire("A")
		b.notify(ep)
		b.pass(2 * time.Minute)
		b.notify(end(ep))
		b.pass(10 * time.Minute)
		b.ams[1].Set(nil)
		b.pass(2 * time.Minute)
		b.told("A", "firing resolved")
	})
}

// A member that accepted an alert and died before it could notify does not count for the
// others.
func TestMemberDiesBeforeItNotifies(t *testing.T) {
	inCluster(t, func(b *bench) {
		first, second := b.ams[0], b.ams[1]
		second.Set(fault.Reset)
		ep := fire("A")
		b.notify(ep)
		require.Equal(t, "firing", first.States("A"))
		b.pass(10 * time.Second)
		first.Set(fault.Reset)
		b.notify(end(ep))
		b.pass(5 * time.Minute)
		second.Set(nil)
		b.pass(2 * time.Minute)
		require.Equal(t, "firing resolved", second.States("A"))
	})
}

// An Alertmanager remains the same process when crowsnest restarts: alerts that it accepted
// in the second in which it started are not sent again.
func TestSameProcessOverRestarts(t *testing.T) {
	inBubble(t, 1, func(b *bench) {
		ep := fire("A")
		b.notify(ep)
		b.pass(61 * time.Second)
		ep = end(ep)
		b.notify(ep)
		for range 4 {
			b.pass(10 * time.Second)
			b.restart()
			b.notify(ep)
			b.pass(time.Second)
		}
		b.told("A", "firing resolved")
	})
}

// While a member is away with an alert that ended, the others are not sent that end
// again: if the member notifies of the alert, they would notify of its end, in turn.
func TestEndIsNotRepeatedWhileMemberIsAway(t *testing.T) {
	inCluster(t, func(b *bench) {
		stays, gone := b.ams[0], b.ams[1]
		heartbeat, ep := fire("Heartbeat"), fire("A")
		b.notify(heartbeat, ep)
		b.pass(5 * time.Minute)
		gone.Set(fault.Hang)
		b.notify(end(ep))
		b.pass(time.Second)
		sent := len(stays.Accepted("A"))
		require.Equal(t, "firing resolved", stays.States("A"))
		b.pass(5 * time.Minute)
		require.Len(t, stays.Accepted("A"), sent)

		stays.Restart() // it may not have notified of the end
		b.within(time.Minute+checkEvery, "the end", func() bool { return len(stays.Accepted("A")) > sent })
		b.pass(time.Minute)
		sent = len(stays.Accepted("A"))

		gone.Set(nil)
		b.within(5*time.Second, "the end", func() bool { return gone.States("A") == "firing resolved" })
		b.within(2*time.Minute, "the end again", func() bool { return len(stays.Accepted("A")) > sent })
	})
}

// One request is always pending at a member that hangs, so that it is answered as soon as
// the member wakes up.
func TestRequestWaitsAtMemberThatHangs(t *testing.T) {
	inCluster(t, func(b *bench) {
		b.notify(fire("A"))
		var asked atomic.Int64
		b.ams[1].Set(func(w http.ResponseWriter, r *http.Request) bool {
			asked.Add(1)
			defer asked.Add(-1)
			return fault.Hang(w, r)
		})
		b.pass(2 * time.Minute) // the next request is noticed to hang
		for range 1000 {
			b.pass(37 * time.Millisecond)
			require.Equal(t, int64(1), asked.Load())
		}
	})
}

// A member that wakes up may read the requests that hung after the newer ones: it is
// sent everything again soon after.
func TestOlderRequestsAreOverwritten(t *testing.T) {
	inCluster(t, func(b *bench) {
		am := b.ams[1]
		open, ep := fire("Open"), fire("A")
		b.notify(open, ep)
		b.pass(5 * time.Minute)
		am.Set(fault.Hang)
		b.pass(2 * time.Minute)
		b.notify(end(ep))
		am.Set(nil)
		b.within(5*time.Second, "the end", func() bool { return am.States("A") == "firing resolved" })
		ends, opens := len(am.Accepted("A")), len(am.Accepted("Open"))
		b.pass(time.Second)
		require.Len(t, am.Accepted("A"), ends+1)
		require.Len(t, am.Accepted("Open"), opens+1)
	})
}

// A member that was also cut off from the others is sent an end only when it has found them
// again: they inform it that people were notified. The wait is bounded.
func TestMemberFindsTheOthersFirst(t *testing.T) {
	f := func(finds time.Duration) {
		t.Helper()
		inCluster(t, func(b *bench) {
			am := b.ams[1]
			ep := fire("A")
			b.notify(fire("Open"), ep)
			b.pass(5 * time.Minute)
			am.Set(fault.Reset)
			am.SetCluster("two")
			b.pass(time.Minute)
			b.notify(end(ep))
			require.Equal(t, "firing resolved", b.ams[0].States("A"), "at once")
			b.pass(10 * time.Minute)
			am.Set(nil)
			b.pass(min(finds, maxSettle-slowRetry))
			require.Equal(t, "firing", am.States("A"))
			if finds < maxSettle {
				am.SetCluster("two", "one")
			}
			b.within(2*slowRetry+4*settleEvery, "the end", func() bool { return am.States("A") == "firing resolved" })
		})
	}
	f(10 * time.Second)
	f(time.Hour)
}

// When crowsnest stops or starts, it sends nothing to a member that hangs: the member would
// accept it when it wakes up, after the end.
func TestNothingIsSentToMemberThatHangs(t *testing.T) {
	inCluster(t, func(b *bench) {
		am := b.ams[1]
		b.notify(fire("Open"))
		b.pass(5 * time.Minute)
		am.Set(fault.Hang)
		b.pass(2 * time.Minute)
		posts := len(am.Posts())
		ep := fire("A")
		b.notify(ep)
		b.pass(time.Minute)
		b.restart()
		b.notify(ep)
		b.pass(time.Minute)
		require.Len(t, am.Posts(), posts)
		require.Empty(t, am.Accepted("A"))
	})
}

// A member that wakes up first learns from the others which alerts people were notified of.
// Without another member it is sent everything at once.
func TestMemberThatWakesUpMergesFirst(t *testing.T) {
	f := func(other fault.Fault, want time.Duration) {
		t.Helper()
		inCluster(t, func(b *bench) {
			b.notify(fire("Open"))
			b.pass(5 * time.Minute)
			am := b.ams[1]
			am.Set(fault.Hang)
			b.pass(2 * time.Minute)
			b.notify(fire("A"))
			b.ams[0].Set(other)
			b.pass(10 * time.Minute)
			var answered, accepted atomic.Int64 // when
			am.Set(func(_ http.ResponseWriter, r *http.Request) bool {
				if answered.CompareAndSwap(0, time.Now().UnixNano()); r.Method == http.MethodPost {
					accepted.CompareAndSwap(0, time.Now().UnixNano())
				}
				return false
			})
			b.within(5*time.Second, "the alert", func() bool { return am.States("A") == "firing" })
			require.Equal(t, want, time.Duration(accepted.Load()-answered.Load()))
		})
	}
	f(nil, settleEvery)
	f(fault.Reset, 0)
}
