package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/rulefolder"

	"crowsnest/sources"
)

// lease is a pack with a rule about what does not recover, in some wording.
func lease(clear string) string {
	return `pack: {name: lease, version: 0.1.0, rules: 1}
rules:
- alert: Lost
  from: '{container="syncer"}'
  match: {regex: 'lease of (?P<who>\w+) lost'}
  clear: {regex: 'lease of (?P<who>\w+) (` + clear + `)', same: [who]}
  by: [who]
  for: 2s
  severity: warning
  tests:
  - name: fires
    stream: {namespace: a, container: syncer}
    input: [{at: 0s, line: "lease of x lost"}]
    expect: [{at: 1m, firing: [{alertname: Lost}]}]
`
}

// values are those of a label in the notifications of an alert.
func (r *receiver) values(alert, label string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, p := range r.posts {
		if p.Labels["alertname"] == alert {
			out = append(out, p.Labels[label])
		}
	}
	return out
}

func (s *ship) metric(text string) {
	s.t.Helper()
	s.eventually(func() bool {
		_, body := s.get("/metrics")
		return strings.Contains(body, text)
	}, text)
}

// A rule that an agent has before the aggregator: what it finds is kept, also over
// a restart of the aggregator, and applied when the aggregator has the rule.
func TestANewRuleOnTheAgentFirst(t *testing.T) {
	aggregator, agent := newStages(t)
	agent.rules.Write("b.yaml", rulefolder.Pack("b", "B", "text of b"))
	aggregator.start()
	agent.start()
	agent.log("vc-0", "text of b")
	aggregator.metric(`crowsnest_agents_held_hits{source="agents"} 1`)
	aggregator.stop()
	aggregator.start()
	aggregator.metric(`crowsnest_agents_held_hits{source="agents"} 1`)
	aggregator.rules.Write("b.yaml", rulefolder.Pack("b", "B", "text of b"))
	aggregator.eventually(func() bool { return len(aggregator.am.firing("B")) == 1 }, "B fires")
	aggregator.metric(`crowsnest_agents_held_hits{source="agents"} 0`)
	aggregator.metric(`crowsnest_agents_dropped_hits_total{reason="unknown_rule",source="agents"} 0`)
}

// A rule whose clear has new wording on the aggregator first: while the agent is
// behind, nothing is concluded from silence. Then the agent looks at older lines
// again, so what recovered meanwhile is no alert, and what did not is one.
func TestANewClearOnTheAggregatorFirst(t *testing.T) {
	aggregator, agent := newStages(t)
	agent.rules.Write("lease.yaml", lease("won"))
	aggregator.rules.Write("lease.yaml", lease("won|regained"))
	aggregator.start()
	agent.start()
	aggregator.metric(`crowsnest_rule_held{rule="Lost"} 1`)
	agent.log("vc-0", "lease of anna lost")
	agent.log("vc-0", "lease of berta lost")
	agent.log("vc-0", "lease of anna regained")
	began := time.Now()
	aggregator.metric(`crowsnest_episodes{rule="Lost",state="pending"} 2`)
	_, body := aggregator.get("/rules/Lost")
	require.Contains(t, body, "node n1 has another version of it")
	// The watermark of other rules passes the deadlines: this one waits.
	aggregator.eventually(func() bool {
		p := aggregator.d.sourceStatus()[0].Members["agents/n1"]
		return p.Watermark.After(began.Add(5 * time.Second))
	}, "the node is proved to be read beyond the deadlines")
	aggregator.metric(`crowsnest_episodes{rule="Lost",state="pending"} 2`)

	agent.rules.Write("lease.yaml", lease("won|regained"))
	aggregator.eventually(func() bool { return len(aggregator.am.values("Lost", "who")) > 0 }, "what is lost fires")
	aggregator.metric(`crowsnest_episodes{rule="Lost",state="pending"} 0`)
	require.NotContains(t, aggregator.am.values("Lost", "who"), "anna")
	aggregator.metric(`crowsnest_rule_held{rule="Lost"} 0`)
}

// Rules that differ for long are an alert that names them and the nodes.
func TestRulesThatDifferForLong(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	behind := map[string]sources.Behind{
		"A": {Since: now.Add(-differFor), Members: []string{"n1", "n2"}}, "B": {Since: now.Add(-time.Minute), Members: []string{"n3"}},
	}
	e, ok := differAlert(now, behind)
	require.True(t, ok)
	require.Equal(t, "1 rules differ between the aggregator and 2 nodes: n1, n2", e.Annotations["summary"])
	require.Contains(t, e.Annotations["description"], ": A.")
	delete(behind, "A")
	_, ok = differAlert(now, behind)
	require.False(t, ok)
}
