package export

import (
	"strings"
	"testing"

	"github.com/prometheus/alertmanager/pkg/labels"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"crowsnest/rules"
)

const causePack = `pack: {name: p}
defaults: {labels: {team: x}}
rules:
- {alert: Slow, from: '{container="a"}', match: too slow, by: [namespace], severity: warning}
- {alert: Gone, from: '{container="a"}', match: is gone, by: [namespace], severity: critical}
- {alert: Quiet, from: '{container="a"}', match: is quiet, by: [namespace], severity: critical, enabled: silent}
- {alert: Lost, from: '{container="b"}', match: lost it, by: [namespace, lease], severity: critical, symptom_of: [Slow, Gone, Quiet, Elsewhere]}
- {alert: Late, from: '{container="b"}', match: so late, by: [namespace], severity: warning, symptom_of: [Slow]}
- {alert: Alone, from: '{container="b"}', match: alone, by: [namespace], severity: critical, symptom_of: [Slow]}
- {alert: Taken, from: '{container="b"}', match: taken, by: [namespace, symptom], severity: info, symptom_of: [Slow]}
- {alert: Off, from: '{container="b"}', match: is off, by: [namespace], severity: info, symptom_of: [Slow], enabled: false}
`

func inhibitions(t *testing.T, opt InhibitOptions) Inhibitions {
	t.Helper()
	d, _ := rules.Parse(rules.File{Name: "p.yaml", Data: []byte(causePack)})
	set, problems := rules.Build([]*rules.Document{d}, rules.Options{})
	require.NotNil(t, set, "%s", problems.Error())
	if opt.Identity == nil {
		opt.Identity = rules.DefaultIdentity
	}
	return InhibitionRules(set, opt)
}

func written(t *testing.T, x Inhibitions) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, x.WriteInhibitions(&b, "first\nsecond"))
	return b.String()
}

func TestInhibitionRules(t *testing.T) {
	x := inhibitions(t, InhibitOptions{External: []string{"env", "cluster"}, Keep: func(r *rules.Rule) bool { return r.Alert == "Lost" }})
	require.Equal(t, `# first
# second
inhibit_rules:
# Nobody is notified of the alerts that only say which causes are known.
- source_matchers: ['alertname="CrowsnestHeartbeat"']
  target_matchers: ['alertname="CrowsnestCauseKnown"']
# Lost, while an alert about its cause fires: Gone.
- source_matchers: ['alertname="CrowsnestCauseKnown"', 'symptom="Lost"', 'symptom_severity="critical"', 'cause_severity=~"critical"']
  target_matchers: ['alertname="Lost"', 'severity="critical"', 'overflow=""']
  equal: [cluster, env, lease, namespace, stream_cluster, stream_tenant, team, tenant]
- source_matchers: ['alertname="Lost"', 'severity="critical"', 'overflow=""']
  target_matchers: ['alertname="CrowsnestCauseKnown"', 'symptom="Lost"', 'symptom_severity="critical"', 'cause_severity=~"critical"']
  equal: [cluster, env, lease, namespace, stream_cluster, stream_tenant, team, tenant]
`, written(t, x))
}

func TestInhibitionsRefused(t *testing.T) {
	x := inhibitions(t, InhibitOptions{})
	require.Equal(t, strings.TrimPrefix(`
refused Alone (p): its cause Slow (warning) is less severe than the rule (critical)
refused Taken (p): its alerts have a label symptom, which inhibition needs
refused Off (p): it sends no alerts, because enabled is false
warning Lost (p): its cause Slow (warning) is less severe than the rule (critical)
warning Lost (p): its cause Quiet sends no alerts, because enabled is silent
warning Lost (p): no loaded pack has the rule Elsewhere, which is a cause of this rule
2 exported, 3 refused, 3 warnings
`, "\n"), x.Summary())
	strict := inhibitions(t, InhibitOptions{Strict: true})
	require.Equal(t, 1, strict.Symptoms)
	require.Len(t, strict.RefusedRules, 4)
	none := inhibitions(t, InhibitOptions{Keep: func(r *rules.Rule) bool { return r.Alert == "Alone" }})
	require.Equal(t, "# first\n# second\ninhibit_rules: []\n", written(t, none))
}

// What is written is YAML with matchers of Alertmanager, and no critical alert is a target of a source that does
// not require a critical cause.
func TestInhibitionsRespectSeverity(t *testing.T) {
	var cfg struct {
		Rules []struct {
			Source []string `yaml:"source_matchers"`
			Target []string `yaml:"target_matchers"`
			Equal  []string `yaml:"equal"`
		} `yaml:"inhibit_rules"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(written(t, inhibitions(t, InhibitOptions{}))), &cfg))
	require.Len(t, cfg.Rules, 5)
	matches := func(all []string, of map[string]string) bool {
		for _, text := range all {
			m, err := labels.ParseMatcher(text)
			require.NoError(t, err)
			if !m.Matches(of[m.Name]) {
				return false
			}
		}
		return true
	}
	for _, r := range cfg.Rules {
		for _, cause := range []string{"critical", "warning", "info", ""} {
			for _, severity := range []string{"critical", "warning", "info", "none"} {
				for _, alert := range []string{"Lost", "Late", "Slow", "Gone"} {
					source := map[string]string{"alertname": rules.CauseKnown, "symptom": alert, "symptom_severity": severity, "cause_severity": cause}
					target := map[string]string{"alertname": alert, "severity": severity}
					if matches(r.Source, source) && matches(r.Target, target) {
						require.True(t, rules.Severity(cause).Covers(rules.Severity(severity)), "%v inhibits %v", source, target)
						require.Contains(t, []string{"Lost", "Late"}, alert)
						require.Contains(t, r.Equal, "namespace")
					}
					target["overflow"] = "true"
					require.False(t, matches(r.Source, source) && matches(r.Target, target))
				}
			}
		}
	}
}
