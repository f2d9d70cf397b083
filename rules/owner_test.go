package rules

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func ownedFile(namespace string, all ...string) File {
	text := "pack: {name: p}\nrules:\n"
	for _, rule := range all {
		text += "- " + strings.ReplaceAll(rule, "\n", "\n  ") + "\n"
	}
	return File{Name: namespace + ".yaml", Namespace: namespace, Data: []byte(text)}
}

func parseOwned(t require.TestingT, namespace string, all ...string) *Document {
	d, ps := Parse(ownedFile(namespace, all...))
	require.Empty(t, ps.Errors(), "%s", ps.Error())
	return d
}

const ownedRule = "alert: %s\nfrom: '{container=\"c\"}'\nmatch: text of the line\nseverity: warning"

func TestOwnedPackIsRefused(t *testing.T) {
	f := func(rule, want string) {
		t.Helper()
		_, ps := Parse(ownedFile("team-a", rule))
		require.NotEmpty(t, ps.Errors(), "it must be refused")
		p := ps.Errors()[0]
		require.Contains(t, p.Message, want)
		require.NotEmpty(t, p.Fix)
		require.NotZero(t, p.Line)
		require.NotZero(t, p.Column)
	}
	valid := fmt.Sprintf(ownedRule, "A")
	with := func(old, fresh string) string {
		require.Contains(t, valid, old)
		return strings.Replace(valid, old, fresh, 1)
	}
	selector := func(from string) string { return with(`{container="c"}`, from) }

	f(selector(`{namespace="team-b"}`), "reads only streams of this namespace")
	f(selector(`{namespace=~"team-.*"}`), "reads only streams of this namespace")
	f(selector(`{namespace=~"team-a"}`), "reads only streams of this namespace")
	f(selector(`{namespace!="kube-system", container="c"}`), "reads only streams of this namespace")
	f(selector(`{namespace="", container="c"}`), "reads only streams of this namespace")
	f(valid+"\nclear: {contains: it is back, from: '{namespace=\"team-b\"}'}", "`from` of `clear` has")
	f(valid+"\nunless: {contains: planned stop, within: 5m, from: '{namespace=\"team-b\"}'}", "`from` of `unless` has")
	f(with("match: text of the line", "sequence: [{contains: first text}, {contains: other text, from: '{namespace=\"b\"}'}]\nwithin: 5m"), "`from` of step 2 has")
	f(valid+"\norigin: infrastructure", "`origin: infrastructure`")
	f(valid+"\nverified: [{component: etcd, versions: \">=3.5.0\"}]", "cannot have `verified`")
	f(valid+"\nlabels: {namespace: kube-system}", "cannot set the label `namespace`")
	f(valid+"\nlabels: {cluster: prod}", "cannot set the label `cluster`")
	f(valid+"\nlabels: {alertname: Other}", "reserved")
	f(valid+"\nannotations: {runbook_url: 'javascript:alert(1)'}", "cannot set the annotation `runbook_url`")
	f(valid+"\nannotations: {origin: 'namespace kube-system'}", "cannot set the annotation `origin`")
	f(with("text of the line", "{regex: 'some text (?P<namespace>\\S+)'}")+"\nby: [namespace]", "captures `namespace`")
	f(with("text of the line", "{contains: some text, field: {ns: '~(?P<namespace>.+)'}}")+"\nby: [namespace]", "captures `namespace`")
	f(with("text of the line", "{regex: 'some text (?P<cluster>\\S+)'}")+"\nby: [cluster]", "captures `cluster`")
	f(valid+"\nclear: {regex: 'is back (?P<namespace>\\S+)'}\nby: [namespace]", "captures `namespace`")
	f(valid+"\nannotations: {cause_alertname: KubeAPIDown}", "cannot set the annotation `cause_alertname`")
	f(with("alert: A", "alert: CrowsnestBlind"), "reserved")
	f(with("alert: A", "alert: \u0421rowsnestBlind"), "only ASCII letters") // a Cyrillic letter
	f(with("alert: A", "alert: '[A](https://evil.example)'"), "only ASCII letters")
	f(with("severity: warning", "severity: warning\nremediation: {runbook_url: 'javascript:alert(1)'}"), "not a URL")

	var costly strings.Builder
	for i := range 40 {
		fmt.Fprintf(&costly, "\n  - {regex: 'text (a|b){%d}(c|d){900}'}", 900-i)
	}
	f(with("text of the line", "\n  any:"+costly.String()), "the regular expressions of the rules up to this one have more than")

	_, ps := Parse(File{Name: "o.yaml", Namespace: "team-a", Data: []byte("overrides:\n- {rule: \"*\", disable: no}\n")})
	require.Contains(t, ps.Error(), "cannot have overrides")
	_, ps = Parse(File{Name: "p.yaml", Namespace: "team-a", Data: []byte("pack: {name: '@channel'}\nrules:\n- {alert: A, from: '{app=\"x\"}', match: a text, severity: info}\n")})
	require.Contains(t, ps.Error(), "only ASCII letters")
	_, ps = Parse(File{Name: "o.yaml", Namespace: "team-a", Data: []byte("pack: {name: p}\ndefaults: {labels: {namespace: x}, severity: info}\nrules:\n- {alert: A, from: '{app=\"x\"}', match: a text}\n")})
	require.Contains(t, ps.Error(), "cannot set the label `namespace`")
}

func TestOwnedRuleIsBound(t *testing.T) {
	d := parseOwned(t, "team-a", fmt.Sprintf(ownedRule, "A")+"\nclear: it is back\nlabels: {area: web}\nannotations: {summary: 'in {{ $labels.namespace }}'}")
	require.Equal(t, "team-a", d.Namespace())
	set, ps := Build([]*Document{d}, Options{})
	require.Empty(t, ps.Errors())
	r := set.Rule("A")
	require.Equal(t, "team-a", r.Namespace)
	for s := range r.Selectors() {
		require.Equal(t, `{container="c", namespace="team-a"}`, s.String())
	}
	require.Empty(t, set.Warnings, "a namespace cannot fill the log of the operator")
}

// A rule of an owner reads no stream of another namespace, however it is written.
func TestOwnedRuleReadsOnlyItsNamespace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.SampledFrom([]string{"", "team-a", "team-b", ".*", "team-.*", "team-a|", "(?i)TEAM-A", "c"})
		matcher := rapid.Custom(func(t *rapid.T) string {
			name := rapid.SampledFrom([]string{"namespace", "container", "component"}).Draw(t, "name")
			return name + rapid.SampledFrom([]string{"=", "!=", "=~", "!~"}).Draw(t, "op") + fmt.Sprintf("%q", value.Draw(t, "value"))
		})
		from := func(name string) string {
			return "{" + strings.Join(rapid.SliceOfN(matcher, 1, 3).Draw(t, name), ", ") + "}"
		}
		rule := fmt.Sprintf("alert: A\nfrom: '%s'\nseverity: info\nsequence:\n- {contains: first text}\n- {contains: other text, from: '%s'}\nwithin: 5m\nclear: {contains: third text, from: '%s'}\nunless: {contains: fourth text, within: 5m, from: '%s'}",
			from("rule"), from("step"), from("clear"), from("unless"))
		d, ps := Parse(ownedFile("team-a", rule))
		if len(ps.Errors()) > 0 {
			return
		}
		set, ps := Build([]*Document{d}, Options{})
		require.Empty(t, ps.Errors())
		r := set.Rule("A")
		for _, namespace := range []string{"", "team-b", "TEAM-A", "kube-system"} {
			for s := range r.Selectors() {
				for _, labels := range []map[string]string{{"container": "c"}, {"component": "events"}, {}} {
					labels["namespace"] = namespace
					require.False(t, s.Matches(labels, false), "%s selects %v", s, labels)
				}
			}
		}
	})
}

// Files of a namespace do not change the rules of the operator, and overrides do not change rules of a namespace.
// A rule reads no stream of another cluster, whatever its selectors are.
func TestOwnedRuleReadsOnlyItsCluster(t *testing.T) {
	const cluster = `prod.1|x"`
	parse := func(from, clear string) (*Rule, Problems) {
		f := ownedFile("team-a", fmt.Sprintf("alert: A\nfrom: '%s'\nmatch: text of the line\nclear: {contains: it is back, from: '%s'}\nseverity: warning", from, clear))
		f.Cluster = cluster
		d, ps := Parse(f)
		if len(ps.Errors()) > 0 {
			return nil, ps.Errors()
		}
		set, ps := Build([]*Document{d}, Options{})
		require.Empty(t, ps.Errors())
		return set.Rule("A"), nil
	}
	for _, from := range []string{`{container="c"}`, `{container="c", cluster=~".*"}`, `{container="c", cluster!="other"}`, `{namespace="team-a"}`, `{container="c", cluster=~".*|other"}`} {
		r, ps := parse(from, from)
		require.Empty(t, ps)
		for other, want := range map[string]bool{cluster: true, "": true, "other": false, "prod-1": false, "prod.1": false, "x": false, cluster + "x": false} {
			labels := map[string]string{"namespace": "team-a", "container": "c", "cluster": other}
			require.Equal(t, want, r.Applies(labels, false), "%s %q", from, other)
			require.Equal(t, want, r.Clear.From.Matches(labels, false), "%s %q", from, other)
			require.Equal(t, want, r.From.MaySelect(labels, []string{"pod"}), "%s %q", from, other)
		}
	}
	for _, refused := range []string{`{container="c", cluster="other"}`, `{cluster=~"prod.1|other|x.", container="c"}`} {
		_, ps := parse(refused, `{container="c"}`)
		require.Len(t, ps, 1, refused)
		require.Contains(t, ps[0].Message, "reads only streams of cluster "+cluster)
		_, ps = parse(`{container="c"}`, refused)
		require.Len(t, ps, 1, refused)
	}
}

func TestOwnedPackChangesNoOtherRule(t *testing.T) {
	base := "pack: {name: base}\nrules:\n- {alert: Base, from: '{container=\"c\"}', match: base text, severity: critical, by: [pod], symptom_of: [{alert: Planted, same: []}]}\n"
	overrides := "overrides:\n- {rule: \"*\", set: {severity: info, from: '{container=\"all\"}'}}\n"
	operator := []*Document{parsed(t, "base.yaml", base), parsed(t, "over.yaml", overrides)}
	alone, ps := Build(operator, Options{})
	require.Empty(t, ps.Errors())

	planted := parseOwned(t, "team-a", fmt.Sprintf(ownedRule, "Planted")+"\nby: [pod]")
	set, ps := Build(append(operator[:2:2], planted), Options{})
	require.Empty(t, ps.Errors())
	require.Empty(t, set.Rule("Base").Causes, "a rule of a namespace is no cause of another rule")
	require.Equal(t, alone.Rule("Base").Hash, set.Rule("Base").Hash)
	require.Equal(t, SeverityWarning, set.Rule("Planted").Severity)
	require.Equal(t, `{container="c", namespace="team-a"}`, set.Rule("Planted").From.String())
	require.Equal(t, "Planted", planted.rules[0].rule.Alert)

	// The file of a namespace is at fault if it takes a name.
	for _, name := range []string{"Base", "BASE"} {
		_, ps = Build(append(operator[:2:2], parseOwned(t, "team-a", fmt.Sprintf(ownedRule, name))), Options{})
		require.Len(t, ps.Errors(), 1)
		require.Equal(t, "team-a.yaml", ps.Errors()[0].File)
	}

	// A rule may be a symptom of a rule of the operator or of its own namespace, but not of another namespace.
	symptom := parseOwned(t, "team-b", fmt.Sprintf(ownedRule, "Symptom")+"\nby: [pod]\nsymptom_of: [Base, Planted]")
	set, ps = Build(append(operator[:2:2], planted, symptom), Options{})
	require.Empty(t, ps.Errors())
	require.Len(t, set.Rule("Symptom").Causes, 1)
	require.Equal(t, "Base", set.Rule("Symptom").Causes[0].Alert)
}

func TestOwnedTestsHaveAShare(t *testing.T) {
	tests := "\ntests:\n- name: long\n  stream: {container: c}\n  input: [{at: 0s, line: \"" + strings.Repeat("x", 500) + "\", repeat: 90000, every: 1ms}]\n  expect: [{at: 1h, firing: none}]"
	var all []string
	for i := range 20 {
		all = append(all, fmt.Sprintf(ownedRule, fmt.Sprint("A", i))+tests)
	}
	costly := parseOwned(t, "team-a", all...)
	other := parseOwned(t, "team-b", fmt.Sprintf(ownedRule, "Other")+tests)
	_, ps := Build([]*Document{costly, other}, Options{})
	require.Len(t, ps.Errors(), 1)
	require.Equal(t, "team-a.yaml", ps.Errors()[0].File)
	require.Contains(t, ps.Errors()[0].Message, "all packs of namespace team-a are allowed 2s")
	require.Equal(t, "team-b", other.rules[0].rule.Tests[0].Stream["namespace"], "a test need not state the namespace")
}
