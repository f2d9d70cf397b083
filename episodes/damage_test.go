package episodes

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes/internal/window"
	"crowsnest/matcher"
	"crowsnest/rules"
)

// damagedBench has an open episode of a rule Bad and of a rule Good.
func damagedBench(t *testing.T) (b *bench, bad, good *rules.Rule) {
	bad = rule(func(r *rules.Rule) {
		r.Alert, r.By, r.Count, r.Within = "Bad", []string{"pod"}, 2, time.Hour
		r.Clear = &rules.ClearOrUnless{}
	})
	good = rule(func(r *rules.Rule) { r.Alert, r.Clear = "Good", &rules.ClearOrUnless{} })
	b = newBench(t, bad, good)
	b.take(0, lineHit(bad, 0, 0, "bad", "p"), lineHit(bad, 0, time.Second, "bad", "p"), lineHit(good, 0, 0, "good"))
	b.advance(time.Minute)
	require.Len(t, b.firing(), 2)
	return b, bad, good
}

// damage breaks the state of an open episode so that code that reads its lines
// panics.
func (b *bench) damage(r *rules.Rule) {
	for _, ep := range b.e.rules[r.Alert].open {
		ep.window.Newest, ep.sequence = nil, window.Hits{nil}
		ep.window.Window.Values = window.Hits{nil}
	}
}

// TestPanicOfSnapshot lets one rule panic during a snapshot. Every other rule is saved, and
// so are the open episodes of this one: a restart ends no alert.
func TestPanicOfSnapshot(t *testing.T) {
	b, bad, _ := damagedBench(t)
	b.damage(bad)
	b.restart(2 * time.Minute)
	b.advance(3 * time.Minute)
	require.Len(t, b.firing(), 2)
	require.Empty(t, b.e.Quarantined(), "the loaded state is valid")
}

// TestPanicOfClock lets one rule panic when the clock is set. Every other rule follows the
// clock.
func TestPanicOfClock(t *testing.T) {
	b, bad, good := damagedBench(t)
	b.damage(bad)
	b.e.ClockSet(time.Hour, at(time.Hour+time.Minute))
	require.Equal(t, []*rules.Rule{bad}, b.e.Quarantined())
	b.take(time.Hour+2*time.Minute, lineHit(good, matcher.PartClear, time.Hour+2*time.Minute, "over"))
	b.advance(time.Hour + 3*time.Minute)
	require.Len(t, b.firing(), 1, "the other rule continues")
	_, err := b.e.Snapshot()
	require.NoError(t, err)
}

// TestPanicOfDeadline evaluates the other rules if the deadline of one episode panics.
func TestPanicOfDeadline(t *testing.T) {
	b, bad, _ := damagedBench(t)
	for _, ep := range b.e.rules[bad.Alert].open {
		ep.rs = &ruleState{} // without a rule
	}
	b.advance(48 * time.Hour)
	require.Equal(t, []string{"Bad"}, alertNames(b.firing()), "the other rule expires")
}

func alertNames(eps map[Fingerprint]Episode) (out []string) {
	for _, x := range eps {
		out = append(out, x.Alert)
	}
	return out
}

// TestDamagedSnapshot reads snapshots in which one value each has another type or size.
// Nothing panics, and the undamaged rule continues.
func TestDamagedSnapshot(t *testing.T) {
	b, bad, good := damagedBench(t)
	b.take(2*time.Minute, lineHit(bad, matcher.PartClear, 2*time.Minute, "over", "q"), lineHit(bad, 0, 2*time.Minute, "bad", "r"))
	data, err := b.e.Snapshot()
	require.NoError(t, err)
	var all map[string]any
	require.NoError(t, json.Unmarshal(data, &all))
	var of map[string]any
	for _, r := range all["rules"].([]any) {
		if m := r.(map[string]any); m["alert"] == "Bad" {
			of = m
		}
	}
	tried := 0
	mutate(of, func(what string) {
		tried++
		text, err := json.Marshal(all)
		require.NoError(t, err)
		b.e, b.reported = b.engine(Config{}), nil
		if b.e.Restore(text, at(3*time.Minute)) != nil {
			return
		}
		b.advance(4 * time.Minute)
		require.Contains(t, alertNames(b.firing()), "Good", what)
		b.take(4*time.Minute, lineHit(bad, 0, 4*time.Minute, "bad", "p"), lineHit(bad, matcher.PartClear, 4*time.Minute, "over", "p"))
		b.e.ClockSet(time.Second, at(4*time.Minute+time.Second))
		b.advance(5 * time.Minute)
		_, err = b.e.Snapshot()
		require.NoError(t, err, what)
		require.NotContains(t, b.e.Quarantined(), good, what)
	})
	require.Greater(t, tried, 200)
}

// mutate replaces each value below x by several others, one at a time, and calls f.
func mutate(x any, f func(what string)) {
	try := func(key string, set func(any), was any) {
		for _, v := range []any{nil, "", "x", -1, 0, 1e18, -9.2e18, []any{}, []any{nil}, []any{[]any{nil}}, map[string]any{}, []any{"a", "b", "c"}} {
			set(v)
			f(key)
		}
		set(was)
		mutate(was, f)
	}
	switch x := x.(type) {
	case map[string]any:
		for k, was := range x {
			try(k, func(v any) { x[k] = v }, was)
		}
	case []any:
		for i, was := range x {
			try("entry", func(v any) { x[i] = v }, was)
		}
	}
}

// TestLapseAloneIsSaved restarts between a line that was read after its failure was over and
// the Evaluate that notifies it, when the rule has no other state.
func TestLapseAloneIsSaved(t *testing.T) {
	r := rule(func(r *rules.Rule) { r.KeepFiringFor = time.Minute })
	b := newBench(t, r)
	b.advance(10 * time.Minute)
	b.take(10*time.Minute, lineHit(r, 0, time.Minute, "over"))
	data, err := b.e.Snapshot()
	require.NoError(t, err)
	b.e = b.engine(Config{})
	require.NoError(t, b.e.Restore(data, at(10*time.Minute)))
	b.advance(10 * time.Minute)
	require.Equal(t, []report{{"", StateFiring, "", time.Minute, 0}, {"", StateResolved, ReasonQuiet, time.Minute, 2 * time.Minute}}, reportsOf(b.reported, ""))
}
