// Package monitoring tests the rules for Prometheus and the dashboards: promtool runs
// the rules, every metric in them exists in a real daemon, and a real Prometheus
// answers every query.
package monitoring

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"crowsnest/test/servers"
)

const (
	root      = "../../deploy/monitoring"
	rulesFile = root + "/rules/crowsnest.yaml"
)

// group is a group of rules of Prometheus.
type group struct {
	Name  string `yaml:"name"`
	Rules []struct {
		Record      string            `yaml:"record"`
		Alert       string            `yaml:"alert"`
		Expr        string            `yaml:"expr"`
		Labels      map[string]string `yaml:"labels"`
		Annotations map[string]string `yaml:"annotations"`
	} `yaml:"rules"`
}

func groups(t *testing.T) []group {
	t.Helper()
	var file struct{ Groups []group }
	read(t, rulesFile, &file)
	require.Len(t, file.Groups, 2)
	return file.Groups
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into), file)
}

// The tests of the rules pass, and there is one for each alert that fires and one that
// does not.
func TestRules(t *testing.T) {
	dir := t.TempDir()
	for from, to := range map[string]string{rulesFile: "crowsnest.yaml", "testdata/rules_test.yaml": "test.yaml"} {
		text, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, to), text, 0o600))
	}
	out, err := servers.Promtool(t, "check", "rules", filepath.Join(dir, "crowsnest.yaml"))
	require.NoError(t, err, out)
	out, err = servers.Promtool(t, "test", "rules", filepath.Join(dir, "test.yaml"))
	require.NoError(t, err, out)

	var file struct {
		Tests []struct {
			Alerts []struct {
				Name     string `yaml:"alertname"`
				Expected []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	read(t, "testdata/rules_test.yaml", &file)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, a := range test.Alerts {
			if len(a.Expected) > 0 {
				fires[a.Name] = true
			} else {
				silent[a.Name] = true
			}
		}
	}
	for _, g := range groups(t) {
		for _, r := range g.Rules {
			if r.Alert != "" {
				require.True(t, fires[r.Alert], "no test in which %s fires", r.Alert)
				require.True(t, silent[r.Alert], "no test in which %s does not fire", r.Alert)
			}
		}
	}
}

// Every alert has a severity, texts that name what is affected, and a section in
// docs/alerts.md. An alert that crowsnest sends itself fires only while it cannot.
func TestAlertsAreExplained(t *testing.T) {
	doc, err := os.ReadFile("../../docs/alerts.md")
	require.NoError(t, err)
	for i, g := range groups(t) {
		for _, r := range g.Rules {
			if r.Record != "" {
				continue
			}
			require.Contains(t, []string{"critical", "warning"}, r.Labels["severity"], r.Alert)
			require.NotEmpty(t, r.Annotations["summary"], r.Alert)
			require.NotEmpty(t, r.Annotations["description"], r.Alert)
			if !strings.HasPrefix(r.Expr, "absent(") {
				require.Regexp(t, `\$(labels|value)`, r.Annotations["summary"], r.Alert)
			}
			require.Equal(t, "https://github.com/OWNER/crowsnest/blob/main/docs/alerts.md#"+strings.ToLower(r.Alert), r.Annotations["runbook_url"])
			require.Regexp(t, `(?m)^### `+r.Alert+`$`, string(doc))
			own := strings.HasSuffix(strings.TrimSpace(r.Expr), "unless on (cluster, job, instance) instance:crowsnest_notifies:bool == 1")
			require.Equal(t, i == 1, own, r.Alert)
		}
	}
}

// The object for the Prometheus operator has the same rules.
func TestPrometheusRule(t *testing.T) {
	var object struct {
		Kind string
		Spec struct{ Groups []group }
	}
	read(t, root+"/rules/prometheus-rule.yaml", &object)
	require.Equal(t, "PrometheusRule", object.Kind)
	require.Equal(t, groups(t), object.Spec.Groups)
}

var metricName = regexp.MustCompile(`\b(?:crowsnest|go|process)_[a-z_]+`)
