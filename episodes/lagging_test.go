package episodes

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/internal/literals"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/rules/selector"
)

func lagging(upTo time.Duration, labels ...string) matcher.LaggingStream {
	l := matcher.LaggingStream{Labels: matcher.Labels{}, ReadUpTo: at(upTo)}
	for i := 0; i < len(labels); i += 2 {
		l.Labels[labels[i]] = labels[i+1]
	}
	return l
}

// A conclusion waits for a lagging stream only if a line of that stream could change it.
func TestWhatALaggingStreamDelays(t *testing.T) {
	manager, err := selector.Parse(`{container="manager"}`)
	require.NoError(t, err)
	named, err := selector.Parse(`{filename=~".*/manager/.*"}`)
	require.NoError(t, err)
	f := func(name string, delayed []string, lag matcher.LaggingStream, change func(r *rules.Rule)) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			r := rule(func(r *rules.Rule) {
				r.By, r.KeepFiringFor = []string{"namespace", "pod"}, time.Minute
				r.Steps[0].From = manager
				change(r)
			})
			b := newBench(t, r)
			keys := [][2]string{{"a", "x"}, {"b", "x"}, {"b", "y"}}
			for i, k := range keys {
				h := lineHit(r, 0, time.Second, fmt.Sprint("bad ", i), k[0], k[1])
				h.Labels = matcher.Labels{"namespace": k[0], "pod": k[1], "container": "manager"}
				b.take(time.Second, h)
			}
			step := func(now time.Duration, lag ...matcher.LaggingStream) {
				b.e.AdvanceWatermark("s", at(now), lag...)
				b.reported = append(b.reported, b.e.Evaluate(at(now))...)
			}
			waiting := func() (out []string) {
				for _, x := range b.e.Episodes(at(time.Hour)) {
					if x.State == StateResolved || r.For > 0 && x.State == StateFiring {
						continue
					}
					require.True(t, x.OnHold)
					require.Equal(t, []string{"s " + lag.String()}, x.WaitsFor)
					out = append(out, x.Labels["namespace"]+"/"+x.Labels["pod"])
				}
				return out
			}
			step(time.Second, lag)
			step(time.Hour, lag)
			require.Equal(t, delayed, waiting())
			require.False(t, b.e.Stats(at(time.Hour)).Rules[0].OnHold, "the source is read")
			lag.ReadUpTo = at(time.Second + max(r.For, r.KeepFiringFor) + rules.Lateness - 1)
			step(time.Hour, lag)
			require.Equal(t, delayed, waiting())
			lag.ReadUpTo = lag.ReadUpTo.Add(1)
			step(time.Hour, lag)
			require.Empty(t, waiting())
			step(2 * time.Hour)
			require.Empty(t, waiting())
		})
	}
	same := func(*rules.Rule) {}
	f("its own pod", []string{"b/x"}, lagging(0, "namespace", "b", "pod", "x", "container", "manager"), same)
	f("another container", nil, lagging(0, "namespace", "b", "pod", "x", "container", "proxy"), same)
	f("an unknown container", []string{"b/x"}, func() matcher.LaggingStream {
		l := lagging(0, "namespace", "b", "pod", "x")
		l.UnknownLabels = []string{"container"}
		return l
	}(), same)
	f("an unknown path", []string{"b/x"}, func() matcher.LaggingStream {
		l := lagging(0, "namespace", "b", "pod", "x", "container", "proxy")
		l.UnknownLabels = []string{"filename"}
		return l
	}(), func(r *rules.Rule) { r.Steps[0].From = named })
	f("another pod", nil, lagging(0, "namespace", "b", "pod", "z", "container", "manager"), same)
	f("a captured pod", []string{"b/x", "b/y"}, lagging(0, "namespace", "b", "pod", "z", "container", "manager"), func(r *rules.Rule) {
		r.Steps[0].Matcher.Regex = literals.MustExpression("bad (?P<pod>.*)")
	})
	f("no label of the key", []string{"a/x", "b/x", "b/y"}, lagging(0, "container", "manager"), same)
	f("a clear line of the namespace", []string{"b/x", "b/y"}, lagging(0, "namespace", "b", "pod", "z", "container", "manager"), func(r *rules.Rule) {
		r.For, r.Clear, r.Expire = time.Minute, &rules.ClearOrUnless{From: manager, Same: []string{"namespace"}}, time.Hour
	})
	f("a clear line of the pod", nil, lagging(0, "namespace", "b", "pod", "z", "container", "manager"), func(r *rules.Rule) {
		r.For, r.Clear, r.Expire = time.Minute, &rules.ClearOrUnless{From: manager, Same: []string{"namespace", "pod"}}, time.Hour
	})
	f("another cluster", nil, lagging(0, "cluster", "c", "namespace", "b", "pod", "x", "container", "manager"), same)
}

// readLagging plays lines that are read in order within each stream. The streams that the
// plan takes away are sources of their own, or lagging streams of one source.
func readLagging(t *rapid.T, r *rules.Rule, lines []logged, plan []outage, lag func(stream int) *matcher.LaggingStream) (out []string) {
	b := &bench{t: t, set: &rules.Set{Rules: []*rules.Rule{r}}}
	b.e = New(Config{})
	if lag == nil {
		for s := range truthSources {
			b.e.AddSource(fmt.Sprint(s), rules.Lateness, nil)
		}
	} else {
		b.e.AddSource("all", rules.Lateness, nil)
	}
	b.e.Swap(b.set, at(0))
	proven := map[int]time.Duration{}
	lines = slices.Clone(lines)
	slices.SortStableFunc(lines, func(a, b logged) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.source, b.source)) })
	for now := time.Duration(0); now <= 12*time.Minute; now += time.Second {
		var behind []matcher.LaggingStream
		for s := range truthSources {
			if !slices.ContainsFunc(plan, func(o outage) bool { return o.source == s && now >= o.from && now < o.to }) {
				proven[s] = now - 1
			} else if lag != nil {
				l := *lag(s)
				l.ReadUpTo = at(proven[s])
				behind = append(behind, l)
			}
			if lag == nil {
				b.e.AdvanceWatermark(fmt.Sprint(s), at(proven[s]))
			}
		}
		if lag != nil && len(behind) < truthSources {
			b.e.AdvanceWatermark("all", at(now-1), behind...)
		}
		b.reported = append(b.reported, b.e.Evaluate(at(now))...)
		for ; len(lines) > 0 && lines[0].at <= now; lines = lines[1:] {
			b.take(now, lines[0].hit(r))
			b.reported = append(b.reported, b.e.Evaluate(at(now))...)
		}
	}
	for _, x := range b.reported {
		out = append(out, fmt.Sprintf("%s %s %s %v %v %v %d", x.Labels["k"], x.State, x.Reason, x.StartsAt.Sub(at(0)), x.EndsAt.Sub(at(0)), x.FiredAt.Sub(at(0)), x.Count))
	}
	return out
}

// ofKeys returns the reports about some keys.
func ofKeys(reports []string, keys ...string) (out []string) {
	for _, x := range reports {
		if slices.Contains(keys, x[:1]) {
			out = append(out, x)
		}
	}
	return out
}

// For what a lagging stream could change, it is as if a source made no progress.
func TestALaggingStreamIsASourceWithoutProgress(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRule(t)
		r.Unless, r.Limit = nil, 100
		var lines []logged
		for _, ev := range logHistory(t, 100, partsOf(r)...) {
			lines = append(lines, logged{event: ev, source: rapid.IntRange(0, truthSources-1).Draw(t, "source")})
		}
		slices.SortStableFunc(lines, func(a, b logged) int { return cmp.Compare(a.t, b.t) })
		plan := slices.DeleteFunc(truthPlan(t, lines), func(o outage) bool { return o.source < 0 })
		for i := range lines { // without those of the program
			lines[i].at = time.Duration(lines[i].t) * time.Second
		}
		delay(lines, plan)
		lag := func(s int) *matcher.LaggingStream {
			return &matcher.LaggingStream{Labels: matcher.Labels{"stream": fmt.Sprint(s)}}
		}
		require.Equal(t, readLagging(t, r, lines, plan, nil), readLagging(t, r, lines, plan, lag), "%s %v %v", describe(r), plan, lines)
	})
}

// delay sets when each line is read.
func delay(lines []logged, plan []outage) {
	for i := range lines {
		l := &lines[i]
		l.at = time.Duration(l.t) * time.Second
		for again := true; again; {
			again = false
			for _, o := range plan {
				if o.source == l.source && l.at >= o.from && l.at < o.to {
					l.at, again = o.to, true
				}
			}
		}
	}
}

// What a lagging stream cannot change is concluded as if the stream were not there.
func TestALaggingStreamIsNothingToOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRule(t)
		r.Limit = 100
		source := map[string]int{"a": 0, "b": 1}
		var all, others []logged
		for _, ev := range logHistory(t, 100, partsOf(r)...) {
			all = append(all, logged{event: ev, source: source[ev.k]})
		}
		slices.SortStableFunc(all, func(a, b logged) int { return cmp.Compare(a.t, b.t) })
		plan := truthPlan(t, slices.Clone(all))
		for i := range plan {
			plan[i].source = 0
		}
		delay(all, plan)
		for _, l := range all {
			if l.k == "b" {
				others = append(others, l)
			}
		}
		lag := func(int) *matcher.LaggingStream { return &matcher.LaggingStream{Labels: matcher.Labels{"k": "a"}} }
		got := readLagging(t, r, all, plan, lag)
		require.Equal(t, readLagging(t, r, others, nil, lag), ofKeys(got, "b"), "%s %v %v", describe(r), plan, all)
	})
}

// An unless line that comes long after the failure would have fired does not mute it, however
// long the failure has to wait for another log.
func TestUnlessLineAfterALongWait(t *testing.T) {
	f := func(unless time.Duration, want int) {
		t.Helper()
		r := rule(func(r *rules.Rule) {
			r.By, r.For = []string{"k"}, time.Minute
			r.Unless = &rules.ClearOrUnless{Same: []string{"k"}, Within: time.Minute}
		})
		b := newBench(t, r)
		b.take(time.Second, lineHit(r, 0, time.Second, "bad", "a"))
		b.e.AdvanceWatermark("s", at(time.Second), lagging(0, "pod", "unread"))
		b.take(unless, lineHit(r, matcher.PartUnless, unless, "planned", "a"))
		b.advance(2 * time.Minute)
		require.Len(t, b.firing(), want)
	}
	f(time.Minute+11*time.Second, 0)
	f(time.Minute+12*time.Second, 1)
}
