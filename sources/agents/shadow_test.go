package agents

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/hits"
	"crowsnest/rules"
)

var tried = Shadow{Digest: "sha256:" + hex64, Rules: "r", Judged: map[string]bool{"A": true}}

const hex64 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// matches reports that the agent of a node matches a version, or why not.
func (b *bench) matches(node string, state *hits.ShadowState) hits.ReportAnswer {
	b.t.Helper()
	_, answer := b.sendReport(hits.Report{Node: node, Instance: "i1", Rules: map[string]string{"A": b.p.set.Rules[0].MatchHash()}, Shadow: state})
	return answer
}

// A shadow waits for every live agent that does not match it, and says why.
func TestCoverage(t *testing.T) {
	b := newBench(t, Config{})
	require.Equal(t, map[string]string{"": "no agent is connected"}, b.s.Coverage(tried).Waiting)
	good := &hits.ShadowState{Digest: tried.Digest, Rules: tried.Rules}
	f := func(state *hits.ShadowState, want string) {
		t.Helper()
		b.say(hits.Message{Node: "n1", First: 1})
		b.say(hits.Message{Node: "n2", First: 1})
		b.matches("n2", good)
		b.matches("n1", state)
		waiting := b.s.Coverage(tried).Waiting
		if want == "" {
			require.Empty(t, waiting)
			return
		}
		require.Len(t, waiting, 1)
		require.Contains(t, waiting["n1"], want)
	}
	b.say(hits.Message{Node: "n1", First: 1})
	require.Contains(t, b.s.Coverage(tried).Waiting["n1"], "has not reported yet")
	f(nil, "update the agent")
	f(&hits.ShadowState{Digest: "sha256:" + hex64[1:] + "0", Rules: tried.Rules}, "has not fetched the version")
	f(&hits.ShadowState{Digest: tried.Digest, Rules: "x"}, "its rules differ")
	f(&hits.ShadowState{Digest: tried.Digest, Error: "status 503"}, "its agent reports: status 503")
	f(good, "")
	require.Empty(t, b.s.Coverage(tried).Refused)
	f(&hits.ShadowState{Digest: tried.Digest, Error: "rule A takes 0.90 of a CPU", Refused: true}, "rule A")
	require.Equal(t, "node n1 reports: rule A takes 0.90 of a CPU", b.s.Coverage(tried).Refused)

	b.now = at(time.Minute)
	f(good, "")
	require.Equal(t, at(time.Minute), b.s.Coverage(tried).Since)
	b.now = at(2 * time.Minute)
	f(good, "")
	require.Equal(t, at(time.Minute), b.s.Coverage(tried).Since, "it has not changed")
	b.say(hits.Message{Node: "n1", Instance: "i2", After: []string{"i1"}, First: 1})
	require.Contains(t, b.s.Coverage(tried).Waiting["n1"], "has not reported yet", "a new process matches nothing at first")
	b.say(hits.Message{Node: "n1", Instance: "i2", First: 1, Goodbye: true})
	require.Empty(t, b.s.Coverage(tried).Waiting, "a node that is down is not waited for")
	b.say(hits.Message{Node: "n2", First: 1, Sent: b.now.Add(11 * time.Second)})
	require.Equal(t, map[string]string{"n2": "its clock is 11s ahead"}, b.s.Coverage(tried).Waiting)
	b.now = at(time.Hour)
	require.Equal(t, map[string]string{"": "no agent is connected"}, b.s.Coverage(tried).Waiting)
}

// The rules in force of a node that differ cannot be compared with anything.
func TestCoverageNeedsTheRulesInForce(t *testing.T) {
	b := newBench(t, Config{})
	b.say(hits.Message{Node: "n1", First: 1})
	_, _ = b.sendReport(hits.Report{Node: "n1", Instance: "i1", Rules: map[string]string{"A": "ff"}, Shadow: &hits.ShadowState{Digest: tried.Digest, Rules: tried.Rules}})
	require.Equal(t, map[string]string{"n1": "its agent has another version of the rule in force A"}, b.s.Coverage(tried).Waiting)
	other := tried
	other.Judged = map[string]bool{"B": true}
	require.Empty(t, b.s.Coverage(other).Waiting)
}

// An agent learns of new versions with the answer to a report, which the token of every
// other answer makes it send.
func TestPacksAreStatedToAgents(t *testing.T) {
	b := newBench(t, Config{})
	b.say(hits.Message{Node: "n1", First: 1})
	before := b.matches("n1", nil)
	require.Empty(t, before.Packs)
	packs := map[string]hits.Pack{"registry/packs": {InForce: "sha256:1", Shadow: tried.Digest}}
	b.s.UsePacks(packs)
	token := b.s.tokenOf(b.s.nodes["n1"])
	require.NotEqual(t, before.Report, token)
	b.s.UsePacks(map[string]hits.Pack{"registry/packs": packs["registry/packs"]})
	require.Equal(t, token, b.s.tokenOf(b.s.nodes["n1"]))
	require.Equal(t, packs, b.matches("n1", nil).Packs)
	b.s.UsePacks(map[string]hits.Pack{})
	require.Equal(t, before.Report, b.s.tokenOf(b.s.nodes["n1"]), "without packs nothing is different")
}

// Hits of a shadow go to its rules only.
func TestHitsOfAShadowAreFoundApart(t *testing.T) {
	b := newBench(t, Config{})
	r := *b.p.set.Rules[0]
	r.Hash = hits.ShadowHash(tried.Digest, r.Hash)
	shadow := &rules.Set{Rules: []*rules.Rule{&r}, Shadow: tried.Digest}
	var out hits.Builder
	for id := range uint64(3) {
		h := hitOf(b.p.set.Rules[0], id)
		if id == 1 {
			h.Rule = &r
		}
		out.Add(&h)
	}
	batch, err := new(hits.Decoder).Decode(out.Seal())
	require.NoError(t, err)
	var got outcome
	find := b.s.finder(&node{}, batch, &got)
	require.Len(t, find(b.p.set), 2)
	require.Len(t, find(shadow), 1)
	require.Equal(t, 2, got.Taken, "they are not counted as hits of the rules in force")
	require.Empty(t, find(&rules.Set{Rules: []*rules.Rule{&r}, Shadow: "sha256:" + hex64[1:] + "0"}))
}
