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

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"crowsnest/daemon/config"
	"crowsnest/test/rulefolder"

	"go.uber.org/goleak"

	"crowsnest/sinks/upstream"
	"crowsnest/sources"
	"crowsnest/sources/agents"
	"crowsnest/test/child"
)

// newStages returns an aggregator and an agent of node n1 that sends to it.
// Neither is started.
func newStages(t *testing.T) (aggregator, agent *ship) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	aggregator, address := newAggregator(t)
	return aggregator, newAgent(t, address.String())
}

// newAggregator returns an aggregator and where it listens for agents.
func newAggregator(t *testing.T) (*ship, *url.URL) {
	port, err := child.FreePort()
	require.NoError(t, err)
	s, address := oneOfShips(t), child.Address(port)
	s.cfg = func(c *config.Config) {
		c.Sources.Kubelet = nil
		c.Sources.Agents = &config.Part[agents.Config]{Config: agents.Config{ListenAddress: address, Lateness: time.Second}}
	}
	return s, &url.URL{Scheme: "http", Host: address}
}

// newAgent returns the agent of node n1.
func newAgent(t *testing.T, aggregator string) *ship {
	s := oneOfShips(t)
	s.cfg = func(c *config.Config) {
		c.Sinks.Alertmanager = nil
		c.Sinks.Upstream = &config.Part[upstream.Config]{Config: upstream.Config{URL: aggregator, Node: "n1"}}
	}
	return s
}

// onCall are the labels and texts with which an alert was notified first.
func (r *receiver) onCall(alert string) (posted, bool) {
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
		got, ok = s.am.onCall(alert)
		return ok
	}, alert+" is notified")
	return got
}

// What only an agent knows reaches on-call through the aggregator: a pack that it
// refused, and lines that it lost.
func TestReportsOfAnAgentAreNotified(t *testing.T) {
	aggregator, agent := newStages(t)
	aggregator.start()
	agent.start()
	agent.rules.Write("a.yaml", "pack: {name: a\n")
	got := aggregator.notified(alertPackBroken)
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
	got = aggregator.notified(alertLinesLost)
	require.Equal(t, "kubelet", got.Labels["source"])
	require.Equal(t, "warning", got.Labels["severity"])
	require.Contains(t, got.Annotations["description"], "node n1, 1 times")
	aggregator.eventually(func() bool { return aggregator.am.resolved(alertPackBroken) }, "the pack is whole again")
	_, body := aggregator.get("/metrics")
	require.Contains(t, body, `crowsnest_agents_reporting{alert="CrowsnestLinesLost",source="agents"} 1`)
	require.Contains(t, body, `crowsnest_agents_losses_total{source="agents"} 1`)
	_, body = aggregator.get("/sources")
	require.Contains(t, body, "<code>CrowsnestLinesLost</code>")
}

// Two aggregators behind one address are an alert of each of them.
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
		got := aggregator.notified(alertTwoAggregators)
		require.Equal(t, "critical", got.Labels["severity"])
		require.Equal(t, "Two aggregators answer the agents on node n1", got.Annotations["summary"])
		require.Contains(t, got.Annotations["description"], service.URL)
		_, body := aggregator.get("/sources")
		require.Contains(t, body, "<code>CrowsnestTwoAggregators</code>")
	}
}

// One alert names the nodes that have a condition, and no text of a node is advice.
func TestReportedAlertsAreFolded(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := sources.Condition{
		Alert: alertLinesLost, Severity: "warning", Labels: map[string]string{"source": "kubelet", "reason": "gap"}, Detail: "run rm -rf /",
		Count: 12, Last: now, Since: now, Members: strings.Fields("a b c d e f g"),
	}
	got := reportedAlerts(now, []sources.Status{{Name: "agents", Conditions: []sources.Condition{c}}})
	require.Len(t, got, 1)
	require.Equal(t, "Log lines were lost before they were read on 7 nodes: a, b, c, d, e and 2 more", got[0].Annotations["summary"])
	require.Contains(t, got[0].Annotations["description"], "12 times in all")
	require.Equal(t, lossTexts["gap"].fix, got[0].Annotations["remediation"])

	many := make([]sources.Condition, maxReported+5)
	for i := range many {
		many[i] = c
	}
	got = reportedAlerts(now, []sources.Status{{Name: "agents", Conditions: many}})
	require.Len(t, got, maxReported+1)
	require.Contains(t, got[maxReported].Annotations["summary"], "5 more conditions")
}

func TestRefusedMessagesAreNotified(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	st := agents.Stats{
		Refused: map[string]int64{"auth": 7, "conflict": 3},
		Newest:  map[string]agents.Refused{"auth": {At: now, From: "10.0.0.7:3333", Why: "no token"}, "conflict": {At: now}},
	}
	got := refusedAlerts(now.Add(time.Minute), "agents", st)
	require.Len(t, got, 1)
	require.Equal(t, "auth", got[0].Labels["reason"])
	require.Equal(t, "7 messages were refused in total, the newest from 10.0.0.7: no token.", got[0].Annotations["description"])
	require.Empty(t, refusedAlerts(now.Add(refusedFor), "agents", st))
}

// A failure of the way to the aggregator is logged at once, then once a minute,
// and so is its end.
func TestFailuresOfTheUpstreamAreLogged(t *testing.T) {
	var out strings.Builder
	logs := newTransitions(&Daemon{log: zerolog.New(&out)})
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f := func(after time.Duration, st upstream.Stats, want string) {
		t.Helper()
		out.Reset()
		logs.logUpstream(start.Add(after), st)
		if want == "" {
			require.Empty(t, out.String())
		}
		require.Contains(t, out.String(), want)
	}
	auth := upstream.Stats{LastReason: "auth", LastError: "status 401: not authorized"}
	f(0, upstream.Stats{}, "")
	f(time.Second, auth, `"reason":"auth","error":"status 401: not authorized"`)
	f(2*time.Second, auth, "")
	f(61*time.Second, auth, `"reason":"auth"`)
	f(62*time.Second, upstream.Stats{LastReason: "connection", LastError: "EOF"}, `"reason":"connection","error":"EOF"`)
	f(63*time.Second, upstream.Stats{}, "again")
	f(64*time.Second, upstream.Stats{}, "")
	f(65*time.Second, upstream.Stats{ReportError: "older"}, "older")
	f(66*time.Second, upstream.Stats{ReportError: "older"}, "")
}

// An agent has series of its own part only: nothing per rule that is zero.
func TestAnAgentHasFewSeries(t *testing.T) {
	aggregator, agent := newStages(t)
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
