package hostile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/rules/namespaces"
	"crowsnest/rules/rulefiles"
	"crowsnest/test/kubesim"
)

const tenant = "tenant-evil"

// example is a line of an inline test of a shipped rule.
type example struct {
	rule   *rules.Rule
	text   string
	labels matcher.Labels
	starts bool // it matches the rule and is not a clear line
}

// examples returns the lines of all inline tests, and the shipped rules.
func examples(t *testing.T) (*rules.Set, []example) {
	t.Helper()
	files, err := rulefiles.ReadFS(rules.Shipped())
	require.NoError(t, err)
	var docs []*rules.Document
	for _, f := range files {
		d, _ := rules.Parse(f)
		docs = append(docs, d)
	}
	set, problems := rules.Build(docs, rules.Options{})
	require.Empty(t, problems.Errors())
	prog, err := matcher.Compile(set)
	require.NoError(t, err)
	var out []example
	for _, r := range set.Rules {
		for _, test := range r.Tests {
			for _, in := range test.Input {
				if in.Cause != "" {
					continue
				}
				for i := range min(in.Repeat, 3) {
					x := example{rule: r, labels: matcher.Labels{}, text: strings.ReplaceAll(in.Text, "{{ $value }}", fmt.Sprint(i))}
					for _, from := range []map[string]string{test.Stream, in.Labels} {
						for name, v := range from {
							x.labels[name] = v
						}
					}
					if x.text == "" || strings.Contains(x.text, "\n") {
						continue
					}
					x.starts = starts(prog, x)
					out = append(out, x)
				}
			}
		}
	}
	return set, out
}

// starts reports whether a line starts a failure of its rule and does not end
// it.
func starts(prog *matcher.Program, x example) bool {
	s := matcher.NewStream(x.labels, matcher.StreamOptions{Format: matcher.FormatText})
	found := false
	for _, h := range prog.Match(s, matcher.Record{Time: time.Unix(0, 0), Text: []byte(x.text)}) {
		if h.Rule == x.rule {
			if h.Part < 0 {
				return false
			}
			found = true
		}
	}
	return found
}

// pods writes the logs of the pods of one test, each container once.
type pods map[string]*kubesim.Container

func (p pods) write(v *victim, at place, age time.Duration, text string) {
	key := fmt.Sprint(at, age)
	if p[key] == nil {
		p[key] = v.container(at.ns, at.pod, at.container, age)
	}
	p[key].Write("stderr", text)
}

// openAlerts returns the names of the rules with a firing alert.
func (d *victim) openAlerts() []string {
	d.t.Helper()
	var answer struct {
		Data struct {
			Alerts []struct {
				State  string
				Labels map[string]string
			}
		}
	}
	require.NoError(d.t, json.Unmarshal([]byte(d.page("/api/v1/alerts")), &answer))
	var out []string
	for _, a := range answer.Data.Alerts {
		if name := a.Labels["alertname"]; a.State == "firing" && !strings.HasPrefix(name, "Crowsnest") && name != "Marker" {
			out = append(out, name+" "+a.Labels["namespace"])
		}
	}
	slices.Sort(out)
	return out
}

// A pod of a tenant writes every line that the shipped rules match, under every
// container name that they select. It fires no rule for infrastructure and ends
// no alert of others.
func TestTenantIsNotBelieved(t *testing.T) {
	set, lines := examples(t)
	trusted, err := namespaces.Parse(nil)
	require.NoError(t, err)
	v := newVictim(t, true, map[string]string{"marker.yaml": "pack: {name: marker, rules: 1}\nrules:\n- alert: Marker\n  from: '{container=\"marker\"}'\n  match: marker\n  severity: info\n"})
	all := pods{}
	wrote := 0
	victims := map[string]bool{}
	for _, x := range lines {
		at := place{x.labels["namespace"], x.labels["pod"], x.labels["container"]}
		if !x.starts || x.rule.Clear == nil || at.container == "" && at.pod == "" || victims[x.rule.Alert] || x.rule.For > 45*time.Minute {
			continue // not a pod log, nothing that a line can end, or too old to be read
		}
		if x.rule.Infrastructure && !trusted.Has(at.ns) || at.ns == "" {
			at.ns = "kube-system"
		}
		at.pod, at.container = orName(at.pod, "victim-0"), orName(at.container, "manager")
		all.write(v, at, x.rule.For+5*time.Minute, x.text)
		victims[x.rule.Alert] = true
		wrote++
	}
	require.Greater(t, len(victims), 7)
	v.start() // lines that are so old when they are written have a wrong time
	v.hasRead(wrote)
	v.eventually("the alerts of the victims fire", func() bool { return len(v.openAlerts()) > 5 })
	before := v.openAlerts()
	old, err := v.Metrics(t.Context())
	require.NoError(t, err)

	raised := v.attack(all, lines, &wrote)
	all.write(v, place{"kube-system", "marker-0", "marker"}, 0, "marker")
	v.hasRead(wrote + 1)
	v.eventually("the marker fires", func() bool { return strings.Contains(v.page("/api/v1/alerts"), "Marker") })

	metrics, err := v.Metrics(t.Context())
	require.NoError(t, err)
	believed := 0
	for _, r := range set.Rules {
		series := fmt.Sprintf("crowsnest_rule_matches_total{pack=%q,rule=%q,severity=%q}", r.Pack, r.Alert, r.Severity)
		require.Contains(t, metrics, series)
		switch {
		case r.Infrastructure:
			require.Equal(t, old[series], metrics[series], r.Alert)
		case metrics[series] > old[series]:
			believed++
		}
	}
	require.Greater(t, believed, 10, "rules with origin any match the lines")
	require.Greater(t, raised, 70, "rules that the lines would have raised")
	after := slices.DeleteFunc(v.openAlerts(), func(s string) bool { return strings.HasSuffix(s, " "+tenant) })
	for _, alert := range before {
		require.Contains(t, after, alert, "ended by a tenant")
	}
	for _, alert := range v.openAlerts() {
		name, _, _ := strings.Cut(alert, " ")
		require.True(t, victims[name] || !set.Rule(name).Infrastructure, alert)
	}
}

func orName(name, other string) string {
	if name == "" {
		return other
	}
	return name
}

// attack writes every line into every container of the tenant, and returns how
// many rules for infrastructure match them if every namespace is trusted.
func (d *victim) attack(all pods, lines []example, wrote *int) (raised int) {
	at := map[place]bool{}
	for _, x := range lines {
		if c := x.labels["container"]; c != "" {
			at[place{tenant, "evil-0", c}] = true
		}
		if p := x.labels["pod"]; x.rule.Clear != nil && p != "" {
			at[place{tenant, p, orName(x.labels["container"], "manager")}] = true
		}
	}
	hit := map[string]bool{}
	for _, x := range lines {
		if x.starts && x.rule.Infrastructure && (x.labels["container"] != "" || x.labels["namespace"] != "") {
			hit[x.rule.Alert] = true
		}
		for p := range at {
			if p.container == x.labels["container"] || x.rule.Clear != nil {
				all.write(d, p, 0, x.text)
				*wrote++
			}
		}
	}
	return len(hit)
}
