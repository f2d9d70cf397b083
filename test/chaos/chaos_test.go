package chaos

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/wait"
)

func sorted(d []time.Duration) []time.Duration { return slices.Sorted(slices.Values(d)) }

// kubeletLoad is the load of the full form: 4 x 1,000 lines/s, files of 1 MiB.
func kubeletLoad(recovery time.Duration) load {
	l := load{perSecond: 1000, pad: 180, maxSize: 1 << 20, planted: 500, period: 1000, recovery: recovery}
	if long { // few enough alerts that a sink can notify each within its bounds
		l.planted, l.period = 2000, 4000
	}
	return l
}

// Everything fails, continuously.
func TestKills(t *testing.T) {
	t.Parallel()
	kills(t, mix{
		kill: 9, term: 4, stop: 2, rotate: 3, restart: 1, churn: 1, peer: 4, hup: 1,
		gap: 1500 * time.Millisecond, down: 4 * time.Second,
	}, 18*time.Second)
}

// kills executes a plan and judges the result.
func kills(t *testing.T, m mix, recovery time.Duration) {
	t.Helper()
	n := seed(t)
	plan := m.plan(n)
	// To start with 400 shipped rules takes half a second of a CPU. The short form starts
	// 14 times beside the tests of other packages, and TestSteady has these rules too.
	// The heartbeat ends after four resends. Some processes are killed before they know which sources they can read.
	s := newScene(t, n, options{writers: 4, load: kubeletLoad(recovery), pager: true, resend: 10 * time.Second, shipped: long})
	poison := func(key string) bool { return key == "ChaosPlanted w0-p7" }
	s.bad.AM.Refuse(func(labels map[string]string) bool { return poison(keyOf(labels)) })
	s.p.start()
	s.p.ready()
	for i, st := range plan {
		pause(st.after)
		t.Logf("%s step %d: %v", stamp(time.Now()), i, st)
		s.do(st)
	}
	s.p.ready()
	good, bad := s.settle(60*time.Second, poison)
	s.judge(good, bad, poison)
	s.report(good, bad)
	if m.kill == 0 {
		written := 0
		for _, w := range s.writers {
			written += w.records
		}
		written += 102 * s.churned // 100 lines, two of which have two parts
		wait.Until(5*time.Second, func() bool { return s.p.evaluated() >= float64(written) })
		t.Logf("records written %d, evaluated by all processes %.0f", written, s.p.evaluated())
		t.Logf("stops whose disk did not save within a second, so that lines are read again: %d", strings.Count(s.p.Log(), "could not be saved in time"))
		require.LessOrEqual(t, s.p.evaluated(), float64(written), "a line was evaluated twice over a SIGTERM")
		require.LessOrEqual(t, at(sorted(s.p.exits), 1), promisedExit)
	}
}

// The full form for kills: promisedKills under rotation with gzip, down for up to two
// rotations.
func TestHundredKills(t *testing.T) {
	onlyLong(t)
	kills(t, mix{
		kill: promisedKills, stop: 5, rotate: 20, restart: 5, churn: 5, peer: 20, hup: 5,
		gap: 3 * time.Second, down: 9 * time.Second,
	}, 30*time.Second)
}

// The full form for stops: nothing is lost, and nothing is read twice.
func TestThirtyStops(t *testing.T) {
	onlyLong(t)
	kills(t, mix{
		term: 30, rotate: 10, restart: 2, churn: 2, peer: 6, gap: 3 * time.Second, down: 9 * time.Second,
	}, 30*time.Second)
}

// onlyLong skips a test in the short form.
func onlyLong(t *testing.T) {
	t.Helper()
	if !long {
		t.Skip("set CROWSNEST_CHAOS=1 to measure the full bars")
	}
}

// Nothing fails: every line is read once, every alert arrives, and resources
// are released.
func TestSteady(t *testing.T) {
	t.Parallel()
	s := newScene(t, seed(t), options{writers: 4, load: kubeletLoad(14 * time.Second), resend: 5 * time.Second, shipped: true})
	s.p.start()
	s.p.ready()
	pause(6 * time.Second)
	good, bad := s.settle(40*time.Second, nil)
	s.judge(good, bad, nil)
	s.report(good, bad)
	written := 0
	for _, w := range s.writers {
		written += w.records
	}
	require.True(t, wait.Until(5*time.Second, func() bool { return s.p.evaluated() == float64(written) }), "lines evaluated: %v of %d", s.p.evaluated(), written)
}
