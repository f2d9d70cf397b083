package episodes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// event is one line of a random history.
type event struct {
	t    int // seconds
	part matcher.Part
	k    string
	v    string
	n    int // distinguishes lines with equal times
}

func (ev event) hit(r *rules.Rule) matcher.Hit {
	return lineHit(r, ev.part, time.Duration(ev.t)*time.Second, fmt.Sprint("line", ev.n), ev.k, ev.v)
}

func logHistory(t *rapid.T, seconds int, parts ...matcher.Part) []event {
	n := rapid.IntRange(1, 30).Draw(t, "n")
	out := make([]event, n)
	for i := range out {
		out[i] = event{
			t:    rapid.IntRange(0, seconds).Draw(t, "t"),
			part: rapid.SampledFrom(parts).Draw(t, "part"),
			k:    rapid.SampledFrom([]string{"a", "b"}).Draw(t, "k"),
			v:    rapid.SampledFrom([]string{"", "x", "y", "z"}).Draw(t, "v"),
			n:    i,
		}
	}
	return out
}

// listed returns the lines of a history in the order in which the engine reads them, for the message of a failed test.
func listed(events []event) string {
	var b strings.Builder
	for _, ev := range events {
		fmt.Fprintf(&b, "\nline %d of key %s at %ds: part %d, v %q", ev.n, ev.k, ev.t, ev.part, ev.v)
	}
	return b.String()
}

// TestCountsDoNotDependOnTheOrderOfArrival compares with the definition: some
// window (t-W, t] holds enough lines.
func TestCountsDoNotDependOnTheOrderOfArrival(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rule(func(r *rules.Rule) {
			r.By, r.CapturedNames = []string{"k"}, []string{"k", "v"}
			r.Count = rapid.IntRange(2, 5).Draw(t, "count")
			r.Within = time.Duration(rapid.IntRange(1, 20).Draw(t, "within")) * time.Second
		})
		events := logHistory(t, 60, 0)
		b := &bench{t: t, set: &rules.Set{Rules: []*rules.Rule{r}}}
		b.e = b.engine(Config{})
		want := map[string]bool{}
		for _, ev := range events {
			b.take(time.Minute, ev.hit(r))
			n := 0
			for _, other := range events {
				age := time.Duration(ev.t-other.t) * time.Second
				if other.k == ev.k && age >= 0 && age < r.Within {
					n++
				}
			}
			if n >= r.Count {
				want[ev.k] = true
			}
		}
		b.reported = b.e.Evaluate(at(time.Minute))
		got := map[string]bool{}
		for _, x := range b.firing() {
			got[x.Labels["k"]] = true
		}
		require.Equal(t, want, got, "the definition expects these keys; %s;%s", describe(r), listed(events))
	})
}

// TestSequencesDoNotDependOnTheOrderOfArrival compares with the definition by trying all
// lines.
func TestSequencesDoNotDependOnTheOrderOfArrival(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		steps := rapid.IntRange(2, 3).Draw(t, "steps")
		r := rule(func(r *rules.Rule) {
			r.By, r.CapturedNames = []string{"k"}, []string{"k", "v"}
			r.Sequence, r.Steps = true, make([]rules.Step, steps)
			if rapid.Bool().Draw(t, "differs") {
				r.Steps[steps-1].Differs = []string{"v"}
			}
			r.Within = time.Duration(rapid.IntRange(1, 30).Draw(t, "within")) * time.Second
		})
		events := logHistory(t, rapid.SampledFrom([]int{3, 10, 60}).Draw(t, "seconds"), 0, 1, matcher.Part(steps-1))
		// Some lines serve two steps.
		for _, ev := range events {
			if ev.part < 2 && ev.n%3 == 0 {
				ev.part = (ev.part + 1) % matcher.Part(steps)
				events = append(events, ev)
			}
		}
		b := &bench{t: t, set: &rules.Set{Rules: []*rules.Rule{r}}}
		b.e = b.engine(Config{})
		for _, ev := range events {
			b.take(time.Minute, ev.hit(r))
		}
		b.reported = b.e.Evaluate(at(time.Minute))
		got := map[string]bool{}
		for _, x := range b.firing() {
			got[x.Labels["k"]] = true
		}
		want := map[string]bool{}
		for _, k := range []string{"a", "b"} {
			if complete(r, k, events, nil) {
				want[k] = true
			}
		}
		require.Equal(t, want, got, "the definition expects these keys; a sequence of %d steps, %s;%s", steps, describe(r), listed(events))
	})
}

// complete tries every choice of lines for the steps after sequence.
func complete(r *rules.Rule, k string, events, sequence []event) bool {
	i := len(sequence)
	if i == len(r.Steps) {
		return true
	}
	for _, ev := range events {
		if ev.k != k || int(ev.part) != i || slices.ContainsFunc(sequence, func(c event) bool { return c.n == ev.n }) {
			continue
		}
		if i > 0 && (ev.t < sequence[i-1].t || time.Duration(ev.t-sequence[0].t)*time.Second >= r.Within) {
			continue
		}
		if r.Steps[i].Differs != nil && slices.ContainsFunc(sequence, func(c event) bool { return c.v != "" && c.v == ev.v }) {
			continue
		}
		if complete(r, k, events, append(slices.Clone(sequence), ev)) {
			return true
		}
	}
	return false
}

// anyRule draws a rule of any kind with the names k and v.
func anyRule(t *rapid.T) *rules.Rule {
	seconds := func(label string, lo, hi int) time.Duration {
		return time.Duration(rapid.IntRange(lo, hi).Draw(t, label)) * time.Second
	}
	return rule(func(r *rules.Rule) {
		r.By, r.CapturedNames = []string{"k"}, []string{"k", "v"}
		r.Limit = rapid.IntRange(1, 3).Draw(t, "limit")
		kind := rapid.IntRange(0, 4).Draw(t, "kind")
		switch kind {
		case 1:
			r.Count, r.Within = rapid.IntRange(2, 4).Draw(t, "count"), seconds("within", 5, 30)
		case 2:
			r.Count, r.Within, r.Distinct = 2, seconds("within", 5, 30), "v"
		case 3:
			r.Sequence, r.Steps, r.Within = true, make([]rules.Step, 2), seconds("within", 5, 30)
		}
		if rapid.Bool().Draw(t, "has for") {
			r.For = seconds("for", 1, 20)
		}
		if rapid.Bool().Draw(t, "has clear") {
			r.Clear, r.Expire = &rules.ClearOrUnless{Same: []string{"k"}}, seconds("expire", 21, 60)
		} else {
			r.KeepFiringFor = seconds("keep", 5, 40)
		}
		if rapid.Bool().Draw(t, "has unless") {
			r.Unless = &rules.ClearOrUnless{Same: []string{"k"}, Within: seconds("unless", 1, 20)}
		}
		if kind == 4 {
			r.Silent, r.Expire = seconds("silent", 5, 40), seconds("expire after silence", 5, 60)
			r.For, r.KeepFiringFor, r.Clear = 0, 0, nil
		}
	})
}

func partsOf(r *rules.Rule) []matcher.Part {
	parts := []matcher.Part{0, 0, matcher.Part(len(r.Steps) - 1)}
	if r.Clear != nil {
		parts = append(parts, matcher.PartClear)
	}
	if r.Unless != nil {
		parts = append(parts, matcher.PartUnless)
	}
	return parts
}

// states plays a history in order of time and returns the reports. disturb is
// called before each line.
func states(t *rapid.T, r *rules.Rule, events []event, disturb func(b *bench, now time.Duration, h matcher.Hit)) []string {
	b := &bench{t: t, set: &rules.Set{Rules: []*rules.Rule{r}}}
	b.e = b.engine(Config{})
	for _, ev := range events {
		now := time.Duration(ev.t) * time.Second
		b.advance(now - 1)
		disturb(b, now, ev.hit(r))
		b.take(now, ev.hit(r))
		b.reported = append(b.reported, b.e.Evaluate(at(now))...)
	}
	b.advance(10 * time.Minute)
	var out []string
	last := map[string]string{}
	for _, x := range b.reported {
		if x.State == StatePending || x.State == StateDropped {
			continue
		}
		id := x.Fingerprint.String() + x.StartsAt.String()
		s := fmt.Sprint(x.State, x.Reason, x.Labels, x.StartsAt, x.EndsAt)
		if last[id] != s {
			last[id] = s
			out = append(out, s)
		}
	}
	return out
}

// TestARestartChangesNothing restarts before a random line.
func TestARestartChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRule(t)
		events := logHistory(t, 60, partsOf(r)...)
		slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.t, b.t) })
		plain := states(t, r, events, func(*bench, time.Duration, matcher.Hit) {})
		at, n := rapid.IntRange(0, len(events)-1).Draw(t, "restart"), 0
		disturbed := states(t, r, events, func(b *bench, now time.Duration, _ matcher.Hit) {
			if n == at {
				b.restart(now - 1)
				b.advance(now - 1)
			}
			n++
		})
		require.Equal(t, plain, disturbed)
	})
}

// TestReadingTwiceChangesNothing takes lines again that were taken before, as
// after a kill.
func TestReadingTwiceChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRule(t)
		events := logHistory(t, 60, partsOf(r)...)
		slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.t, b.t) })
		plain := states(t, r, events, func(*bench, time.Duration, matcher.Hit) {})
		var before []matcher.Hit
		again := states(t, r, events, func(b *bench, now time.Duration, h matcher.Hit) {
			b.take(now, before...)
			before = append(before, h)
		})
		require.Equal(t, plain, again)
	})
}
