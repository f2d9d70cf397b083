package episodes

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/rules"
)

// logged is a line of one of several sources, each of which may be away.
type logged struct {
	event
	source int
	at     time.Duration // when it is read
}

const truthSources = 3

// outage is a time in which a source is away, or, with source -1, the program.
type outage struct {
	source   int
	from, to time.Duration
}

// truthPlan draws outages and sets when each line is read.
func truthPlan(t *rapid.T, lines []logged) []outage {
	var plan []outage
	for range rapid.IntRange(0, 3).Draw(t, "outages") {
		from := time.Duration(rapid.IntRange(0, 80).Draw(t, "from")) * time.Second
		plan = append(plan, outage{rapid.IntRange(-1, truthSources-1).Draw(t, "away"), from, from + time.Duration(rapid.IntRange(1, 90).Draw(t, "long"))*time.Second})
	}
	for i := range lines {
		l := &lines[i]
		l.at = time.Duration(l.t) * time.Second
		for again := true; again; {
			again = false
			for _, o := range plan {
				if (o.source == -1 || o.source == l.source) && l.at >= o.from && l.at < o.to {
					l.at, again = o.to, true
				}
			}
		}
	}
	return plan
}

// read plays lines in order of reading. Lines that are read at one time come source
// by source. A source makes no progress while it, or the program, is away.
func read(t *rapid.T, r *rules.Rule, lines []logged, plan []outage) []Episode {
	return readFrom(t, r, lines, plan, func(int) func(rules.Selector) bool { return nil })
}

// readFrom is read with sources that serve some selectors only. A source with outages
// proves what it reads line by line.
func readFrom(t *rapid.T, r *rules.Rule, lines []logged, plan []outage, serves func(source int) func(rules.Selector) bool) []Episode {
	b := &bench{t: t, set: &rules.Set{Rules: []*rules.Rule{r}}}
	start := func() {
		b.e = New(Config{})
		for s := range truthSources {
			b.e.AddSource(fmt.Sprint(s), rules.Lateness, serves(s))
		}
		b.e.Swap(b.set, at(0))
	}
	start()
	away := func(s int, now time.Duration) bool {
		return slices.ContainsFunc(plan, func(o outage) bool { return (o.source == -1 || o.source == s) && now >= o.from && now < o.to })
	}
	prove := func(now time.Duration) {
		for s := range truthSources {
			if !away(s, now) {
				b.e.AdvanceWatermark(fmt.Sprint(s), at(now))
			}
		}
		b.reported = append(b.reported, b.e.Evaluate(at(now))...)
	}
	lines, total := slices.Clone(lines), len(lines)
	slices.SortStableFunc(lines, func(a, b logged) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.source, b.source)) })
	for now := time.Duration(0); now < 10*time.Minute; now += time.Second {
		switch {
		case slices.ContainsFunc(plan, func(o outage) bool { return o.source == -1 && o.to == now }) && !away(-1, now):
			data, err := b.e.Snapshot()
			require.NoError(t, err)
			start()
			require.NoError(t, b.e.Restore(data, at(now)))
		case away(-1, now):
			continue
		default:
			prove(now - 1) // not beyond what is read
		}
		for len(lines) > 0 && lines[0].at <= now {
			now := now
			if l := lines[0]; serves(l.source) != nil {
				now += time.Duration(total - len(lines)) // only a brief failure is notified together with its end
				b.e.AdvanceWatermark(fmt.Sprint(l.source), at(time.Duration(l.t)*time.Second-1))
				b.reported = append(b.reported, b.e.Evaluate(at(now))...)
			}
			b.take(now, lines[0].hit(r))
			b.reported = append(b.reported, b.e.Evaluate(at(now))...)
			lines = lines[1:]
		}
	}
	prove(15 * time.Minute)
	return b.reported
}

// alertsOf pairs the beginnings and ends of notifications. The test fails if an alert
// begins or ends twice.
func alertsOf(t *rapid.T, reported []Episode) (out []report, lapses map[report]bool) {
	lapses = map[report]bool{}
	open := map[string]int{}
	for _, x := range reported {
		k := x.Labels["k"]
		id := k + x.StartsAt.String()
		i, known := open[id]
		switch {
		case x.State == StateFiring && !known:
			open[id] = len(out)
			out = append(out, report{key: k, state: StateFiring, starts: x.StartsAt.Sub(at(0))})
		case x.State == StateResolved && known:
			out[i].state, out[i].reason, out[i].ends = StateResolved, x.Reason, x.EndsAt.Sub(at(0))
			lapses[out[i]] = x.FiredAt.Equal(x.ConcludedAt)
			delete(open, id)
		case x.State == StateResolved:
			again := report{k, StateResolved, x.Reason, x.StartsAt.Sub(at(0)), x.EndsAt.Sub(at(0))}
			require.Contains(t, out, again, "ended without a beginning") // a restart repeats what ended
		}
	}
	slices.SortFunc(out, func(a, b report) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.starts, b.starts)) })
	return out, lapses
}

// likened removes the differences that are allowed: a trigger that is read after a newer
// one of its episode does not move startsAt, and an alert that fires is not ended by a clear
// line that is older than its newest trigger. A failure that is notified after its end is
// exact.
func likened(t *rapid.T, want, got []report, lapses map[report]bool) []report {
	var merged []report
	for _, g := range got {
		began := len(merged)
		for i := 0; i < len(want); {
			w := want[i]
			if w.key != g.key || g.ends <= w.starts || w.ends <= g.starts {
				i++
				continue
			}
			if n := len(merged); n > began {
				merged[n-1].ends, merged[n-1].reason = w.ends, w.reason
				require.False(t, lapses[g], "a lapse is exact")
			} else {
				if w.starts < g.starts {
					w.starts = g.starts
				}
				merged = append(merged, w)
			}
			want = slices.Delete(want, i, i+1)
		}
		if n := len(merged); n > began && !lapses[g] && g.reason == ReasonClear {
			merged[n-1].ends, merged[n-1].reason = max(merged[n-1].ends, g.ends), g.reason
		}
	}
	merged = append(merged, want...)
	slices.SortFunc(merged, func(a, b report) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.starts, b.starts)) })
	return merged
}

func TestTruthIsTheSameOverOutages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRule(t)
		r.Limit, r.Unless, r.Silent = 100, nil, 0 // a gap whose end is read in time is no failure
		if r.Distinct != "" {
			r.Distinct = "" // only the newest line of each value is kept
		}
		if r.Clear == nil {
			r.Clear, r.Expire = &rules.ClearOrUnless{Same: []string{"k"}}, 10*time.Minute
		}
		r.Expire = 10 * time.Minute
		r.For = time.Duration(rapid.IntRange(1, 20).Draw(t, "for")) * time.Second
		var lines []logged
		for _, ev := range logHistory(t, 100, partsOf(r)...) {
			lines = append(lines, logged{event: ev, source: rapid.IntRange(0, truthSources-1).Draw(t, "source")})
		}
		slices.SortStableFunc(lines, func(a, b logged) int {
			return cmp.Or(cmp.Compare(a.t, b.t), cmp.Compare(a.part, b.part))
		})
		plan := truthPlan(t, lines)
		inOrder := slices.Clone(lines)
		for i := range inOrder {
			inOrder[i].at, inOrder[i].source = time.Duration(inOrder[i].t)*time.Second, 0
		}
		want, _ := alertsOf(t, read(t, r, inOrder, nil))
		got, lapses := alertsOf(t, read(t, r, lines, plan))
		want = likened(t, want, got, lapses)
		require.Equal(t, want, got, "%s %v %v", describe(r), plan, lines)
	})
}
