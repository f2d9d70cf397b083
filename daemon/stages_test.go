package daemon

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"crowsnest/daemon/config"
	"crowsnest/test/rulefolder"

	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sinks/upstream"
	"crowsnest/sources"
	"crowsnest/sources/agents"
	"crowsnest/sources/kubelet"
)

// An alert names the node whose agent is away; a source with parts proves nothing
// itself.
func TestBlindNodes(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a := newSelfAlerts(start, config.DefaultBlindAfter)
	a.blindAfter = 2 * time.Minute
	at := func(d time.Duration, parts map[string]sources.MemberStatus) []string {
		now := start.Add(d)
		out := []string{}
		for _, e := range a.update(now, withParts([]sources.Status{{Name: "agents", Up: true, Members: parts}}, now), nil, nil) {
			if e.Alert != AlertHeartbeat {
				out = append(out, fmt.Sprintf("%s %s %s", e.State, e.Alert, e.Labels["source"]))
			}
		}
		slices.Sort(out)
		return out
	}
	up := func(d time.Duration) sources.MemberStatus {
		return sources.MemberStatus{Up: true, Watermark: start.Add(d)}
	}
	away := sources.MemberStatus{Watermark: start.Add(time.Minute), Error: "its agent said goodbye"}
	none := map[string]sources.MemberStatus{}

	for i := range 2 * stuckAfter {
		require.Empty(t, at(time.Duration(i)*time.Second/4, none), "no agents are no failure")
	}
	require.Empty(t, at(time.Minute, map[string]sources.MemberStatus{"agents/n1": up(time.Minute), "agents/n2": up(time.Minute)}))
	require.Empty(t, at(2*time.Minute, map[string]sources.MemberStatus{"agents/n1": up(2 * time.Minute), "agents/n2": away}))
	require.Equal(t, []string{"firing CrowsnestBlind agents/n2"}, at(3*time.Minute, map[string]sources.MemberStatus{"agents/n1": up(3 * time.Minute), "agents/n2": away}))
	require.Equal(t, []string{"resolved CrowsnestBlind agents/n2"}, at(4*time.Minute, map[string]sources.MemberStatus{"agents/n1": up(4 * time.Minute)}), "it is forgotten")
	require.NotContains(t, a.away, "agents/n2")

	// An agent that is there and proves nothing is found, and is no reason to
	// restart the aggregator.
	for i := range stuckAfter {
		at(4*time.Minute+time.Duration(i)*time.Millisecond, map[string]sources.MemberStatus{"agents/n1": up(4 * time.Minute)})
	}
	require.Contains(t, a.open, selfAlert(alertBlind, "critical", map[string]string{"source": "agents/n1"}, start, nil).Fingerprint)
	require.Empty(t, a.hung())

	many := map[string]sources.MemberStatus{}
	for i := range 50 {
		many[fmt.Sprintf("agents/m%02d", i)] = away
	}
	got := at(10*time.Minute, many)
	got = append(got, at(20*time.Minute, many)...)
	require.Len(t, slices.DeleteFunc(got, func(s string) bool { return !strings.HasPrefix(s, "firing") }), maxBlind+1)
	require.Contains(t, got, "firing CrowsnestBlind agents")
}

// The alerts of agents are told apart.
func TestAlertsOfAnAgentNameItsNode(t *testing.T) {
	a := newSelfAlerts(time.Now(), config.DefaultBlindAfter)
	a.labels = map[string]string{"node": "n1"}
	b := newSelfAlerts(time.Now(), config.DefaultBlindAfter)
	b.labels = map[string]string{"node": "n2"}
	seen := []sources.Status{{Name: "kubelet", Up: true, Watermark: time.Now()}}
	x, y := a.update(time.Now(), seen, nil, nil), b.update(time.Now(), seen, nil, nil)
	require.Equal(t, map[string]string{"alertname": AlertHeartbeat, "severity": "none", "node": "n1"}, x[0].Labels)
	require.NotEqual(t, x[0].Fingerprint, y[0].Fingerprint)
}

func TestUpstreamAway(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d := &Daemon{start: start, self: newSelfAlerts(start, config.DefaultBlindAfter)}
	f := func(after time.Duration, st upstream.Stats, want bool) {
		t.Helper()
		e, got := d.upstreamAway(start.Add(after), st)
		require.Equal(t, want, got)
		if want {
			require.Contains(t, e.Annotations["description"], st.LastError)
		}
	}
	f(time.Hour, upstream.Stats{LastAnswer: start}, false)
	f(time.Minute, upstream.Stats{LastError: "connection refused"}, false)
	f(config.DefaultBlindAfter, upstream.Stats{LastError: "connection refused"}, true)
	f(config.DefaultBlindAfter, upstream.Stats{LastError: "connection refused", LastAnswer: start.Add(time.Minute)}, false)
	f(time.Second, upstream.Stats{LastError: "another agent", Refused: true}, true)
}

// A process that sees one node concludes what one node can decide.
func TestScopeOfANode(t *testing.T) {
	set := &rules.Set{Rules: []*rules.Rule{
		{Alert: "Here", Scope: rules.ScopeNode, Mode: rules.ModeOn},
		{Alert: "Everywhere", Scope: rules.ScopeCluster, Mode: rules.ModeOn},
		{Alert: "Off", Scope: rules.ScopeNode, Mode: rules.ModeOff},
	}}
	modes := func(set *rules.Set) string {
		var out []string
		for _, r := range set.Rules {
			out = append(out, string(r.Mode))
		}
		return strings.Join(out, " ")
	}
	require.Equal(t, "true false false", modes(inScope(set, rules.ScopeNode)))
	require.Equal(t, "true true false", modes(set), "the set is shared")
	require.Same(t, set, inScope(set, ""))
	require.Equal(t, map[string]bool{"Everywhere": true}, outOfScope(set, rules.ScopeNode))
	require.Empty(t, outOfScope(set, ""))
}

func TestScopeInTheDaemon(t *testing.T) {
	s := newShip(t)
	s.rules.Write("a.yaml", strings.Replace(rulefolder.Pack("a", "A", "text of a"), "by: [", "by: [pod, ", 1))
	s.rules.Write("b.yaml", strings.Replace(rulefolder.Pack("b", "B", "text of b"), "by: [namespace, pod]", "by: [namespace]", 1))
	s.cfg = func(c *config.Config) { c.Rules.Scope = rules.ScopeNode }
	s.start()
	_, body := s.get("/metrics")
	for _, line := range []string{
		`crowsnest_rule_inactive{reason="scope",rule="B"} 1`,
		`crowsnest_rule_inactive{reason="scope",rule="A"} 0`,
	} {
		require.Contains(t, body, line)
	}
	_, body = s.get("/rules/B")
	require.Contains(t, body, "This rule is off: it needs the logs of several nodes")
	_, body = s.get("/rules/A")
	require.NotContains(t, body, "This rule is off")
}

func TestStageMetricsAreClean(t *testing.T) {
	reg := prometheus.NewRegistry()
	up, err := upstream.New(upstream.Config{URL: "http://a:1", Node: "n1"}, upstream.Options{})
	require.NoError(t, err)
	d := &Daemon{pipe: &pipeline{up: up}, sources: []sources.Source{agents.New(agents.Config{}), kubelet.New(kubelet.Config{})}}
	require.NoError(t, d.registerStages(reg))
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	require.Empty(t, problems)
	n, err := testutil.GatherAndCount(reg)
	require.NoError(t, err)
	require.Greater(t, n, 25)
}

// A copy of an agent's state waits until what was found before it is safe.
func TestStagedSaves(t *testing.T) {
	up, err := upstream.New(upstream.Config{URL: "http://a:1", Node: "n1"}, upstream.Options{})
	require.NoError(t, err)
	pipe := newPipeline(episodes.New(episodes.Config{}), time.Now)
	pipe.up = up
	s := &saver{dir: t.TempDir(), pipe: pipe, log: zerolog.Nop()}
	s.save()
	saved, errs := s.status()
	require.False(t, saved.IsZero(), "nothing was found before")
	require.Zero(t, errs)

	r := &rules.Rule{Alert: "A"}
	for range 5 {
		up.Take([]matcher.Hit{{Rule: r, Time: time.Now(), Line: "line"}})
		pipe.changed.Store(true)
		s.saveSafe(false)
	}
	require.Len(t, s.staged.cuts, maxCuts)
	again, _ := s.status()
	require.Equal(t, saved, again, "the aggregator has nothing yet")
	first := s.staged.cuts[0].seq
	s.saveSafe(true)
	require.Len(t, s.staged.cuts, maxCuts)
	require.Equal(t, first, s.staged.cuts[0].seq)
	require.Equal(t, uint64(3), s.staged.cuts[1].seq, "the last one is of the end")
}
