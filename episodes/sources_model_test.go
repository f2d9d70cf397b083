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
	"crowsnest/rules/selector"
)

// sourceSelector selects the streams of one of the sources.
func sourceSelector(t require.TestingT, source int) rules.Selector {
	s, err := selector.Parse(fmt.Sprintf(`{source="%d"}`, source))
	require.NoError(t, err)
	return s
}

// spread gives each part of a rule one of the sources, and returns that of each part.
func spread(t *rapid.T, r *rules.Rule) func(event) int {
	draw := func(part string, from, to int) (int, rules.Selector) {
		s := rapid.IntRange(from, to).Draw(t, "source of "+part)
		return s, sourceSelector(t, s)
	}
	var steps []int
	last := truthSources - 1
	if r.Unless != nil {
		last-- // lines of the steps and unless lines come from different sources
	}
	for i := range r.Steps {
		s, from := draw(fmt.Sprint("step ", i), 0, last)
		r.Steps[i].From, steps = from, append(steps, s)
	}
	clear, unless := 0, 0
	if r.Clear != nil {
		clear, r.Clear.From = draw("clear", 0, truthSources-1)
	}
	if r.Unless != nil {
		unless, r.Unless.From = draw("unless", slices.Max(steps)+1, truthSources-1)
	}
	return func(ev event) int {
		switch ev.part {
		case -2:
			return clear
		case -1:
			return unless
		}
		return steps[ev.part]
	}
}

// servesSource is what a source of spread serves.
func servesSource(source int) func(rules.Selector) bool {
	labels := map[string]string{"source": fmt.Sprint(source)}
	return func(from rules.Selector) bool { return from.Matches(labels, false) }
}

// A rule concludes the same whether one source reads all lines in order, or its parts have
// different sources that are away and are killed at different times.
func TestTruthIsTheSameOverSources(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRule(t)
		r.Limit, r.Unless, r.Distinct, r.Silent = 100, nil, "", 0
		r.Clear, r.Expire = &rules.ClearOrUnless{Same: []string{"k"}}, 10*time.Minute
		r.For = time.Duration(rapid.IntRange(1, 20).Draw(t, "for")) * time.Second
		compareSources(t, r)
	})
}

// The same for rules that an unless line mutes.
func TestMutingIsTheSameOverSources(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRule(t)
		r.Limit, r.Clear, r.Expire, r.Distinct, r.Silent = 100, nil, 0, "", 0
		r.KeepFiringFor = 10 * time.Minute
		r.Unless = &rules.ClearOrUnless{Same: []string{"k"}, Within: time.Duration(rapid.IntRange(1, 30).Draw(t, "mutes")) * time.Second}
		compareSources(t, r)
	})
}

func compareSources(t *rapid.T, r *rules.Rule) {
	if !r.Sequence && r.Count == 1 {
		r.Within = 0
	}
	of := spread(t, r)
	var lines []logged
	for _, ev := range logHistory(t, 100, partsOf(r)...) {
		lines = append(lines, logged{event: ev, source: of(ev)})
	}
	slices.SortStableFunc(lines, func(a, b logged) int { return cmp.Or(cmp.Compare(a.t, b.t), cmp.Compare(a.part, b.part)) })
	plan := truthPlan(t, lines)
	inOrder := slices.Clone(lines)
	for i := range inOrder {
		inOrder[i].at, inOrder[i].source = time.Duration(inOrder[i].t)*time.Second, 0
	}
	want, _ := alertsOf(t, read(t, r, inOrder, nil))
	reported := readFrom(t, r, lines, plan, servesSource)
	got, lapses := alertsOf(t, reported)
	want = slices.DeleteFunc(want, func(w report) bool { return mutedLater(w, reported) })
	want = likened(t, want, got, lapses)
	require.Equal(t, want, got, "%s %v %v", describe(r), plan, lines)
}

// mutedLater reports whether an unless line muted the failure of w because the failure waited longer than in order. A
// trigger that is read late does not move startsAt back, so the wait begins later, and an unless line may follow before
// its end.
func mutedLater(w report, reported []Episode) bool {
	return slices.ContainsFunc(reported, func(x Episode) bool {
		starts := x.StartsAt.Sub(at(0))
		return x.State == StateDropped && x.Reason == ReasonMuted && x.Labels["k"] == w.key && w.starts < starts && starts <= w.ends
	})
}
