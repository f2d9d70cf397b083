package episodes

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/internal/quota"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
)

func TestKeysAreBounded(t *testing.T) {
	r := rule(func(r *rules.Rule) {
		r.By = []string{"k"}
		r.Count, r.Within, r.Limit = 2, time.Hour, 10
	})
	b := newBench(t, r)
	for i := range 50_000 {
		d := time.Duration(i) * time.Millisecond
		b.take(d, lineHit(r, 0, d, "x", fmt.Sprint("key", i)))
	}
	st := b.e.Stats(at(time.Minute)).Rules[0]
	require.Equal(t, 100, st.Windows)
	require.EqualValues(t, 50_000-100, st.Evicted)

	// With a trigger each, the first ten open and the rest is one alert.
	for i := range 1000 {
		d := time.Minute + time.Duration(i)*time.Millisecond
		b.take(d, lineHit(r, 0, d, "a", fmt.Sprint("other", i)), lineHit(r, 0, d, "b", fmt.Sprint("other", i)))
	}
	b.advance(2 * time.Minute)
	require.Len(t, b.firing(), 11)
	require.EqualValues(t, 990, b.e.Stats(at(2 * time.Minute)).Rules[0].Refused)
}

func TestHitsAreBounded(t *testing.T) {
	r := rule(func(r *rules.Rule) {
		r.By, r.Count, r.Within = []string{"k"}, 200, time.Hour
	})
	b := newBench(t, r)
	b.e = b.engine(Config{MaxHits: 1000})
	for i := range 150 {
		for k := range 100 {
			d := time.Duration(i*100+k) * time.Millisecond
			b.take(d, lineHit(r, 0, d, "x", fmt.Sprint("key", k)))
			require.LessOrEqual(t, b.e.limits.windows.Used[quota.Ordinary][quota.InSize], 1000)
		}
	}
	n := 0
	windows := b.e.rules["Demo"].windows
	for _, x := range windows.Items {
		n += x.Value.Size()
	}
	require.Equal(t, n, b.e.limits.windows.Used[quota.Ordinary][quota.InSize], "the count is exact")
	require.Equal(t, len(windows.Items), b.e.limits.windows.Total())
	require.Positive(t, n)
}

func TestActiveEpisodesAreBounded(t *testing.T) {
	r1 := rule(func(r *rules.Rule) { r.Alert, r.By = "A", []string{"k"} })
	r2 := rule(func(r *rules.Rule) { r.Alert, r.By = "B", []string{"k"} })
	b := newBench(t, r1, r2)
	b.e = b.engine(Config{MaxActive: 150})
	for i := range 100 {
		b.take(0, lineHit(r1, 0, 0, "x", fmt.Sprint(i)), lineHit(r2, 0, 0, "y", fmt.Sprint(i)))
	}
	b.advance(time.Second)
	overflows := 0
	for _, x := range b.firing() {
		if x.Overflow {
			overflows++
		}
	}
	require.Len(t, b.firing(), 152)
	require.Equal(t, 2, overflows)
}

func TestFutureLinesCountAsNow(t *testing.T) {
	f := func(ahead, want time.Duration) {
		t.Helper()
		r := rule(func(*rules.Rule) {})
		b := newBench(t, r)
		b.take(0, lineHit(r, 0, ahead, "x"))
		b.advance(time.Second)
		for _, x := range b.firing() {
			require.Equal(t, at(want), x.StartsAt)
		}
		require.Len(t, b.firing(), 1)
	}
	f(10*time.Minute, 10*time.Minute)
	f(10*time.Minute+1, 0)
}

func TestSecretsDoNotLeaveTheEngine(t *testing.T) {
	r := rule(func(r *rules.Rule) {
		r.By, r.CapturedNames = []string{"k"}, []string{"k", "v"}
		r.Count, r.Within = 2, time.Minute
	})
	b := newBench(t, r)
	b.e = b.engine(Config{Redactor: redact.New([]*regexp.Regexp{regexp.MustCompile("hunter2")})})
	b.take(0, lineHit(r, 0, 0, "password hunter2", "key hunter2", "hunter2"))
	data, err := b.e.Snapshot()
	require.NoError(t, err)
	require.NotContains(t, string(data), "hunter2")
	b.take(1, lineHit(r, 0, 1, "password hunter2 again", "key hunter2", "hunter2"))
	b.advance(time.Second)
	require.Len(t, b.firing(), 1)
	require.NotContains(t, fmt.Sprint(b.reported), "hunter2")
	data, err = b.e.Snapshot()
	require.NoError(t, err)
	require.NotContains(t, string(data), "hunter2")
}

func TestRulesOnHoldConcludeNothing(t *testing.T) {
	r := rule(func(r *rules.Rule) {
		r.For = 2 * time.Minute
		r.Clear = &rules.ClearOrUnless{}
	})
	b := newBench(t, r)
	b.e.AddSource("other", 2*time.Minute, nil)
	b.e.AdvanceWatermark("other", at(0))
	b.take(0, lineHit(r, 0, 0, "lost"))
	b.advance(time.Hour)
	require.Empty(t, b.firing())
	require.True(t, b.e.Stats(at(time.Hour)).Rules[0].OnHold)
	b.e.AdvanceWatermark("other", at(4*time.Minute-1))
	b.advance(time.Hour)
	require.Empty(t, b.firing(), "the other source is two minutes late")
	b.e.AdvanceWatermark("other", at(4*time.Minute))
	b.advance(time.Hour)
	require.Len(t, b.firing(), 1)
}

func TestARuleNoSourceServesIsInactive(t *testing.T) {
	r := rule(func(*rules.Rule) {})
	e := New(Config{})
	e.AddSource("s", 0, func(rules.Selector) bool { return false })
	e.Swap(&rules.Set{Rules: []*rules.Rule{r}}, start)
	require.True(t, e.Stats(start).Rules[0].Inactive)
}

func TestSwap(t *testing.T) {
	open := func() (*bench, *rules.Rule) {
		r := rule(func(r *rules.Rule) { r.By = []string{"k"} })
		b := newBench(t, r)
		b.take(0, lineHit(r, 0, 0, "x", "a"))
		b.advance(time.Second)
		require.Len(t, b.firing(), 1)
		return b, r
	}
	swap := func(b *bench, rs ...*rules.Rule) []Episode {
		b.set = &rules.Set{Rules: rs}
		b.e.Swap(b.set, at(time.Minute))
		return b.e.Evaluate(at(time.Minute))
	}

	b, r := open()
	same := *r
	reported := swap(b, &same)
	require.Len(t, reported, 1)
	require.Equal(t, StateFiring, reported[0].State, "an unchanged rule keeps its episode")

	b, r = open()
	severe := *r
	severe.Severity = rules.SeverityCritical
	reported = swap(b, &severe)
	require.Len(t, reported, 2)
	require.Equal(t, StateResolved, reported[0].State)
	require.Equal(t, ReasonIdentity, reported[0].Reason)
	require.Equal(t, "warning", reported[0].Labels["severity"])
	require.Equal(t, StateFiring, reported[1].State)
	require.Equal(t, "critical", reported[1].Labels["severity"])
	require.Equal(t, reported[0].StartsAt, reported[1].StartsAt)

	b, r = open()
	other := *r
	other.Hash = "2"
	reported = swap(b, &other)
	require.Len(t, reported, 1)
	require.Equal(t, ReasonRemoved, reported[0].Reason)

	b, _ = open()
	reported = swap(b)
	require.Len(t, reported, 1)
	require.Equal(t, StateResolved, reported[0].State)
	require.Equal(t, ReasonRemoved, reported[0].Reason)

	b, r = open()
	off := *r
	off.Mode = rules.ModeOff
	require.Equal(t, ReasonRemoved, swap(b, &off)[0].Reason)
}

func TestRestoreAfterTheRulesChanged(t *testing.T) {
	r := rule(func(r *rules.Rule) { r.By = []string{"k"} })
	b := newBench(t, r)
	b.take(0, lineHit(r, 0, 0, "x", "a"))
	b.advance(time.Second)
	data, err := b.e.Snapshot()
	require.NoError(t, err)

	severe := *r
	severe.Severity = rules.SeverityCritical
	b.set = &rules.Set{Rules: []*rules.Rule{&severe}}
	e := b.engine(Config{})
	require.NoError(t, e.Restore(data, at(time.Minute)))
	reported := e.Evaluate(at(time.Minute))
	require.Equal(t, StateResolved, reported[0].State)
	require.Equal(t, "warning", reported[0].Labels["severity"])
	require.Equal(t, "critical", reported[1].Labels["severity"])

	b.set = &rules.Set{}
	e = b.engine(Config{})
	require.NoError(t, e.Restore(data, at(time.Minute)))
	reported = e.Evaluate(at(time.Minute))
	require.Len(t, reported, 1)
	require.Equal(t, ReasonRemoved, reported[0].Reason)
	require.Equal(t, "a", reported[0].Labels["k"])
}

func TestResolvedIsReportedAgainAfterARestart(t *testing.T) {
	r := rule(func(r *rules.Rule) { r.Clear = &rules.ClearOrUnless{} })
	b := newBench(t, r)
	b.take(0, lineHit(r, 0, 0, "lost"))
	b.advance(time.Second)
	b.take(time.Minute, lineHit(r, matcher.PartClear, time.Minute, "back"))
	b.restart(time.Minute)
	b.reported = nil
	b.advance(2 * time.Minute)
	require.Len(t, b.reported, 1)
	require.Equal(t, StateResolved, b.reported[0].State)
	require.Equal(t, at(time.Minute), b.reported[0].EndsAt)
	b.advance(17 * time.Minute)
	require.Empty(t, b.e.Episodes(at(17*time.Minute)), "it is not listed any more")
}

func TestWarmUpReportsOnlyOpenEpisodes(t *testing.T) {
	r := rule(func(r *rules.Rule) {
		r.By = []string{"k"}
		r.Clear = &rules.ClearOrUnless{Same: []string{"k"}}
	})
	b := newBench(t, r)
	b.e.StartWarmUp(at(time.Hour))
	b.take(time.Hour, lineHit(r, 0, 0, "lost", "a"), lineHit(r, 0, 0, "lost", "b"), lineHit(r, matcher.PartClear, time.Minute, "back", "a"))
	b.advance(time.Hour)
	require.Empty(t, b.reported)
	b.e.EndWarmUp()
	b.advance(time.Hour)
	require.Len(t, b.reported, 1)
	require.Equal(t, "b", b.reported[0].Labels["k"])
}

// A line that was written after the start opens an episode that cannot have been reported
// before.
func TestWarmUpReportsNewLinesAtOnce(t *testing.T) {
	r := rule(func(r *rules.Rule) {
		r.By = []string{"k"}
		r.Clear = &rules.ClearOrUnless{Same: []string{"k"}}
	})
	b := newBench(t, r)
	b.e.StartWarmUp(at(time.Hour))
	b.take(time.Hour, lineHit(r, 0, time.Minute, "lost", "old"), lineHit(r, 0, time.Hour, "lost", "new"))
	b.advance(time.Hour)
	require.Len(t, b.reported, 1)
	require.Equal(t, "new", b.reported[0].Labels["k"])
	b.take(2*time.Hour, lineHit(r, matcher.PartClear, 2*time.Hour, "back", "new"))
	b.advance(2 * time.Hour)
	require.Len(t, b.reported, 2)
	require.Equal(t, StateResolved, b.reported[1].State)
	b.e.EndWarmUp()
	require.Len(t, b.e.Episodes(at(2*time.Hour)), 2, "what ended is still listed")
}

// An episode that continues during the warm-up is reported at its end, and its updates
// later.
func TestEpisodeContinuesDuringWarmUp(t *testing.T) {
	r := rule(func(r *rules.Rule) { r.By = []string{"k"} })
	b := newBench(t, r)
	b.e.StartWarmUp(at(time.Hour))
	for i := range 3 {
		d := time.Duration(i) * time.Second
		b.take(d, lineHit(r, 0, d, fmt.Sprint("line ", i), "a"))
		b.advance(d)
	}
	require.Empty(t, b.reported)
	b.e.EndWarmUp()
	b.advance(3 * time.Second)
	require.Len(t, b.reported, 1)
	require.EqualValues(t, 3, b.reported[0].Count)
	b.take(4*time.Second, lineHit(r, 0, 4*time.Second, "line 4", "a"))
	b.advance(4 * time.Second)
	require.Len(t, b.reported, 2)
	require.EqualValues(t, 4, b.reported[1].Count)
}

func TestABadSnapshotChangesNothing(t *testing.T) {
	b := newBench(t, rule(func(*rules.Rule) {}))
	for _, data := range []string{"", "{", "null", "[]", `{"version":2}`, `{"version":1,"seen":"%"}`, `{"version":1,"rules":7}`} {
		if err := b.e.Restore([]byte(data), start); data != "" {
			require.Error(t, err, data)
		}
		require.Empty(t, b.e.Evaluate(start))
	}
	// Odd but readable values must not break anything later.
	odd := `{"version":1,"rules":[{"alert":"Demo","hash":"1","open":[{"values":["too","many"],"state":"firing"},{"values":[],"state":"odd"}],"windows":[{"key":["a","b"],"steps":[[],[],[]]}]}]}`
	require.NoError(t, b.e.Restore([]byte(odd), start))
	require.Empty(t, b.e.Evaluate(start))
}

func FuzzRestore(f *testing.F) {
	r := rule(func(r *rules.Rule) {
		r.By, r.CapturedNames = []string{"k"}, []string{"k", "d"}
		r.Sequence, r.Steps, r.Within = true, make([]rules.Step, 2), time.Minute
	})
	b := newBench(f, r)
	b.take(0, lineHit(r, 0, 0, "x", "a", "1"), lineHit(r, 1, 1, "y", "a", "2"), lineHit(r, 0, 0, "x", "b", "1"))
	b.advance(time.Second)
	data, err := b.e.Snapshot()
	require.NoError(f, err)
	f.Add(data)
	f.Add([]byte(`{"version":1}`))
	f.Fuzz(func(_ *testing.T, data []byte) {
		e := b.engine(Config{})
		_ = e.Restore(data, start) // any content: an error or a working engine
		e.Take([]matcher.Hit{lineHit(r, 0, 0, "x", "a", "1"), lineHit(r, 1, 1, "y", "a", "2")}, start)
		e.AdvanceWatermark("s", at(time.Hour))
		e.Evaluate(at(time.Hour))
		e.Episodes(at(time.Hour))
	})
}

func TestACaptureOfASecretIsHidden(t *testing.T) {
	r := rule(func(r *rules.Rule) { r.By, r.CapturedNames = []string{"k"}, []string{"k", "pod", "cluster"} })
	f := func(line, value, pod, cluster, want string) {
		t.Helper()
		b := newBench(t, r)
		b.e = b.engine(Config{Redactor: redact.New(nil)})
		h := lineHit(r, 0, 0, line, value, pod, cluster)
		h.Labels = matcher.Labels{"pod": pod}
		b.take(0, h)
		reported := b.e.Evaluate(at(0))
		require.Equal(t, want, reported[0].Labels["k"])
		require.NotContains(t, fmt.Sprint(reported[0]), "hunter2")
	}
	f("login password=hunter2 user=eve", "hunter2", "p", "", "<redacted>")
	f("login password=hunter2 user=eve", "eve", "p", "", "eve")
	f(`{"msg":"password=hunter2 ","Cluster":{"name":"c","namespace":"n"}}`, "n/c", "p", "n/c", "n/c")
	f("no secret here", "composed/value", "p", "", "composed/value")
}

// A namespace that reaches its limit leaves places for the others.
func TestNamespaceBudget(t *testing.T) {
	r := rule(func(r *rules.Rule) { r.By, r.Limit = []string{"k"}, 1000 })
	b := newBench(t, r)
	b.e = b.engine(Config{MaxActive: 20})
	say := func(at time.Duration, namespace, key string) {
		h := lineHit(r, 0, at, "line", key)
		h.Labels = matcher.Labels{"namespace": namespace}
		b.take(at, h)
	}
	for i := range 15 {
		say(time.Second, "tenant", fmt.Sprint("t", i))
	}
	for i := range 5 {
		say(2*time.Second, "platform", fmt.Sprint("p", i))
	}
	b.advance(3 * time.Second)
	open := map[string]int{}
	for _, x := range b.e.Episodes(at(3 * time.Second)) {
		open[x.Labels["k"][:min(1, len(x.Labels["k"]))]]++
	}
	require.Equal(t, map[string]int{"t": 10, "p": 5, "": 1}, open, "and the overflow")
	var over Episode
	for _, x := range b.reported {
		if x.Overflow {
			over = x
		}
	}
	require.Contains(t, over.Annotations["description"], "the limit of namespace tenant (limits.alerts_per_namespace) is 10")

	// The limit holds after a restart, and ended episodes free their places.
	s, err := b.e.Snapshot()
	require.NoError(t, err)
	b.e = b.engine(Config{MaxActive: 20})
	require.NoError(t, b.e.Restore(s, at(4*time.Second)))
	require.Equal(t, []int{10, 5}, []int{b.e.limits.slots.Entries(quota.Ordinary, "tenant"), b.e.limits.slots.Entries(quota.Ordinary, "platform")})
	b.advance(2 * rules.DefaultKeepFiringFor)
	require.Zero(t, b.e.limits.slots.Tenants(quota.Ordinary))
	require.Zero(t, b.e.limits.slots.Total())
}

// An overflow during a warm-up is reported at its end.
func TestOverflowInWarmUp(t *testing.T) {
	r := rule(func(r *rules.Rule) { r.By, r.Limit = []string{"k"}, 1 })
	b := newBench(t, r)
	b.e.StartWarmUp(at(time.Hour))
	b.take(0, lineHit(r, 0, 0, "line", "a"), lineHit(r, 0, 0, "line", "b"))
	b.advance(time.Second)
	require.Empty(t, b.reported)
	b.e.EndWarmUp()
	b.advance(2 * time.Second)
	require.Len(t, b.firing(), 2)
	require.Len(t, b.reported, 2)

	s, err := b.e.Snapshot()
	require.NoError(t, err)
	b.reported, b.e = nil, b.engine(Config{})
	require.NoError(t, b.e.Restore(s, at(3*time.Second)))
	b.advance(3 * time.Second)
	require.Len(t, b.firing(), 2)
}
