package objects

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLeases(t *testing.T) {
	a := newAPI(leasesPath + "=Lease")
	a.put(leasesPath, leaseJSON("s-0", "1"))
	var saved json.RawMessage
	cfg := Config{Kinds: []string{"leases.coordination.k8s.io"}}
	inBubble(t, cfg, a, nil, func(s *Source, p *pipe, pass func(time.Duration)) {
		pass(10 * time.Second)
		require.Empty(t, p.take(), "it is not known yet whether it is renewed")
		for i := range 10 {
			a.put(leasesPath, leaseJSON("s-0", fmt.Sprint(2+i)))
			pass(2 * time.Second)
		}
		require.Equal(t, []string{
			`leases kube-system: msg="lease is held" resource=leases.coordination.k8s.io kind=Lease object=kube-system/kube-scheduler name=kube-scheduler` +
				` duration=15s renewed=2 unchanged=0s transitions=2 holder=s-0`,
		}, p.take())
		pass(13 * time.Second) // 15 s after the last renewal
		require.Empty(t, p.take())
		pass(10 * time.Second)
		lines := only(p.take(), "stale")
		require.Len(t, lines, 1)
		require.Contains(t, lines[0], "renewed=11 unchanged=")
		pass(time.Minute)
		require.NotEmpty(t, only(p.take(), "lease is stale"), "repeated while it holds")
		saved = s.Positions()
		a.put(leasesPath, leaseJSON("s-1", "12"))
		pass(time.Second)
		require.Contains(t, p.take()[0], `msg="lease is held"`)
		a.put(leasesPath, leaseJSON("", "13"))
		pass(time.Second)
		require.Contains(t, p.take()[0], `holder="" was=s-1`)
		a.remove(leasesPath, "kube-system/kube-scheduler")
		pass(time.Second)
		require.Contains(t, p.take()[0], `msg="lease is gone"`)
		a.put(leasesPath, leaseJSON("s-0", "11"))
	})
	inBubble(t, cfg, a, saved, func(_ *Source, p *pipe, pass func(time.Duration)) {
		pass(70 * time.Second)
		lines := p.take()
		require.NotEmpty(t, only(lines, "lease is stale"), "it is still stale after a restart")
		require.Empty(t, only(lines, "lease is held"))
	})
}

// While the API server is away, nobody can renew a Lease: nothing is said, and the
// watermark stands.
func TestLeaseWhileAPIServerIsAway(t *testing.T) {
	a := newAPI(leasesPath + "=Lease")
	a.put(leasesPath, leaseJSON("s-0", "1"))
	inBubble(t, Config{Kinds: []string{"leases.coordination.k8s.io"}}, a, nil, func(s *Source, p *pipe, pass func(time.Duration)) {
		renew := func(n int) {
			for range n {
				a.put(leasesPath, leaseJSON("s-0", time.Now().Format(time.RFC3339)))
				pass(2 * time.Second)
			}
		}
		renew(10)
		require.NotEmpty(t, p.take())
		for _, away := range []time.Duration{14 * time.Second, 25 * time.Second, 3 * time.Minute} {
			a.set(func() { a.fault = 503 })
			before := p.provedAt()
			pass(away)
			require.Empty(t, p.take(), away)
			require.Equal(t, before, p.provedAt(), away)
			require.False(t, s.Status().Up, away)
			a.set(func() { a.fault = 0 })
			pass(2 * time.Second)
			renew(25)
			require.Empty(t, only(p.take(), "stale"), away)
			require.True(t, s.Status().Up, s.Status().Error)
		}
		// The holder died while the API server was away.
		a.set(func() { a.fault = 503 })
		pass(3 * time.Minute)
		a.set(func() { a.fault = 0 })
		pass(31*time.Second + 15*time.Second + 10*time.Second)
		require.NotEmpty(t, only(p.take(), "stale"))
	})
}

// TestFollow: what is known about a Lease when it is read.
func TestFollow(t *testing.T) {
	at := time.Unix(1000, 0)
	f := func(last *lease, now lease, want leaseState, since time.Time) {
		t.Helper()
		now.followLast(last, at)
		require.Equal(t, want, now.state)
		require.Equal(t, since, now.since)
	}
	of := func(holder, renewed string, state leaseState, since time.Time) lease {
		return lease{holder: internWord(holder), renewed: renewed, valid: 15 * time.Second, state: state, since: since}
	}
	ptr := func(l lease) *lease { return &l }
	before := at.Add(-9 * time.Second)
	now := of("a", "1", leaseUnknown, time.Time{})
	f(nil, now, leaseUnknown, at)
	f(nil, of("", "1", leaseUnknown, time.Time{}), leaseReleased, at)
	f(nil, lease{holder: internWord("a")}, leaseHeld, at) // it never becomes stale
	f(ptr(of("a", "1", leaseHeld, before)), now, leaseHeld, before)
	f(ptr(of("a", "1", leaseUnknown, before)), now, leaseUnknown, before)
	f(ptr(of("a", "1", leaseStale, before)), now, leaseStale, before)
	f(ptr(of("a", "0", leaseStale, before)), now, leaseHeld, at)
	f(ptr(of("b", "1", leaseStale, before)), now, leaseHeld, at)
	// From the saved state.
	f(ptr(of("a", "1", leaseStale, time.Time{})), now, leaseStale, at)
	f(ptr(of("a", "", leaseHeld, time.Time{})), now, leaseHeld, at) // renewed since it was saved
	f(ptr(of("a", "1", leaseHeld, time.Time{})), now, leaseUnknown, at)
}

// TestJudge: a Lease is stale after its duration, in which only time counts when the API
// server answered.
func TestJudge(t *testing.T) {
	start := time.Unix(1000, 0)
	f := func(proofs []int, doubt int, want leaseState) {
		t.Helper()
		s := New(Config{Kinds: []string{string(leases)}})
		s.pipe = &pipe{}
		r := s.readers[0]
		o := &object{name: "a", lease: &lease{holder: internWord("h"), valid: 15 * time.Second, state: leaseHeld, since: start}}
		r.objects["a"] = o
		r.progress, r.due = start, start.Add(time.Hour)
		for _, seconds := range proofs {
			r.doubted = seconds == doubt
			r.provedUpTo(start.Add(time.Duration(seconds) * time.Second))
		}
		require.Equal(t, want, r.objects["a"].lease.state)
		require.Equal(t, leaseHeld, o.lease.state, "an object that was remembered is not changed")
	}
	f([]int{7, 14}, 0, leaseHeld)
	f([]int{7, 15}, 0, leaseStale)
	f([]int{7, 15}, 15, leaseHeld)
	f([]int{7, 16, 23, 30}, 16, leaseHeld)
	f([]int{7, 16, 23, 31}, 16, leaseStale)
	f([]int{30}, 0, leaseHeld)                    // 10 of them count
	f([]int{30, 34}, 0, leaseHeld)                // 14
	f([]int{30, 35}, 0, leaseStale)               // 15
	f([]int{13, 26}, 0, leaseStale)               // a slow API server
	f([]int{7, 15, 600, 607, 614}, 0, leaseStale) // it stays
}

// A line that is repeated is not older than the state that it states.
func TestTimeOfRepetition(t *testing.T) {
	s, p := New(Config{Kinds: []string{"nodes"}}), &pipe{}
	s.pipe = p
	read := time.Unix(1000, 0)
	s.readers[0].objects["n"] = &object{name: "n", read: read, facts: []fact{{view: phasesView, name: internWord(""), value: internWord("Up"), reason: internWord("")}}}
	s.readers[0].writeAll(read.Add(-time.Second))
	s.readers[0].writeAll(read.Add(time.Minute))
	require.Equal(t, []time.Time{read, read.Add(time.Minute)}, p.times)
}
