package daemon

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"crowsnest/agent/client"
	"crowsnest/agent/server"
	"crowsnest/daemon/config"
	"crowsnest/test/child"
	"crowsnest/test/rulefolder"
)

// newAgentMode returns an aggregator and an agent of node n1 that sends to it.
// Neither is started.
func newAgentMode(t *testing.T) (aggregator, agent *ship) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	aggregator, address := newAggregator(t)
	return aggregator, newAgent(t, address.String())
}

// newAggregator returns an aggregator and its address for agents.
func newAggregator(t *testing.T) (*ship, *url.URL) {
	port, err := child.FreePort()
	require.NoError(t, err)
	s, address := oneOfShips(t), child.Address(port)
	s.cfg = func(c *config.Config) {
		c.Sources.All = nil
		c.Sources.Add(&server.Config{ListenAddress: address, Lateness: time.Second})
	}
	return s, &url.URL{Scheme: "http", Host: address}
}

// newAgent returns the agent of node n1.
func newAgent(t *testing.T, aggregator string) *ship { return newAgentOf(t, aggregator, "n1") }

// newAgentOf returns the agent of a node.
func newAgentOf(t *testing.T, aggregator, node string) *ship {
	s := oneOfShips(t)
	s.cfg = func(c *config.Config) {
		c.Sinks.All = nil
		c.Sinks.Add(&client.Config{URL: aggregator, Node: node})
	}
	return s
}

// first returns the first notification of an alert.
func (r *receiver) first(alert string) (posted, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.posts {
		if p.Labels["alertname"] == alert {
			return p, true
		}
	}
	return posted{}, false
}

func (s *ship) notified(alert string) posted {
	s.t.Helper()
	var got posted
	s.eventually(func() bool {
		var ok bool
		got, ok = s.am.first(alert)
		return ok
	}, alert+" is notified")
	return got
}

// The aggregator notifies of problems that only an agent knows: a pack that it refused,
// and lines that it lost.
func TestReportsOfAnAgentAreNotified(t *testing.T) {
	aggregator, agent := newAgentMode(t)
	aggregator.start()
	agent.start()
	agent.rules.Write("a.yaml", "pack: {name: a\n")
	got := aggregator.notified("CrowsnestPackBroken")
	require.Equal(t, "agent", got.Labels["component"])
	require.Equal(t, "a", got.Labels["pack"])
	require.Contains(t, got.Annotations["summary"], "node n1")

	agent.log("vc-0", "text of a")
	agent.eventually(func() bool {
		_, body := agent.get("/metrics")
		return strings.Contains(body, "crowsnest_upstream_hits_total 1\n")
	}, "hits still arrive")
	agent.stop()
	log := filepath.Join(agent.dir, "pods", "team-a_vc-0_1b2c", "syncer", "0.log")
	require.NoError(t, os.WriteFile(log, []byte("2026-01-01T00:00:00Z stderr F other\n"), 0o600))
	agent.rules.Write("a.yaml", rulefolder.Pack("a", "A", "text of a"))
	agent.start()
	got = aggregator.notified("CrowsnestLinesLost")
	require.Equal(t, "kubelet", got.Labels["source"])
	require.Equal(t, "warning", got.Labels["severity"])
	require.Contains(t, got.Annotations["description"], "node n1, 1 time in all")
	aggregator.eventually(func() bool { return aggregator.am.resolved("CrowsnestPackBroken") }, "the pack is correct again")
	_, body := aggregator.get("/metrics")
	require.Contains(t, body, `crowsnest_agents_reporting{alert="CrowsnestLinesLost",source="agents"} 1`)
	require.Contains(t, body, `crowsnest_agents_losses_total{source="agents"} 1`)
	_, body = aggregator.get("/sources")
	require.Contains(t, body, "<code>CrowsnestLinesLost</code>")
}

// Two aggregators behind one address both raise an alert.
func TestTwoAggregatorsAreNotified(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	one, first := newAggregator(t)
	two, second := newAggregator(t)
	var requests atomic.Int64
	transport := &http.Transport{}
	service := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL([]*url.URL{first, second}[requests.Add(1)/3%2]) },
		Transport: transport, ErrorLog: log.New(io.Discard, "", 0),
	})
	t.Cleanup(transport.CloseIdleConnections)
	t.Cleanup(service.Close)
	agent := newAgent(t, service.URL)
	one.start()
	two.start()
	agent.start()
	for _, aggregator := range []*ship{one, two} {
		got := aggregator.notified("CrowsnestTwoAggregators")
		require.Equal(t, "critical", got.Labels["severity"])
		require.Equal(t, "Two aggregators answer the agents on node n1", got.Annotations["summary"])
		require.Contains(t, got.Annotations["description"], service.URL)
		_, body := aggregator.get("/sources")
		require.Contains(t, body, "<code>CrowsnestTwoAggregators</code>")
	}
}

func TestAgentMetricsAreClean(t *testing.T) {
	reg := prometheus.NewRegistry()
	up, err := client.New(client.Config{URL: "http://a:1", Node: "n1"}, client.Options{})
	require.NoError(t, err)
	for _, c := range []prometheus.Collector{up.Metrics(), server.New(server.Config{}).Metrics()} {
		require.NoError(t, reg.Register(c))
	}
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	require.Empty(t, problems)
	n, err := testutil.GatherAndCount(reg)
	require.NoError(t, err)
	require.Greater(t, n, 15)
}

// A failed connection to the aggregator is logged at once, then once a minute. Its recovery
// is logged, too.
func TestFailuresOfTheUpstreamAreLogged(t *testing.T) {
	var out strings.Builder
	r := &remoteConcluder{log: zerolog.New(&out)}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f := func(after time.Duration, st client.Stats, want string) {
		t.Helper()
		out.Reset()
		r.logStats(start.Add(after), st)
		if want == "" {
			require.Empty(t, out.String())
		}
		require.Contains(t, out.String(), want)
	}
	auth := client.Stats{LastReason: "auth", LastError: "status 401: not authorized"}
	f(0, client.Stats{}, "")
	f(time.Second, auth, `"reason":"auth","error":"status 401: not authorized"`)
	f(2*time.Second, auth, "")
	f(61*time.Second, auth, `"reason":"auth"`)
	f(62*time.Second, client.Stats{LastReason: "connection", LastError: "EOF"}, `"reason":"connection","error":"EOF"`)
	f(63*time.Second, client.Stats{}, "again")
	f(64*time.Second, client.Stats{}, "")
	f(65*time.Second, client.Stats{ReportError: "older"}, "older")
	f(66*time.Second, client.Stats{ReportError: "older"}, "")
}

// An agent exports no per-rule series that is zero.
func TestAnAgentHasFewSeries(t *testing.T) {
	aggregator, agent := newAgentMode(t)
	cfg := agent.cfg
	agent.cfg = func(c *config.Config) {
		cfg(c)
		c.Rules = config.RulesConfig{Shipped: true}
	}
	aggregator.start()
	agent.start()
	_, body := agent.get("/metrics")
	series := 0
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, "#") {
			series++
		}
	}
	t.Logf("%d series", series)
	require.Less(t, series, 200)
	require.Contains(t, body, "crowsnest_rules_loaded")
	require.Contains(t, body, `crowsnest_source_lag_seconds{source="kubelet"}`)
	require.NotContains(t, body, "crowsnest_rule_matches_total")
}

// lease returns a pack with a rule that fires without a recovery. clear is the wording
// of the recovery.
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

// values returns the values of a label in the notifications of an alert.
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

// An agent has a rule before the aggregator: its hits are kept, also over a restart of
// the aggregator, and applied when the aggregator has the rule.
func TestANewRuleOnTheAgentFirst(t *testing.T) {
	aggregator, agent := newAgentMode(t)
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

// The clear of a rule has new wording on the aggregator first: while the agent is behind,
// nothing is concluded from silence. Then the agent reads older lines again: only failures
// that did not recover meanwhile become alerts.
func TestANewClearOnTheAggregatorFirst(t *testing.T) {
	aggregator, agent := newAgentMode(t)
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
	// The watermark of other rules passes the deadlines; this rule waits.
	aggregator.eventually(func() bool {
		p := aggregator.d.sourceStatus()[0].Members["agents/n1"]
		return p.Watermark.After(began.Add(5 * time.Second))
	}, "the watermark of the node passes the deadlines")
	aggregator.metric(`crowsnest_episodes{rule="Lost",state="pending"} 2`)

	agent.rules.Write("lease.yaml", lease("won|regained"))
	aggregator.eventually(func() bool { return len(aggregator.am.values("Lost", "who")) > 0 }, "the lost lease fires")
	aggregator.metric(`crowsnest_episodes{rule="Lost",state="pending"} 0`)
	require.NotContains(t, aggregator.am.values("Lost", "who"), "anna")
	aggregator.metric(`crowsnest_rule_held{rule="Lost"} 0`)
}

// lostUnless returns a pack with a rule that fires unless a line of other streams says that
// all is well.
func lostUnless(from string) string {
	return `pack: {name: other, version: 0.1.0, rules: 1}
rules:
- alert: LostAndNotReady
  from: '{container="syncer"}'
  match: {regex: 'lease of (?P<who>\w+) lost'}
  clear: {regex: '(?P<who>\w+) is ready', same: [who], from: '` + from + `'}
  by: [who]
  for: 2s
  severity: warning
  tests:
  - name: fires
    stream: {namespace: a, container: syncer}
    input: [{at: 0s, line: "lease of x lost"}]
    expect: [{at: 1m, firing: [{alertname: LostAndNotReady}]}]
`
}

// A failure whose recovery only lines would show that no agent reads is not concluded,
// although every agent has read all that it has. It stays on hold, and that is reported.
func TestARecoveryThatNobodyReads(t *testing.T) {
	aggregator, agent := newAgentMode(t)
	cfg := aggregator.cfg
	aggregator.cfg = func(c *config.Config) {
		cfg(c)
		c.Global.BlindAfter = time.Second
	}
	for _, s := range []*ship{aggregator, agent} {
		s.rules.Write("lease.yaml", lease("won"))
		s.rules.Write("other.yaml", lostUnless(`{component="conditions"}`))
	}
	aggregator.start()
	agent.start()
	agent.log("vc-0", "lease of anna lost")
	aggregator.eventually(func() bool { return len(aggregator.am.values("Lost", "who")) > 0 }, "the rule whose recovery is read fires")
	aggregator.metric(`crowsnest_episodes{rule="LostAndNotReady",state="pending"} 1`)
	aggregator.metric(`crowsnest_rule_held{rule="LostAndNotReady"} 1`)
	got := aggregator.notified("CrowsnestSourceMissing")
	require.Contains(t, got.Annotations["description"], `LostAndNotReady (1 open) needs {component="conditions"}`)

	aggregator.stop()
	aggregator.start()
	aggregator.metric(`crowsnest_rule_held{rule="LostAndNotReady"} 1`)
	agent.log("vc-0", "lease of berta lost")
	aggregator.eventually(func() bool { return len(aggregator.am.values("Lost", "who")) > 1 }, "the other rule fires again")
	aggregator.metric(`crowsnest_episodes{rule="LostAndNotReady",state="pending"} 2`)

	// A rule with the same streams everywhere concludes.
	for _, s := range []*ship{aggregator, agent} {
		s.rules.Write("other.yaml", lostUnless(`{container="syncer"}`))
	}
	aggregator.metric(`crowsnest_rule_held{rule="LostAndNotReady"} 0`)
	agent.log("vc-0", "lease of carla lost")
	aggregator.eventually(func() bool { return len(aggregator.am.values("LostAndNotReady", "who")) > 0 }, "it fires once its recovery is read")
	aggregator.eventually(func() bool { return aggregator.am.resolved("CrowsnestSourceMissing") }, "nothing waits any longer")
}
