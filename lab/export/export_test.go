package export

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/internal/strictyaml"
	"crowsnest/rules"
)

// build returns the rules in a YAML list, without the head of the pack.
func build(t *testing.T, text string) *rules.Set {
	t.Helper()
	n := strings.Count(text, "- alert:")
	doc, problems := rules.Parse(rules.File{Name: "p.yaml", Data: []byte(fmt.Sprintf("pack: {name: p, version: 0.1.0, rules: %d}\nrules:\n%s", n, text))})
	require.Empty(t, problems.Errors())
	set, problems := rules.Build([]*rules.Document{doc}, rules.Options{})
	require.Empty(t, problems.Errors())
	return set
}

// oneRule returns a rule with additional keys.
func oneRule(t *testing.T, keys string) *rules.Set {
	t.Helper()
	return build(t, "- alert: A\n  from: '{container=\"c\"}'\n  severity: warning\n"+strings.TrimPrefix(keys, "\n"))
}

func shipped(t *testing.T) *rules.Set {
	t.Helper()
	set, err := rules.Load(rules.Shipped())
	require.NoError(t, err)
	return set
}

func TestLokiRefuses(t *testing.T) {
	f := func(keys, want string) {
		t.Helper()
		res := LokiRules(oneRule(t, keys), Options{})
		require.Zero(t, res.CountExported())
		require.Len(t, res.RefusedRules, 1)
		require.Contains(t, res.RefusedRules[0].Reason, want)
		require.Empty(t, res.Warnings)
	}
	f("  match: abcd\n  clear: efgh\n", "clear: a query cannot compare")
	f("  match: abcd\n  unless: {contains: efgh, within: 1h}\n", "unless: ")
	f("  sequence: [abcd, efgh]\n  within: 1h\n", "sequence: ")
	f("  match: {any: [{in: message, contains: abcd}]}\n", "in: a query searches the whole line")
	f("  match: abcd\n  silent: 1h\n", "silent: a query loses a key")
	f("  match: abcd\n  count: 3\n  within: 1h\n  for: 1m\n", "for with count")
	f("  match: abcd\n  enabled: false\n", "it is disabled")
	f("  match: abcd\n  enabled: silent\n", "it counts and does not alert")
	f("  match: {contains: abcd, field: {x: \"~.*\"}}\n", "field x may be empty")
	// All reasons together.
	f("  sequence: [abcd, efgh]\n  within: 1h\n  clear: ijkl\n", "sequence: a query cannot express the order of lines; clear: ")
}

func TestLokiWarns(t *testing.T) {
	f := func(keys string, want ...string) {
		t.Helper()
		res := LokiRules(oneRule(t, keys), Options{})
		require.Equal(t, 1, res.CountExported(), res.RefusedRules)
		var got []string
		for _, w := range res.Warnings {
			got = append(got, w.Reason)
		}
		require.Len(t, got, len(want), "%q", got)
		for i := range want {
			require.Contains(t, got[i], want[i])
		}
		res = LokiRules(oneRule(t, keys), Options{Strict: true})
		require.Equal(t, len(want) == 0, res.CountExported() == 1)
	}
	f("  match: abcd\n")
	f("  match: abcd\n  for: 5m\n")
	f("  match: abcd\n  annotations: {summary: \"{{ $value }} lines\"}\n")
	f("  match: abcd\n  count: 5\n  within: 10m\n", "it resolves when fewer than 5 lines lie within 10m; crowsnest keeps it open for 15m")
	f("  match: abcd\n  annotations: {summary: \"{{ $line }}\"}\n", "annotation summary is omitted: it shows $line")
	f("  match: {regex: 'abcd (?P<x>.+)'}\n  annotations: {summary: \"{{ $vars.x }}\"}\n", "annotation summary is omitted: it shows $vars.x")
	f("  match: abcd\n  annotations: {summary: '{{ printf \"%d\" $value }}'}\n", "it formats $value with printf")
	f("  match: abcd\n  annotations: {summary: \"{{ $labels.severity }}\"}\n", "$labels.severity, which is not a label of the query result")
	f("  match: {regex: 'abcd (?P<x>\\S+)'}\n  remediation: {summary: \"do {{ $vars.x }}\", steps: [\"a\", \"b {{ $vars.x }}\", \"c\"]}\n",
		"the summary of the remediation is omitted", "step 2 of the remediation is omitted")
}

func TestLokiQueries(t *testing.T) {
	f := func(keys, want string) {
		t.Helper()
		res := LokiRules(oneRule(t, keys), Options{})
		require.Equal(t, 1, res.CountExported(), res.RefusedRules)
		require.Equal(t, strings.Join(strings.Fields(want), " "), strings.Join(strings.Fields(res.Groups[0].Rules[0].Expr), " "))
	}
	f("  match: abcd\n", `sum by (cluster, tenant) ( count_over_time( {container="c"} |= "abcd" [15m] ) ) > 0`)
	f("  match: abcd\n  keep_firing_for: 1h30m\n  by: [namespace]\n", `sum by (namespace, cluster, tenant) ( count_over_time( {container="c"} |= "abcd" [1h30m] ) ) > 0`)
	f("  match: {contains: [abcd, 'e\"f`g\\h'], not: 'ijkl\"'}\n", "sum by (cluster, tenant) ( count_over_time( {container=\"c\"} |= \"abcd\" |= \"e\\\"f`g\\\\h\" != `ijkl\"` [15m] ) ) > 0")
	f("  match: {any: [abcd, {regex: 'ef(?P<x>gh)'}], not: {any: [ijkl, {regex: 'm.n'}]}}\n",
		`sum by (cluster, tenant) ( count_over_time( {container="c"} |~ "(abcd)|(ef(?:gh))" != "ijkl" !~ "m.n" [15m] ) ) > 0`)
	f("  match: abcd\n  count: 3\n  within: 10m\n  distinct: pod\n  by: [namespace]\n",
		`count by (namespace, cluster, tenant) ( sum by (namespace, cluster, tenant, pod) (count_over_time( {container="c"} |= "abcd" | pod != "" [10m] )) ) >= 3`)
	f("  match: abcd\n  count: 3\n  within: 10m\n  distinct: minute\n  by: [namespace]\n",
		"count by (namespace, cluster, tenant) ( sum by (namespace, cluster, tenant, cn_minute) (count_over_time( {container=\"c\"} |= \"abcd\" "+
			"| label_format cn_minute=`{{ div (int (unixEpoch __timestamp__)) 60 }}` [10m] )) ) >= 3")
	f("  match: {regex: 'failed for (?P<who>\\w+) (?P<other>\\w+)'}\n  by: [who]\n",
		"sum by (who, cluster, tenant) ( count_over_time( {container=\"c\"} |= \"failed for \" |~ `failed for (?P<who>\\w+) (?P<other>\\w+)` "+
			"| regexp `failed for (?P<cn_1_who>\\w+) (?:\\w+)` | label_format who=`{{ .cn_1_who }}` [15m] ) ) > 0")
	// For a value that the line may lack, the label of the stream is used.
	f("  match: {regex: 'failed for (?P<pod>\\w*)'}\n  by: [pod]\n",
		"sum by (pod, cluster, tenant) ( count_over_time( {container=\"c\"} |= \"failed for \" |~ `failed for (?P<pod>\\w*)` "+
			"| regexp `failed for (?P<cn_1_pod>\\w*)` | label_format pod=`{{ or .cn_1_pod .pod \"\" }}` [15m] ) ) > 0")
}

// Loki refuses a selector that requires no label.
func TestLokiSelectorOfEveryLog(t *testing.T) {
	res := LokiRules(build(t, "- alert: A\n  from: '{container=~\"c|\", component=\"\"}'\n  severity: warning\n  match: abcd\n"), Options{})
	require.Equal(t, 1, res.CountExported(), res.RefusedRules)
	require.Contains(t, res.Groups[0].Rules[0].Expr, `{container=~"c|", component="", service_name=~".+"}`)
	require.Len(t, res.Warnings, 1)
	require.Contains(t, res.Warnings[0].Reason, "it reads only logs of containers")
}

// Every export is valid YAML with the stated number of rules, whatever the packs
// contain.
func TestWriteGroups(t *testing.T) {
	data, err := os.ReadFile("testdata/hard.yaml")
	require.NoError(t, err)
	doc, problems := rules.Parse(rules.File{Name: "hard.yaml", Data: data})
	require.Empty(t, problems.Errors())
	hard, problems := rules.Build([]*rules.Document{doc}, rules.Options{})
	require.Empty(t, problems.Errors())
	for name, set := range map[string]*rules.Set{"shipped": shipped(t), "hard": hard, "none": {}} {
		for _, res := range []Result{LokiRules(set, Options{Interval: 30 * time.Second}), PrometheusRules(set, Options{}), PrometheusRules(set, Options{Episodes: true})} {
			var b bytes.Buffer
			require.NoError(t, res.WriteGroups(&b, "a comment\n\nof lines"))
			var file groupsFile
			require.Empty(t, strictyaml.Decode(name, b.Bytes(), &file, strictyaml.Options{MaxBytes: 8 << 20}), b.String())
			n := 0
			for gi, g := range file.Groups {
				require.NotEmpty(t, g.Name)
				n += len(g.Rules)
				for ri, r := range g.Rules {
					want := res.Groups[gi].Rules[ri]
					require.Equal(t, want.Alert, r.Alert)
					require.Equal(t, want.Expr, r.Expr)
					require.True(t, maps.Equal(want.Labels, r.Labels))
					require.True(t, maps.Equal(want.Annotations, r.Annotations))
				}
			}
			require.Equal(t, res.CountExported(), n)
		}
	}
}

type groupsFile struct {
	Groups []struct {
		Name     string        `yaml:"name"`
		Interval time.Duration `yaml:"interval"`
		Rules    []struct {
			Alert       string            `yaml:"alert"`
			Expr        string            `yaml:"expr"`
			For         time.Duration     `yaml:"for"`
			Labels      map[string]string `yaml:"labels"`
			Annotations map[string]string `yaml:"annotations"`
		} `yaml:"rules"`
	} `yaml:"groups"`
}

func TestOptions(t *testing.T) {
	set := shipped(t)
	all := LokiRules(set, Options{})
	require.Equal(t, len(set.Rules), all.CountExported()+len(all.RefusedRules))
	require.GreaterOrEqual(t, all.CountExported(), 20)
	some := LokiRules(set, Options{Keep: func(r *rules.Rule) bool { return r.Alert == "EtcdOutOfSpace" }, Labels: map[string]string{"engine": "loki", "severity": "x", "namespace": "y"}})
	require.Equal(t, 1, some.CountExported())
	require.Equal(t, map[string]string{"severity": "critical", "resolves": "quiet", "engine": "loki"}, some.Groups[0].Rules[0].Labels)
	require.Contains(t, all.Summary(), fmt.Sprintf("%d exported, %d refused", all.CountExported(), len(all.RefusedRules)))
}

func TestRenameGroups(t *testing.T) {
	f := func(expr, want string) {
		t.Helper()
		got, err := renameGroups(expr, func(name string) string {
			if name == "drop" {
				return ""
			}
			return "cn_" + name
		})
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, regexp.MustCompile(expr).NumSubexp()-strings.Count(expr, "<drop>"), regexp.MustCompile(got).NumSubexp())
	}
	f("a", "a")
	f("(?P<x>a)(?<y>b)(?P<drop>c)", "(?P<cn_x>a)(?P<cn_y>b)(?:c)")
	f(`\(?P<x>(?P<x>a)`, `\(?P<x>(?P<cn_x>a)`)
	f(`[(?P<x>](?P<x>a)`, `[(?P<x>](?P<cn_x>a)`)
	f(`[](?P<x>]`, `[](?P<x>]`)
	f(`[^](?P<x>](?P<x>a)`, `[^](?P<x>](?P<cn_x>a)`)
	f(`[[:alpha:](?P<x>](?P<x>a)`, `[[:alpha:](?P<x>](?P<cn_x>a)`)
	f(`[\](?P<x>](?P<x>a)`, `[\](?P<x>](?P<cn_x>a)`)
	f(`\Q(?P<x>\E(?P<x>a)`, `\Q(?P<x>\E(?P<cn_x>a)`)
	f(`(?P<x>a)\Q(?P<x>`, `(?P<cn_x>a)\Q(?P<x>`)
}

func FuzzRenameGroups(f *testing.F) {
	for _, s := range []string{"(?P<x>a)", `[(?P<x>]\Q(?P<\E`, `[[:alpha:]]`, `\\(?<y>)`, `[^]]`, `[a\]]`} {
		f.Add(s, "line xay")
	}
	f.Fuzz(func(t *testing.T, expr, line string) {
		before, err := regexp.Compile(expr)
		if err != nil {
			return
		}
		got, err := renameGroups(expr, func(name string) string { return "cn_" + name })
		require.NoError(t, err)
		after, err := regexp.Compile(got)
		require.NoError(t, err, "%q became %q", expr, got)
		for i, name := range before.SubexpNames() {
			if name != "" {
				name = "cn_" + name
			}
			require.Equal(t, name, after.SubexpNames()[i])
		}
		require.Equal(t, before.FindStringSubmatch(line), after.FindStringSubmatch(line))
	})
}

func TestAlwaysCaptures(t *testing.T) {
	f := func(expr string, want bool) {
		t.Helper()
		require.Equal(t, want, alwaysCaptures(expr, "x"), expr)
	}
	f(`(?P<x>a)`, true)
	f(`(?P<x>a*)`, false)
	f(`(?P<x>a)?b`, false)
	f(`(?:(?P<x>a)|b)`, false)
	f(`(?P<x>a|b)`, true)
	f(`(?P<x>a|)`, false)
	f(`(?:(?P<x>a)c)+`, true)
	f(`(?:(?P<x>a)c){2,}`, true)
	f(`(?:(?P<x>a)c){0,2}`, false)
	f(`(?P<x>\b)`, false)
	f(`(?P<y>a)`, false)
	f(`(`, false)
}

// promtool accepts the exports, and its engine fires the alerts.
func TestPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not in PATH: run make e2e-servers")
	}
	dir := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		out, err := exec.Command(promtool, args...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	set := shipped(t)
	for name, res := range map[string]Result{"matches": PrometheusRules(set, Options{Interval: time.Minute}), "episodes": PrometheusRules(set, Options{Episodes: true})} {
		require.NotZero(t, res.CountExported())
		var b bytes.Buffer
		require.NoError(t, res.WriteGroups(&b, ""))
		file := filepath.Join(dir, name+".yml")
		require.NoError(t, os.WriteFile(file, b.Bytes(), 0o600))
		run("check", "rules", file)
		for _, g := range res.Groups { // of the alerts below, the labels are compared
			for i := range g.Rules {
				g.Rules[i].Annotations = nil
			}
		}
		b.Reset()
		require.NoError(t, res.WriteGroups(&b, ""))
		require.NoError(t, os.WriteFile(file, b.Bytes(), 0o600))
	}
	require.Equal(t, len(set.Rules), PrometheusRules(set, Options{Episodes: true}).CountExported())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "test.yml"), []byte(`
rule_files: [matches.yml, episodes.yml]
evaluation_interval: 1m
tests:
- interval: 1m
  input_series:
  - {series: 'crowsnest_rule_matches_total{rule="EtcdOutOfSpace", pack="etcd", severity="critical"}', values: '0x9 1x200'}
  - {series: 'crowsnest_episodes{rule="ControlPlaneLeaseNotRegained", state="firing"}', values: '0x9 2x10 0x200'}
  alert_rule_test:
  - {eval_time: 5m, alertname: EtcdOutOfSpace}
  - eval_time: 15m
    alertname: EtcdOutOfSpace
    exp_alerts: [{exp_labels: {severity: critical, resolves: quiet}}]
  - {eval_time: 90m, alertname: EtcdOutOfSpace}
  - {eval_time: 5m, alertname: ControlPlaneLeaseNotRegained}
  - eval_time: 15m
    alertname: ControlPlaneLeaseNotRegained
    exp_alerts: [{exp_labels: {severity: warning, resolves: clear}}]
  - {eval_time: 30m, alertname: ControlPlaneLeaseNotRegained}
`), 0o600))
	run("test", "rules", filepath.Join(dir, "test.yml"))
}

func TestPrometheusRefuses(t *testing.T) {
	f := func(keys, want string) {
		t.Helper()
		res := PrometheusRules(oneRule(t, keys), Options{})
		require.Len(t, res.RefusedRules, 1)
		require.Contains(t, res.RefusedRules[0].Reason, want)
		res = PrometheusRules(oneRule(t, keys), Options{Episodes: true})
		require.Equal(t, 1, res.CountExported())
		require.Equal(t, `sum(crowsnest_episodes{rule="A", state="firing"}) > 0`, res.Groups[0].Rules[0].Expr)
	}
	f("  match: abcd\n  clear: efgh\n", "clear: ")
	f("  match: abcd\n  count: 3\n  within: 1h\n  distinct: pod\n", "distinct: ")
	f("  match: abcd\n  count: 3\n  within: 1h\n  by: [namespace]\n", "count with by: ")
}
