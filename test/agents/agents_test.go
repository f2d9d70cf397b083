// Package agents tests both stages of crowsnest together: agent/client on the
// nodes, agent/server and the engine behind the network. In production these
// are separate processes; here they share one.
package agents

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// transitions returns the notifications in order: each change once, by
// fingerprint.
func transitions(notified []episodes.Episode) []string {
	var out []string
	last := map[string]string{}
	for _, x := range notified {
		if x.State == episodes.StatePending || x.State == episodes.StateDropped {
			continue
		}
		s := fmt.Sprint(x.Fingerprint, x.State, x.Reason, x.StartsAt, x.EndsAt, x.Overflow)
		if x.State == episodes.StateResolved {
			s += fmt.Sprint(" ", x.Count)
		}
		if k := x.Fingerprint.String(); last[k] != s {
			last[k] = s
			out = append(out, s)
		}
	}
	return out
}

// standalone passes to an engine without a network, with one source per node,
// each line that reached the aggregator, once, and returns its notifications.
// It continues over restarts, except for the watermarks, which start again.
func standalone(w *world) []episodes.Episode {
	e := newEngine(w.set)
	byID := map[uint64][]matcher.Hit{}
	for _, m := range w.nodes {
		for _, hits := range m.log {
			byID[hits[0].ID] = hits
		}
	}
	var notified []episodes.Episode
	seen := map[uint64]bool{}
	for _, x := range w.agg.history {
		switch {
		case x.join:
			e.AddSource(x.part, rules.Lateness, nil)
		case x.reset:
			for _, m := range w.nodes {
				e.RemoveSource("agents/" + m.name)
			}
		case x.eval:
			notified = append(notified, e.Evaluate(x.now)...)
		case !x.to.IsZero():
			e.AdvanceWatermark(x.part, x.to)
		}
		for _, id := range x.ids {
			if !seen[id] {
				seen[id] = true
				e.Take(byID[id], x.now)
			}
		}
	}
	return notified
}

// requireTrueProofs checks that all lines of a node up to its watermark were
// accepted.
func requireTrueProofs(t require.TestingT, w *world) {
	taken := map[uint64]bool{}
	for _, x := range w.agg.history {
		for _, id := range x.ids {
			taken[id] = true
		}
		for _, m := range w.nodes {
			if x.to.IsZero() || x.part != "agents/"+m.name {
				continue
			}
			for _, hits := range m.log {
				require.True(t, taken[hits[0].ID] || hits[0].Time.After(x.to), "line %d of %s was not taken when the watermark of %s was %v", hits[0].ID, hits[0].Time, m.name, x.to)
			}
		}
	}
}

// However lines travel, and whatever restarts: each line reaches the engine, in
// the order of its node, and the episodes equal those of an engine that reads
// the logs itself.
func TestTwoStagesConcludeWhatOneDoes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan(rt)
		var w *world
		synctest.Test(t, func(*testing.T) { w = p.play() })
		if w == nil {
			rt.Fatal("the plan did not end")
		}
		at := map[uint64]int{}
		for _, x := range w.agg.history {
			for _, id := range x.ids {
				if _, again := at[id]; !again {
					at[id] = len(at)
				}
			}
		}
		lines := map[uint64]bool{}
		for _, m := range w.nodes {
			last := -1
			for _, hits := range m.log {
				id := hits[0].ID
				lines[id] = true
				n, there := at[id]
				require.True(rt, there, "line %d of %s is lost", id, m.name)
				require.Greater(rt, n, last, "line %d of %s came too late", id, m.name)
				last = n
			}
		}
		require.Len(rt, at, len(lines))
		requireTrueProofs(rt, w)
		require.Empty(rt, w.agg.source.Status().Losses)
		require.Equal(rt, transitions(standalone(w)), transitions(w.agg.notified))
		require.Equal(rt, slices.Sorted(maps.Keys(at)), slices.Sorted(maps.Keys(lines)))
	})
}
