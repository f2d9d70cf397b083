//go:build e2e

package monitoring

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/daemon"
	"crowsnest/test/journald"
	"crowsnest/test/kubelab"
	"crowsnest/test/servers"
	"crowsnest/test/wait"
)

// empty are the panels whose queries have no result in the scene, with the reason.
var empty = map[string]string{
	"Sources not read":                    "every source is read",
	"Rules on hold":                       "every source is read",
	"Outages":                             "every source is read",
	"Sources down":                        "every source is read",
	"Down":                                "every source is read",
	"In an outage":                        "every source is read",
	"Problems of crowsnest":               "nothing is wrong",
	"Alerts about crowsnest itself":       "nothing is wrong",
	"What agents report about themselves": "nothing is wrong",
	"Agents down":                         "the agent runs",
	"Agents that are down":                "the agent runs",
	"Receivers down":                      "every receiver answers",
	"Failed reloads":                      "the configuration is good",
	"Quarantined rules":                   "no rule is expensive",
	"Losses":                              "nothing is lost",
	"Evictions":                           "no bound is reached",
}

// A real Prometheus that scrapes real daemons answers every query of the dashboards, and
// none of those that should have a result is empty. The aggregator reads sources of every
// kind. The labels of the targets are those that the Prometheus operator adds.
func TestE2EQueries(t *testing.T) {
	lab := kubelab.Start(t)
	config := lab.Kubeconfig("", kubelab.Admin)
	am := servers.Alertmanager(t, servers.AlertmanagerOptions{})
	loki := servers.Loki(t, servers.LokiOptions{})
	victorialogs := servers.VictoriaLogs(t)
	journal := journald.Start(t, journald.Options{})
	var more strings.Builder
	for _, kind := range []string{"kubernetes", "objects", "events"} {
		fmt.Fprintf(&more, "  %s: {kubeconfig: %q}\n", kind, config)
	}
	fmt.Fprintf(&more, "  journal: {dirs: [%q]}\n  loki: {url: %q, selector: '{namespace=~\".+\"}'}\n", journal.Dir, loki.URL)
	fmt.Fprintf(&more, "  victorialogs: {url: %q, selector: '{namespace=~\".+\"}'}\n", victorialogs.URL)
	otlp, err := daemon.FreeAddr()
	require.NoError(t, err)
	fmt.Fprintf(&more, "  otlp: {listen_address: %q}\n", otlp)
	s := start(t, am.URL, more.String())
	rules, err := filepath.Abs(rulesFile)
	require.NoError(t, err)
	target := "- {job_name: %s, honor_labels: true, static_configs: [{targets: [%q], labels: {cluster: prod-1, namespace: crowsnest, pod: %s, container: crowsnest, endpoint: http%s}}]}\n"
	prometheus := servers.Prometheus(t, servers.PrometheusOptions{Config: "global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}\n" +
		fmt.Sprintf("rule_files: [%q]\nscrape_configs:\n", rules) +
		fmt.Sprintf(target, "aggregator", s.aggregator.Addr, "aggregator-0", "") + fmt.Sprintf(target, "agent", s.agent.Addr, "agent-0", ", node: node-1")})
	require.NoError(t, wait.NoError(t.Context(), time.Minute, func() error {
		if len(prometheus.Query(`crowsnest_agent_up{node="node-1"} == 1`)) == 0 {
			return fmt.Errorf("the agent has not reported")
		}
		return nil
	}))
	s.log(t, "scene critical", "scene info", "scene pending", "scene rare")
	require.NoError(t, journal.Send(journald.Field{Name: "MESSAGE", Value: "scene unit"}, journald.Field{Name: "SYSLOG_IDENTIFIER", Value: "scene"}))
	queries := 0
	require.NoError(t, wait.NoError(t.Context(), 2*time.Minute, func() error {
		s.log(t, "scene critical")
		if err := sendOTLP(otlp); err != nil {
			return err
		}
		var missing []string
		queries = 0
		for _, b := range boards(t) {
			chosen := chosenSources(prometheus, b)
			for _, p := range b.all() {
				for _, q := range p.Targets {
					queries++
					expr := strings.NewReplacer("$cluster", "prod-1", "$instance", ".*", "$source", chosen, "$__rate_interval", "1m").Replace(q.Expr)
					require.NotContains(t, expr, "$", "%s: %s", b.UID, p.Title)
					if len(prometheus.Query(expr)) == 0 && empty[p.Title] == "" {
						missing = append(missing, fmt.Sprintf("%s, %s: %s", b.UID, p.Title, expr))
					}
				}
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("no result:\n%s", strings.Join(missing, "\n"))
		}
		return nil
	}))
	require.Greater(t, queries, 150)
	t.Logf("%d queries", queries)
	rulesWork(t, prometheus)
}

// sendOTLP sends one record to the source otlp.
func sendOTLP(addr string) error {
	now := time.Now()
	resp, err := http.Post("http://"+addr+"/v1/logs", "application/json", strings.NewReader(fmt.Sprintf(
		`{"resourceLogs": [{"resource": {"attributes": [{"key": "k8s.node.name", "value": {"stringValue": "node-2"}}]},
		"scopeLogs": [{"logRecords": [{"timeUnixNano": "%d", "body": {"stringValue": "scene at %s"}}]}]}]}`, now.UnixNano(), now)))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the source otlp answers %s", resp.Status)
	}
	return nil
}

// chosenSources returns the value of the variable source of a dashboard.
func chosenSources(p *servers.PrometheusServer, b board) string {
	kind, ok := strings.CutPrefix(b.UID, "crowsnest-source-")
	if !ok {
		return ""
	}
	var names []string
	for labels := range p.Query(fmt.Sprintf("sum by (source) (crowsnest_source_info{kind=%q})", kind)) {
		names = append(names, strings.Trim(strings.TrimPrefix(labels, "{source="), `"}`))
	}
	slices.Sort(names)
	return strings.Join(names, "|")
}

// rulesWork checks that every rule was evaluated without an error and that none fires.
func rulesWork(t *testing.T, p *servers.PrometheusServer) {
	t.Helper()
	require.Len(t, p.Query("instance:crowsnest_notifies:bool == 1"), 2, "the aggregator and the agent")
	require.Empty(t, p.Query(`ALERTS{alertstate="firing"}`))
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	require.NoError(t, servers.Get(context.Background(), p.URL+"/api/v1/rules", func(body []byte) error { return json.Unmarshal(body, &answer) }))
	n := 0
	for _, g := range answer.Data.Groups {
		for _, r := range g.Rules {
			n++
			require.Equal(t, "ok", r.Health, "%s: %s", r.Name, r.LastError)
		}
	}
	require.Greater(t, n, 20)
}
