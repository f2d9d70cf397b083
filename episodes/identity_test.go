package episodes

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/episodes/internal/intake"
	"crowsnest/matcher"
	"crowsnest/rules"
)

// clusters are the streams that the tests of the identity read: some carry one of
// its labels, some both, some none.
var clusters = []matcher.Labels{
	{"namespace": "ns"},
	{"namespace": "ns", "cluster": "east"},
	{"namespace": "ns", "cluster": "west"},
	{"namespace": "ns", "cluster": "east", "tenant": "blue"},
	{"namespace": "ns", "tenant": "east"},
}

// placed is a line and the number of its stream.
type placed struct {
	event
	of int
}

func (p placed) hit(r *rules.Rule) matcher.Hit {
	h := p.event.hit(r)
	h.Labels, h.ID = clusters[p.of], intake.MixHash(h.ID, uint64(p.of))
	return h
}

// identityRule draws a rule of any kind. Its key may name a label of the identity, and its
// other lines share the whole key or none of it.
func identityRule(t *rapid.T) *rules.Rule {
	r := anyRule(t)
	r.Limit = 1000
	switch rapid.IntRange(0, 2).Draw(t, "by") {
	case 0:
		r.By = nil
	case 1:
		r.By, r.CapturedNames = []string{"cluster"}, []string{"cluster", "v"}
	}
	for _, a := range []*rules.ClearOrUnless{r.Clear, r.Unless} {
		if a == nil {
			continue
		}
		if a.Same = r.By; rapid.Bool().Draw(t, "shares nothing") {
			a.Same = nil
		}
	}
	return r
}

// outcome plays lines in order of arrival and returns the notifications, by labels.
func outcome(t *rapid.T, r *rules.Rule, lines []placed, restart int) map[string][]string {
	b := &bench{t: t, set: &rules.Set{Rules: []*rules.Rule{r}}}
	b.e = b.engine(Config{})
	for i, line := range lines {
		now := time.Duration(line.n) * time.Second // of arrival
		b.advance(now - 1)
		if i == restart {
			b.restart(now - 1)
			b.advance(now - 1)
		}
		b.take(now, line.hit(r))
		b.reported = append(b.reported, b.e.Evaluate(at(now))...)
	}
	b.advance(10 * time.Minute)
	out := map[string][]string{}
	for _, x := range b.reported {
		if x.State == StatePending || x.State == StateDropped {
			continue
		}
		who := fmt.Sprint(x.Labels)
		s := fmt.Sprint(x.State, x.Reason, x.StartsAt, x.EndsAt)
		if !slices.Contains(out[who], s) { // a restart repeats what ended
			out[who] = append(out[who], s)
		}
	}
	return out
}

// Streams that differ in a label of the identity never share an episode: one engine that
// reads all of them concludes the same as one engine for each, for every kind of rule, in
// any order of arrival, over a restart.
func TestIdentityKeepsClustersApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := identityRule(t)
		events := logHistory(t, 60, partsOf(r)...)
		all := make([]placed, len(events))
		for i, ev := range events {
			// n is both the time of arrival and what distinguishes lines.
			ev.n = ev.t + rapid.IntRange(0, 5).Draw(t, "late")
			all[i] = placed{ev, rapid.IntRange(0, len(clusters)-1).Draw(t, "stream")}
		}
		slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(a.n, b.n) })
		restart := rapid.IntRange(0, 2*len(all)).Draw(t, "restart")
		together := outcome(t, r, all, restart)
		apart := map[string][]string{}
		for of := range clusters {
			own := slices.DeleteFunc(slices.Clone(all), func(p placed) bool { return p.of != of })
			for who, reported := range outcome(t, r, own, -1) {
				require.NotContains(t, apart, who, "two clusters have one alert")
				apart[who] = reported
			}
		}
		require.Equal(t, apart, together)
	})
}

// A snapshot of an older program has keys without an identity. Open episodes keep their
// labels, whatever labels the streams have, and end with the line that ends them.
func TestKeysOfAnOlderSnapshotContinue(t *testing.T) {
	r := rule(func(r *rules.Rule) {
		r.By, r.Clear = []string{"pod"}, &rules.ClearOrUnless{Same: []string{"pod"}}
	})
	counting := rule(func(r *rules.Rule) {
		r.Alert, r.By, r.Count, r.Within = "Counting", []string{"pod"}, 3, time.Hour
	})
	old := newBench(t, r, counting)
	old.e = old.engine(Config{Identity: []string{}})
	east, west := matcher.Labels{"cluster": "east"}, matcher.Labels{"cluster": "west"}
	of := func(r *rules.Rule, l matcher.Labels, part matcher.Part, t time.Duration, pod string) matcher.Hit {
		h := lineHit(r, part, t, l["cluster"], pod)
		h.Labels = l
		return h
	}
	old.take(0, of(r, east, 0, 0, "a"), of(r, east, 0, 0, "b"), of(counting, east, 0, 0, "c"), of(counting, east, 0, 1, "c"))
	old.advance(time.Second)
	before := old.firing()
	require.Len(t, before, 2)
	data, err := old.e.Snapshot()
	require.NoError(t, err)

	b := newBench(t, r, counting)
	require.NoError(t, b.e.Restore(data, at(time.Minute)))
	b.advance(time.Minute)
	require.Equal(t, keysOfMap(before), keysOfMap(b.firing()))

	// A trigger of one cluster ties the episode to it: the other cluster gets its own.
	b.take(2*time.Minute, of(r, east, 0, 2*time.Minute, "a"))
	b.advance(2 * time.Minute)
	require.Equal(t, keysOfMap(before), keysOfMap(b.firing()))
	b.restart(2 * time.Minute)
	b.take(3*time.Minute, of(r, west, matcher.PartClear, 3*time.Minute, "a"))
	b.advance(3 * time.Minute)
	require.Len(t, b.firing(), 2)
	b.take(4*time.Minute, of(r, east, matcher.PartClear, 4*time.Minute, "a"), of(r, east, matcher.PartClear, 4*time.Minute, "b"))
	b.advance(4 * time.Minute)
	require.Empty(t, b.firing())

	// Lines that were counted before the restart still count.
	b.take(5*time.Minute, of(counting, west, 0, 5*time.Minute, "c"))
	b.advance(5 * time.Minute)
	require.Len(t, b.firing(), 1)
}

func keysOfMap(m map[Fingerprint]Episode) []Fingerprint {
	var out []Fingerprint
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// The labels of an alert name the identity; if the rule captures another value under the
// same name, the label of the stream becomes stream_NAME.
func TestIdentityLabels(t *testing.T) {
	f := func(stream matcher.Labels, by string, want map[string]string) {
		t.Helper()
		r := rule(func(r *rules.Rule) {
			r.By, r.CapturedNames = []string{"cluster"}, []string{"cluster"}
		})
		b := newBench(t, r)
		h := lineHit(r, 0, 0, "bad", by)
		h.Labels = stream
		b.take(0, h)
		b.advance(0)
		require.Len(t, b.firing(), 1)
		for _, x := range b.firing() {
			for _, name := range []string{"cluster", "stream_cluster", "tenant"} {
				require.Equal(t, want[name], x.Labels[name], name)
			}
		}
	}
	f(nil, "a", map[string]string{"cluster": "a"})
	f(matcher.Labels{"cluster": "a"}, "a", map[string]string{"cluster": "a"})
	f(matcher.Labels{"cluster": "a"}, "ns/b", map[string]string{"cluster": "ns/b", "stream_cluster": "a"})
	f(matcher.Labels{"cluster": "a", "tenant": "t"}, "", map[string]string{"cluster": "a", "tenant": "t"})
	f(matcher.Labels{"pod": "p"}, "", nil)
}
