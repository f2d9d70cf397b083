package daemon

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/daemon/config"
	"crowsnest/sources/otlp"
	"crowsnest/test/child"
)

// collector sends records as an OpenTelemetry collector does.
type collector struct {
	s    *ship
	url  string
	node string
}

func newCollector(s *ship, node string) *collector {
	s.t.Helper()
	port, err := child.FreePort()
	require.NoError(s.t, err)
	address := child.Address(port)
	s.cfg = func(c *config.Config) {
		c.Global.BlindAfter = 3 * time.Second
		only(&otlp.Config{ListenAddress: address, Lateness: time.Second})(c)
	}
	return &collector{s, "http://" + address + otlp.Path, node}
}

// send sends a line of a pod until it is acknowledged.
func (c *collector) send(at time.Time, line string) {
	c.s.t.Helper()
	body := fmt.Sprintf(`{"resourceLogs":[{"resource":{"attributes":[{"key":"k8s.namespace.name","value":{"stringValue":"team-a"}},
		{"key":"k8s.pod.name","value":{"stringValue":"a"}},{"key":"k8s.container.name","value":{"stringValue":"syncer"}},{"key":"k8s.node.name","value":{"stringValue":%q}}]},
		"scopeLogs":[{"logRecords":[{"timeUnixNano":"%d","body":{"stringValue":%q}}]}]}]}`, c.node, at.UnixNano(), line)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	c.s.eventually(func() bool {
		res, err := client.Post(c.url, "application/json", strings.NewReader(body))
		if err != nil {
			return false
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusOK
	}, "acknowledged")
}

// A record becomes an alert, its recovery resolves it, and a batch that is sent again changes nothing, even after a
// restart.
func TestOTLP(t *testing.T) {
	s := newShip(t)
	c := newCollector(s, "n1")
	s.start()
	at := time.Now()
	c.send(at, "text of a")
	s.eventually(func() bool { return len(s.am.firing("A")) == 1 }, "fires")
	require.Equal(t, "team-a", s.notified("A").Labels["namespace"])
	c.send(at.Add(time.Millisecond), "recovered")
	s.eventually(func() bool { return s.am.resolved("A") }, "resolved")
	s.stop()
	s.start()
	c.send(at, "text of a")
	c.send(at.Add(time.Millisecond), "recovered")
	c.send(time.Now(), "a line")
	_, body := s.get("/api/v1/alerts")
	require.NotContains(t, body, `"alertname":"A"`)
}

// A sender that is silent is blind, and what depends on it is on hold.
func TestBlindOTLP(t *testing.T) {
	s := newShip(t)
	s.rules.Write("a.yaml", `pack: {name: a, version: 0.1.0, rules: 1}
rules:
- alert: A
  from: '{container="syncer"}'
  match: text of a
  clear: recovered
  for: 5s
  by: [namespace]
  severity: warning
  tests:
  - name: fires
    stream: {namespace: a, container: syncer}
    input: [{at: 0s, line: text of a}]
    expect: [{at: 30s, firing: [{alertname: A}]}]
`)
	c := newCollector(s, "n1")
	s.start()
	began := time.Now()
	c.send(began, "text of a")
	s.eventually(func() bool { return len(s.am.firing("CrowsnestBlind")) == 1 }, "blind")
	require.Equal(t, "otlp/n1", s.notified("CrowsnestBlind").Labels["source"])
	s.eventually(func() bool { return time.Since(began) > 8*time.Second }, "long after the deadline")
	require.Empty(t, s.am.firing("A"), "whether it recovered is unknown")
	s.eventually(func() bool {
		_, body := s.get("/api/v1/episodes?filter=alertname%3DA")
		return strings.Contains(body, `"held":true,"waitsFor":["otlp/n1"]`)
	}, "the API says for what it waits")
	_, body := s.get("/metrics")
	require.Regexp(t, `(?m)^crowsnest_rule_held\{[^}]*"A"[^}]*\} 1$`, body)
	s.eventually(func() bool {
		c.send(time.Now(), "a line")
		return len(s.am.firing("A")) == 1
	}, "read past the deadline")
	s.eventually(func() bool { return s.am.resolved("CrowsnestBlind") }, "it sends again")
}
