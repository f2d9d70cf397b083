package inforce

import (
	"cmp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// second is the CPU time that the process and the rules use in one second.
type second struct {
	cpu  time.Duration
	a, b time.Duration
	late time.Duration // the clock leaps
	try  time.Duration // duration of one try of a; zero means a millisecond
}

func TestCostGuard(t *testing.T) {
	a, b := &rules.Rule{Alert: "A"}, &rules.Rule{Alert: "B"}
	// f plays seconds and returns when A was first found, in seconds; B must never be
	// found.
	f := func(limit float64, want int, play func(i int) second) *Guard {
		t.Helper()
		g := NewGuard(limit)
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		var sum second
		tries := int64(0)
		got := 0
		for i := range 300 {
			for _, c := range g.FindCostly(now, sum.cpu, []matcher.Cost{{Rule: a, Spent: sum.a, Evaluations: tries}, {Rule: b, Spent: sum.b}}) {
				require.Same(t, a, c.Rule)
				if got == 0 {
					got = i
				}
			}
			s := play(i)
			tries += int64(s.a / cmp.Or(s.try, time.Millisecond))
			sum.cpu, sum.a, sum.b = sum.cpu+s.cpu, sum.a+s.a, sum.b+s.b
			now = now.Add(time.Second + s.late)
		}
		require.Equal(t, want, got)
		return g
	}
	const ms = time.Millisecond
	f(0.2, 60, func(int) second { return second{cpu: 900 * ms, a: 210 * ms, b: 190 * ms} })
	f(0.2, 0, func(int) second { return second{cpu: 900 * ms, a: 199 * ms} })
	f(0, 0, func(int) second { return second{cpu: 900 * ms, a: 900 * ms} })
	f(1.5, 60, func(int) second { return second{cpu: 1900 * ms, a: 1600 * ms} })
	f(0.2, 160, func(i int) second { // the overload begins later
		if i < 100 {
			return second{cpu: 300 * ms, b: 100 * ms}
		}
		return second{cpu: 900 * ms, a: 800 * ms, b: 100 * ms}
	})
	// A cheap rule is not blamed for a storm of lines.
	f(0.2, 0, func(int) second { return second{cpu: 900 * ms, a: 800 * ms, try: 4 * time.Microsecond} })
	f(0.2, 0, func(int) second { return second{cpu: 400 * ms, a: 800 * ms, try: 8 * time.Microsecond} })
	f(0.2, 60, func(int) second { return second{cpu: 900 * ms, a: 800 * ms, try: 6 * time.Microsecond} })
	f(0.2, 0, func(i int) second { // a backlog is read for 50 s, again and again
		if i%60 < 50 {
			return second{cpu: 2000 * ms, a: 1900 * ms}
		}
		return second{cpu: 20 * ms, a: 2 * ms}
	})
	f(0.2, 0, func(int) second { // threads that wait for a CPU: the process uses hardly any
		return second{cpu: 300 * ms, a: 900 * ms, b: 900 * ms}
	})
	f(0.2, 60, func(int) second { return second{cpu: 300 * ms, a: 900 * ms, b: 100 * ms} })
	f(0.2, 0, func(i int) second { // a machine that sleeps all the time
		if i%50 == 49 {
			return second{cpu: 900 * ms, a: 800 * ms, late: time.Hour}
		}
		return second{cpu: 900 * ms, a: 800 * ms}
	})
	f(0.2, 0, func(i int) second { // a clock that is set back
		if i%50 == 49 {
			return second{cpu: 900 * ms, a: 800 * ms, late: -time.Hour}
		}
		return second{cpu: 900 * ms, a: 800 * ms}
	})

	// A rule is returned again as long as it is too costly.
	g := NewGuard(0.2)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	found := 0
	for i := range 12 {
		spent := time.Duration(i) * 5 * time.Second
		for _, c := range g.FindCostly(now, spent, []matcher.Cost{{Rule: a, Spent: spent}}) {
			require.InDelta(t, 0.5, c.Share, 1e-9)
			found++
		}
		now = now.Add(guardSlice)
	}
	require.Equal(t, 6, found)
	require.Empty(t, g.FindCostly(now, 0, nil))
	require.Empty(t, g.strike)
	require.Empty(t, g.before)
}

// TestGuardOfNamespaces plays rules of one namespace that are each cheap and together too costly. They lose one rule
// after the other until the rest is within the limit.
func TestGuardOfNamespaces(t *testing.T) {
	g := NewGuard(0.2)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var costs []matcher.Cost
	for _, name := range []string{"A", "B", "C", "D", "Other"} {
		r := &rules.Rule{Alert: name, Namespace: "team-a"}
		if name == "Other" {
			r.Namespace = "team-b"
		}
		costs = append(costs, matcher.Cost{Rule: r})
	}
	perSecond := map[string]time.Duration{"A": 50 * time.Millisecond, "B": 120 * time.Millisecond, "C": 60 * time.Millisecond, "D": 70 * time.Millisecond, "Other": 190 * time.Millisecond}
	var quarantined []string
	for i := range 300 {
		for _, c := range g.FindCostly(now, time.Duration(i)*900*time.Millisecond, costs) {
			quarantined = append(quarantined, c.Rule.Alert)
			perSecond[c.Rule.Alert] = 0
		}
		for k := range costs {
			costs[k].Spent += perSecond[costs[k].Rule.Alert]
			costs[k].Evaluations++
		}
		now = now.Add(time.Second)
	}
	require.Equal(t, []string{"B"}, quarantined)
}
