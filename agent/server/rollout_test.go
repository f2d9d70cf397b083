package server

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/agent/wire"
	"crowsnest/rules"
)

// two is a set with one more rule.
func (b *bench) two() *rules.Set {
	r := *b.p.set.Rules[0]
	r.Alert = "B"
	return &rules.Set{Rules: []*rules.Rule{b.p.set.Rules[0], &r}}
}

// Rules that a node has in another version, or not at all, are behind since that
// was seen first, also over a restart.
func TestRulesOfNodesAreCompared(t *testing.T) {
	b := newBench(t, Config{})
	b.p.set = b.two()
	a := b.p.set.Rules[0].MatchHash()
	for _, node := range []string{"n1", "n2", "n3"} {
		b.say(wire.Message{Node: node, OldestSequence: 1})
	}
	sendReport := func(node string, digests map[string]string) wire.ReportAnswer {
		_, answer := b.sendReport(wire.Report{Node: node, Instance: "i1", Rules: digests})
		return answer
	}
	both := map[string]string{"A": a, "B": b.p.set.Rules[1].MatchHash()}
	require.Empty(t, sendReport("n1", both).MismatchedRules)
	require.Empty(t, sendReport("n3", nil).MismatchedRules, "an older agent does not report its rules")
	answer := sendReport("n2", map[string]string{"A": "ff"})
	require.Equal(t, map[string]time.Time{"A": start, "B": start}, answer.MismatchedRules)
	b.now = at(time.Minute)
	behind := b.s.MismatchedRules(b.p.set)
	require.Len(t, behind, 2)
	require.Equal(t, []string{"n2"}, behind["A"].Members)
	require.Equal(t, start, behind["A"].Since)

	pos := b.save()
	b.s = New(b.s.cfg)
	require.NoError(t, b.s.Restore(pos))
	b.now = at(2 * time.Minute)
	sendReport("n2", map[string]string{"A": a})
	behind = b.s.MismatchedRules(b.p.set)
	require.Len(t, behind, 1)
	require.Equal(t, start, behind["B"].Since)

	// The agent has to report again when the rules of the aggregator change.
	old := b.p.set
	before := sendReport("n2", map[string]string{"A": a}).Report
	b.p.set = &rules.Set{Rules: old.Rules[:1]}
	require.Empty(t, b.s.MismatchedRules(b.p.set))
	require.NotEqual(t, before, b.s.reportToken(b.s.nodes["n2"]))
}

// Hits of a rule that is not loaded are applied once it is.
func TestHitsAreHeldUntilTheirRuleIsLoaded(t *testing.T) {
	b := newBench(t, Config{})
	h := &handler{s: b.s, p: b.p}
	one := b.p.set
	b.p.set = &rules.Set{}
	b.s.MismatchedRules(b.p.set)
	var out wire.Builder
	for id := range uint64(3) {
		hit := hitOf(one.Rules[0], id)
		out.Add(&hit)
	}
	require.Equal(t, "taken 1 saved 0", b.say(wire.Message{Sequence: 1, OldestSequence: 1, Payload: out.Seal()}))
	require.Equal(t, 3, b.s.Stats().HeldHits)
	require.Zero(t, b.s.Stats().DroppedHits["unknown_rule"])
	pos := b.save()
	b.s = New(b.s.cfg)
	require.NoError(t, b.s.Restore(pos))
	h.s = b.s
	h.applyHeld()
	require.Empty(t, b.p.taken)

	b.p.set = one
	require.Equal(t, start, b.s.MismatchedRules(one)["A"].Since, "the rule is held back to the time of the hits")
	h.applyHeld()
	require.Empty(t, b.p.taken, "that has to be in force first")
	b.now = at(maintainEvery)
	h.applyHeld()
	require.Equal(t, []uint64{0, 1, 2}, b.p.taken)
	require.Zero(t, b.s.Stats().HeldHits)
	require.Empty(t, b.s.MismatchedRules(one))
	h.applyHeld()
	require.Len(t, b.p.taken, 3)
}

// Held hits are bounded in size and time, and those that do not fit are counted.
func TestHeldHitsAreBounded(t *testing.T) {
	b := newBench(t, Config{})
	b.s.withLock(func() {
		b.s.holdHits("quiet", outcome{unknownPayload: []byte("payload"), unknownHits: 5})
		for range 20 {
			b.s.holdHits("busy", outcome{unknownPayload: []byte(strings.Repeat("x", 32<<10)), unknownHits: 7})
		}
	})
	st := b.s.Stats()
	require.Equal(t, 5+4*7, st.HeldHits, "a busy node evicts its own")
	require.Equal(t, int64(16*7), st.DroppedHits["unknown_rule"])
	b.now = at(heldFor)
	(&handler{s: b.s, p: b.p}).applyHeld()
	require.Zero(t, b.s.Stats().HeldHits)
	require.Equal(t, int64(20*7+5), b.s.Stats().DroppedHits["unknown_rule"])
}
