package rules

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pack makes a pack around one rule. Its line 3 is the first of the rule.
func pack(rule string) string { return "pack: {name: p}\nrules:\n" + rule }

// findings writes errors as "line check" and warnings as "line check?".
func findings(ps Problems) string {
	var out []string
	for _, p := range ps {
		s := fmt.Sprintf("%d %s", p.Line, p.Check)
		if p.Level != 0 {
			s += "?"
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

func check(t *testing.T, text string) string {
	t.Helper()
	ps := checkAll([]File{{Name: "p.yaml", Data: []byte(text)}}, Options{Version: "0.1.0"})
	for _, p := range ps {
		require.NotEmpty(t, p.Check)
		require.NotEmpty(t, p.Message)
		require.NotEmpty(t, p.File)
	}
	return findings(ps)
}

// TestLint changes one good rule. The lines of the base rule are:
//
//	3 alert, 4 from, 5 match, 6 by, 7 severity, 8.. what the case adds
func TestLint(t *testing.T) {
	f := func(more, want string) {
		t.Helper()
		base := "- alert: A\n  from: '{c=\"x\", ns!=\"y\"}'\n  match: some text\n  by: [ns]\n  severity: warning\n"
		require.Equal(t, want, check(t, pack(base+more)), "%s", more)
	}
	f("", "")
	// A rule that never fires.
	f("  clear: some text\n", "8 never")
	f("  clear: some\n", "8 never")
	f("  clear: some text else\n", "")
	f("  clear: {contains: text, not: {contains: lost}}\n", "")
	f("  clear: {any: [{contains: text}, {contains: won}]}\n", "8 never, 8 no-literal?")
	f("  unless: {contains: text, within: 1m}\n", "8 never")
	// Unknown keys, also deep inside.
	f("  severitty: info\n", "8 unknown-key")
	f("  clear: {contians: x}\n", "8 unknown-key")
	f("  clear: {contains: texts, sane: [ns]}\n", "8 unknown-key")
	f("  clear:\n    any:\n    - {contains: abcd, regexp: x}\n", "10 unknown-key")
	f("  unless: {contains: abcd, within: 1m, not: {contain: x}}\n", "8 unknown-key")
	f("  remediation:\n    summary: x\n    step: [a]\n", "10 unknown-key")
	f("  remediation:\n    affects:\n    - {component: x, version: \"1.0.0\"}\n", "10 unknown-key")
	f("  tests:\n  - name: x\n    inputs: []\n    expect: [{at: 1s, firing: none}]\n", "10 unknown-key")
	f("  tests:\n  - input: [{at: 1s, line: x, lable: {a: b}}]\n    expect: [{at: 1s, firing: none}]\n", "9 unknown-key")
	f("  tests:\n  - input: [{at: 1s, line: x}]\n    expect: [{at: 1s, firng: none}]\n", "10 unknown-key")
	f("  keep-firing-for: 1m\n", "8 unknown-key")
	f("  on: [a]\n", "8 unknown-key")
	// keep_firing_for, clear and expire.
	f("  clear: {contains: abcd}\n  keep_firing_for: 1h\n", "9 no-effect")
	f("  expire: 1h\n", "8 no-effect")
	f("  clear: abcd\n  expire: 1h\n", "")
	f("  clear: abcd\n  expire: 1h\n  for: 1h\n", "10 for-expire")
	f("  clear: abcd\n  for: 24h\n", "9 for-expire")
	f("  clear: abcd\n  for: 23h\n", "")
	// distinct, count and within.
	f("  distinct: pod\n", "3 needs-count")
	f("  distinct: pod\n  count: 1\n", "9 needs-count")
	f("  distinct: pod\n  count: 2\n", "3 needs-within")
	f("  distinct: pod\n  count: 2\n  within: 1m\n", "")
	f("  distinct: ns\n  count: 2\n  within: 1m\n", "8 never")
	f("  count: 5\n", "3 needs-within")
	f("  within: 5m\n", "8 no-effect")
	f("  count: 1\n  within: 5m\n", "9 no-effect")
	f("  count: 0\n  within: 5m\n", "8 zero")
	f("  count: 10001\n  within: 5m\n", "8 too-many")
	f("  count: 10000\n  within: 5m\n", "")
	f("  distinct: pod\n  count: 257\n  within: 5m\n", "9 too-many")
	f("  distinct: pod\n  count: 256\n  within: 5m\n", "")
	f("  distinct: minute\n", "3 needs-count")
	f("  distinct: second\n  count: 257\n  within: 1h\n", "9 too-many")
	f("  distinct: minute\n  count: 11\n  within: 10m\n", "")
	f("  distinct: minute\n  count: 12\n  within: 10m\n", "9 never")
	f("  distinct: day\n  count: 2\n  within: 10m\n", "")
	f("  distinct: hour\n  count: 3\n  within: 1h\n", "9 never")
	f("  count: 5\n  within: 0s\n", "9 zero")
	f("  count: 5\n  within: 5s\n", "9 below-lateness?")
	f("  count: 5\n  within: 10s\n", "")
	f("  for: 5s\n", "8 below-lateness?")
	f("  limit: 0\n", "8 zero")
	f("  limit: -1\n", "8 zero")
	// same and differs where they mean nothing, or name what is not there.
	f("  clear: {contains: abcd, same: [pod]}\n", "8 same")
	f("  clear: {contains: abcd, same: [ns, ns]}\n", "8 duplicate-name")
	f("  clear: {contains: abcd, same: []}\n", "")
	f("  clear: {contains: abcd, differs: [ns]}\n", "8 unknown-key")
	f("  unless: {contains: abcd}\n", "3 needs-within")
	f("  unless: abcd\n", "3 needs-within")
	f("  unless: {contains: abcd, within: 0s}\n", "8 zero")
	f("  unless: {contains: abcd, within: 1m}\n", "")
	f("  clear: {contains: abcd, within: 1m}\n", "8 unknown-key")
	// Matchers.
	f("  clear: {}\n", "8 empty-matcher")
	f("  clear: ''\n", "8 empty-matcher")
	f("  clear: {contains: []}\n", "8 empty-matcher")
	f("  clear: {contains: [a, '']}\n", "8 empty-matcher")
	f("  clear: {any: []}\n", "8 empty-matcher")
	f("  clear: {any: [abcd, {}]}\n", "8 empty-matcher")
	f("  clear: {field: {}}\n", "8 empty-matcher")
	f("  clear:\n    not: abcd\n", "9 not-alone")
	f("  clear: {any: [abcd, {not: x}]}\n", "8 not-alone")
	f("  clear: {contains: abcd, not: {not: x}}\n", "8 not-alone")
	f("  clear: {contains: abcd, not: ''}\n", "8 empty-matcher")
	f("  clear: {regex: 'x*'}\n", "8 empty-regex")
	f("  clear: {regex: ''}\n", "8 empty-regex")
	f("  clear: {contains: abcd, regex: '(foo)?'}\n", "8 empty-regex")
	f("  clear: {contains: abcd, not: {regex: '.*'}}\n", "8 empty-regex")
	f("  clear: {regex: '(abcd'}\n", "8 regex")
	f("  clear: {regex: '(?=abcd)'}\n", "8 regex")
	f("  clear: {regex: '(?P<a>abcd)(?P<a>efgh)'}\n", "8 duplicate-name")
	f("  clear: {regex: '(?P<ns>abcd)|(?P<ns>efgh)'}\n", "8 duplicate-name?")
	f("  clear: {field: {name: '~('}}\n", "8 regex")
	f("  clear: {field: {name: '~'}}\n", "8 empty-regex")
	f("  clear: {field: {name: '~.*'}}\n", "")
	f("  clear: [a, b]\n", "8 wrong-type")
	f("  clear: 500\n", "8 wrong-type")
	f("  clear: {contains: 500}\n", "8 wrong-type")
	f("  clear: {contains: [500]}\n", "8 wrong-type")
	f("  clear: {field: {code: 500}}\n", "8 wrong-type")
	f("  clear: {field: [a]}\n", "8 wrong-type")
	f("  clear: {any: abcd}\n", "8 wrong-type")
	f("  clear: {contains: abcd, not: [a]}\n", "8 wrong-type")
	f("  clear: {contains: abcd, same: ns}\n", "8 wrong-type")
	f("  clear:\n", "8 no-value")
	f("  clear: abc\n", "8 no-literal?")
	f("  clear: {contains: |\n    abcd\n    }\n", "8 yaml-syntax")
	f("  clear:\n    contains: |\n      abcd\n", "9 line-break?")
	// Labels and templates.
	f("  labels: {a: '{{ $labels.ns }}'}\n", "")
	f("  labels: {a: '{{ $labels.pod }}'}\n", "8 label-template")
	f("  labels: {a: '{{ $value }}'}\n", "8 label-template")
	f("  labels: {a: '{{ $line }}'}\n", "8 label-template")
	f("  labels: {a: '{{ $vars.x }}'}\n", "8 label-template")
	f("  labels:\n    a: b\n    severity: x\n", "10 label-name")
	f("  labels: {alertname: x}\n", "8 label-name")
	f("  labels: {resolves: x}\n", "8 label-name")
	f("  labels: {overflow: x}\n", "8 label-name")
	f("  labels: {a-b: x}\n", "8 label-name")
	f("  labels: {ns: x}\n", "8 label-in-by")
	f("  labels: {tier: 1}\n", "8 wrong-type")
	f("  labels: [a]\n", "8 wrong-type")
	f("  labels: {a: '{{ $labels.ns '}\n", "8 template")
	f("  annotations: {summary: '{{ range $i }}x{{ end }}'}\n", "8 template")
	f("  annotations: {summary: '{{ $labels.ns }} {{ $labels.severity }} {{ $vars.any }} {{ $value }} {{ $line }}'}\n", "")
	f("  annotations: {summary: '{{ $labels.pod }}'}\n", "8 annotation-template")
	f("  annotations: {summary: {{ $labels.ns }}}\n", "8 wrong-type")
	f("  annotations: {summary: 5}\n", "8 wrong-type")
	f("  annotations: {summary: }\n", "8 no-value")
	// Remediation.
	f("  remediation: {summary: x, runbook_url: 'https://a/b'}\n", "")
	f("  remediation: {runbook_url: 'https://...'}\n", "")
	f("  remediation: {runbook_url: 'https://a/{{ $labels.ns }}'}\n", "8 runbook-url")
	f("  remediation: {runbook_url: 'javascript:alert(1)'}\n", "8 runbook-url")
	f("  remediation: {steps: do it}\n", "8 wrong-type")
	f("  remediation: {steps: ['{{ $foo }}']}\n", "8 template")
	f("  remediation:\n    affects:\n    - {component: x, versions: 1.10}\n", "10 wrong-type")
	f("  remediation:\n    affects:\n    - {component: x, versions: \"1.10\"}\n", "10 versions")
	f("  remediation:\n    affects:\n    - {component: x, versions: \"<1.10.0\", fixed_in: 1.10}\n", "10 wrong-type")
	f("  remediation:\n    affects:\n    - {component: x, versions: \"soon\"}\n", "10 versions")
	f("  remediation:\n    affects: {component: x}\n", "9 wrong-type")
	// Scope.
	f("  scope: cluster\n", "")
	f("  scope: node\n", "8 scope")
	f("  scope: global\n", "8 enum")
	// Enums and types.
	f("  enabled: maybe\n", "8 enum")
	f("  enabled: silent\n", "")
	f("  enabled: \"true\"\n", "")
	f("  enabled: 1\n", "8 wrong-type")
	f("  for: 10\n", "8 bad-duration")
	f("  for: 5 minutes\n", "8 bad-duration")
	f("  for: 1.5h\n", "8 bad-duration")
	f("  for: 1h30m\n", "")
	f("  for: -5m\n", "8 bad-duration")
	f("  for: [5m]\n", "8 wrong-type")
	f("  count: many\n", "8 wrong-type")
	f("  count: \"5\"\n  within: 1m\n", "8 wrong-type")
	f("  count: 1.5\n", "8 wrong-type")
	f("  count: 99999999999999999999\n", "8 wrong-type")
	f("  severity: info\n", "8 duplicate-key")
	f("  by: [a]\n", "8 duplicate-key")
	f("  <<: {a: b}\n", "8 merge-key")
	f("  clear: &x abcd\n", "8 anchor")
	f("  clear: *x\n", "8 anchor")
	f("  clear: !!str abcd\n", "8 tag")
	f("  true: x\n", "8 wrong-type")
	f("  ? [a]\n  : b\n", "8 wrong-type")
	f("\tfor: 1m\n", "8 yaml-syntax")
	f("---\npack: {name: q}\n", "8 second-document")
	// Tests.
	f("  tests: {name: x}\n", "8 wrong-type")
	f("  tests:\n  - name: x\n    input: [{at: 0s, line: x}]\n", "9 missing-key")
	f("  tests:\n  - name: x\n    expect: [{at: 0s, firing: none}]\n", "9 missing-key")
	f("  tests:\n  - input: [{at: 0s}]\n    expect: [{at: 0s, firing: none}]\n", "9 missing-key")
	f("  tests:\n  - input: [{line: x}]\n    expect: [{at: 0s, firing: none}]\n", "9 missing-key")
	f("  tests:\n  - input: [{at: 0s, line: x, source: lost}]\n    expect: [{at: 0s, firing: none}]\n", "9 no-effect")
	f("  tests:\n  - input: [{at: 0s, source: gone}]\n    expect: [{at: 0s, firing: none}]\n", "9 enum")
	f("  tests:\n  - input: [{at: 0s, do: reload}]\n    expect: [{at: 0s, firing: none}]\n", "9 enum")
	f("  tests:\n  - input: [{at: 0s, line: x, repeat: 0}]\n    expect: [{at: 0s, firing: none}]\n", "9 zero")
	f("  tests:\n  - input: [{at: 0s, line: x}]\n    expect: [{at: 0s, firing: {a: b}}]\n", "10 wrong-type")
	f("  tests:\n  - input: [{at: 0s, line: x}]\n    expect: [{at: 0s, firing: [{overflow: true}]}]\n", "10 wrong-type")
	f("  tests:\n  - input: [{at: 0s, line: x}]\n    expect: [{at: 0s}]\n", "10 missing-key")
	f("  tests:\n  - stream: &s {a: b}\n    input: &i [{at: 0s, line: x}]\n    expect: &e [{at: 0s, firing: none}]\n  - {stream: *s, input: *i, expect: *e}\n", "")
	f("  tests:\n  - input: [{at: 0s, line: x}]\n    expect: [{at: 0s, firing: [{alertname: A, annotations: {a: b}, starts_at: 5s, value: 3}], resolved: [{ends_at: 1m}]}]\n", "")
	f("  tests:\n  - input: [{at: 0s, line: *nope}]\n    expect: [{at: 0s, firing: none}]\n", "9 anchor")
}

// TestLintWhole is for rules that do not fit the base rule of TestLint.
func TestLintWhole(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		require.Equal(t, want, check(t, text), "%s", text)
	}
	r := func(rule, want string) {
		t.Helper()
		f(pack(rule), want)
	}
	good := "- {alert: A, from: '{c=\"x\"}', match: abcd, severity: info}\n"
	// Files.
	f("", "0 empty-file")
	f("\n# only a comment\n", "0 empty-file")
	f("---\n", "0 empty-file")
	f("- a\n", "1 wrong-type")
	f("text\n", "1 wrong-type")
	f("\xff\xfep\x00a\x00", "1 encoding")
	f("pack: {name: p\x00}\n", "1 encoding")
	f("pack: {name: p}\nrules:\n- alert: \xc3\x28\n", "3 encoding")
	f("foo: 1\n", "1 unknown-key, 1 missing-key")
	f("groups:\n- name: x\n  rules: []\n", "1 file-kind")
	f("pack: {name: p}\noverrides: []\n", "2 file-kind")
	f("overrides: []\n", "1 empty-value")
	f("pack: {name: p}\n", "1 no-rules")
	f("pack: {name: p}\nrules: []\n", "2 no-rules")
	f("pack: {name: p}\nrules:\n", "2 no-value")
	f("pack: {name: p}\nrules: {a: b}\n", "2 wrong-type")
	f("pack: {name: p}\nrule:\n"+good, "1 no-rules, 2 unknown-key")
	f("rules:\n"+good, "1 missing-key")
	f("pack: p\nrules:\n"+good, "1 wrong-type")
	f("pack: {version: 0.1.0}\nrules:\n"+good, "1 missing-key")
	f("pack: {name: ''}\nrules:\n"+good, "1 empty-value")
	f("pack: {name: p, version: 1.0}\nrules:\n"+good, "1 wrong-type")
	f("pack: {name: p, version: 0.1.0, rules: 1}\nrules:\n"+good, "")
	f("pack: {name: p, rules: 2}\nrules:\n"+good, "1 rule-count")
	f("pack: {name: p, rules: 0}\nrules:\n"+good, "1 rule-count")
	f("pack: {name: p, rules: '1'}\nrules:\n"+good, "1 wrong-type")
	f("pack: {name: p, rules: 1}\nrules:\n"+strings.TrimSpace(good), "")
	f("pack: {name: p, rules: 1}\nrules:\n- from: '{c=\"x\"}'\n  match: abcd\n  severity: info\n  alert: A", "6 cut-off")
	f("pack: {name: p, requires: \">=0.1\"}\nrules:\n"+good, "")
	f("pack: {name: p, requires: \">=0.2\"}\nrules:\n"+good, "1 requires")
	f("pack: {name: p, requires: \"new\"}\nrules:\n"+good, "1 requires")
	f("pack: {name: p, requires: 0.1}\nrules:\n"+good, "1 wrong-type")
	f("pack: {name: p}\ndefaults: {severity: high}\nrules:\n"+good, "2 enum")
	f("pack: {name: p}\ndefaults: {labels: {severity: x}}\nrules:\n"+good, "2 label-name")
	f("pack: {name: p}\ndefaults: {by: [x]}\nrules:\n"+good, "2 unknown-key")
	f("pack: {name: p}\ndefaults: {labels: {t: '{{ $value }}'}}\nrules:\n"+good, "2 label-template")
	f("pack: {name: p}\ndefaults: {severity: info, labels: {t: x}}\nrules:\n- {alert: A, from: '{c=\"x\"}', match: abcd}\n", "")
	f("pack: {name: p}\ndefaults: {labels: {t: x}}\nrules:\n- {alert: A, from: '{c=\"x\"}', match: abcd, severity: info, by: [t]}\n", "4 label-in-by")
	f("pack: {name: p}\nrules:\n"+good+good, "4 duplicate-alert")
	f("pack: {name: p}\nrules:\n"+good+"- 5\n", "4 wrong-type")
	f("pack: {name: p}\nrules:\n"+good+"-\n", "4 no-value")
	f("pack: &a {name: p}\nrules:\n"+good, "1 anchor")
	// Required keys are missed at the line of `- alert:`.
	r("- from: '{c=\"x\"}'\n  match: abcd\n  severity: info\n", "3 missing-key")
	r("- alert: A\n  match: abcd\n  severity: info\n", "3 missing-key")
	r("- alert: A\n  from: '{c=\"x\"}'\n  severity: info\n", "3 missing-key")
	r("- alert: A\n  from: '{c=\"x\"}'\n  match: abcd\n", "3 missing-key")
	r("- alert: A\n", "3 missing-key, 3 missing-key, 3 missing-key")
	r("- from: '{c=\"x\"}'\n  alert: A\n  match: abcd\n", "4 missing-key")
	r("- alert: A\n  from: '{c=\"x\"}'\n  match: abcd\n  sequence: [abcd, efgh]\n  within: 1m\n  severity: info\n", "6 match-or-sequence")
	r("- alert: ''\n  from: '{c=\"x\"}'\n  match: abcd\n  severity: info\n", "3 empty-value")
	r("- alert: 5\n  from: '{c=\"x\"}'\n  match: abcd\n  severity: info\n", "3 wrong-type")
	// Selectors.
	sel := func(from, want string) {
		t.Helper()
		r("- alert: A\n  from: "+from+"\n  match: abcd\n  severity: info\n", want)
	}
	sel("'{a=\"b\", c!=\"d\", e=~\"f\", g!~\"h\"}'", "")
	sel("{a=\"b\"}", "4 wrong-type")
	sel("'{}'", "4 selector")
	sel("''", "4 selector")
	sel("'{a=b}'", "4 selector")
	sel("'{a=\"b\"'", "4 selector")
	sel("'{a==\"b\"}'", "4 selector")
	sel("'{a=~\"(\"}'", "4 selector")
	sel("[a]", "4 wrong-type")
	// The key.
	by := func(by, match, want string) {
		t.Helper()
		from := `{c="x"`
		for _, name := range regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`).FindAllString(by, -1) {
			from += ", " + name + `!="y"`
		}
		r("- alert: A\n  from: '"+from+"}'\n  severity: info\n  by: "+by+"\n  match: "+match+"\n", want)
	}
	by("[pod]", "abcd", "6 pod-without-clear?")
	by("pod", "abcd", "6 wrong-type")
	by("[a, a]", "abcd", "6 duplicate-name")
	by("[a, '']", "abcd", "6 empty-value")
	by("[a, 5]", "abcd", "6 wrong-type")
	by("[severity]", "abcd", "6 label-name")
	by("[alertname, resolves, overflow]", "abcd", "6 label-name, 6 label-name, 6 label-name")
	by("[Cluster.name]", "abcd", "6 label-name")
	by("[reconcileID]", "abcd", "6 unbounded-key")
	by("[reconcile_id]", "abcd", "6 unbounded-key")
	by("[uid]", "abcd", "6 unbounded-key")
	by("[pod_uid]", "abcd", "6 unbounded-key")
	by("[trace_id]", "abcd", "6 unbounded-key")
	by("[traceID]", "abcd", "6 unbounded-key")
	by("[pod_template_hash]", "abcd", "6 unbounded-key")
	by("[sha256]", "abcd", "6 unbounded-key")
	by("[timestamp]", "abcd", "6 unbounded-key")
	by("[ts]", "abcd", "6 unbounded-key")
	by("[fluid, rash, cluster, kind, node]", "abcd", "")
	by("[msg]", "{regex: 'abcd (?P<msg>.*)'}", "6 unbounded-key")
	by("[msg]", "{regex: 'abcd (?P<msg>.*?) efg'}", "6 unbounded-key")
	by("[msg]", "{contains: abcd, field: {e: '~(?P<msg>.*)'}}", "6 unbounded-key")
	by("[msg]", "{any: [{regex: 'abcd (?P<msg>.*)'}]}", "6 unbounded-key")
	by("[msg]", "{regex: 'abcd (?P<msg>.+)'}", "6 unbounded-key?")
	by("[c]", "{contains: abcd, field: {e: '~(?P<c>.+)'}}", "")
	by("[c]", "{regex: 'abcd (?P<c>\\S+)'}", "")
	by("[a1, a2, a3, a4, a5, a6, a7, a8, a9, b1, b2, b3, b4, b5, b6, b7, b8]", "abcd", "")
	by("[a1, a2, a3, a4, a5, a6, a7, a8, a9, b1, b2, b3, b4, b5, b6, b7, b8, b9]", "abcd", "6 too-many-labels")
	// Captures of the key.
	key := func(rest, want string) {
		t.Helper()
		r("- alert: A\n  from: '{c=\"x\", g!=\"y\"}'\n  severity: info\n  by: [g]\n"+rest, want)
	}
	key("  match: {regex: 'abcd (?P<g>x)'}\n  clear: efgh\n", "8 key-not-captured")
	key("  match: {regex: 'abcd (?P<g>x)'}\n  clear: {contains: efgh, same: []}\n", "")
	key("  match: {regex: 'abcd (?P<g>x)'}\n  clear: {regex: 'efgh (?P<g>x)'}\n", "")
	key("  match: {regex: 'abcd (?P<g>x)'}\n  unless: {contains: efgh, within: 1m}\n", "8 key-not-captured")
	key("  match: {regex: 'abcd (?P<g>x)'}\n  unless: {contains: efgh, within: 1m, same: [g]}\n", "")
	key("  match: {contains: abcd}\n  clear: efgh\n", "")
	key("  within: 1m\n  sequence:\n  - regex: 'abcd (?P<g>x)'\n  - contains: efgh\n", "10 key-not-captured")
	key("  within: 1m\n  sequence:\n  - contains: efgh\n  - regex: 'abcd (?P<g>x)'\n", "9 key-not-captured")
	key("  within: 1m\n  sequence:\n  - regex: 'abcd (?P<g>x)'\n  - field: {group: '~(?P<g>.+)'}\n", "")
	key("  within: 1m\n  sequence: [abcd, efgh]\n", "")
	// Sequences.
	r("- alert: A\n  from: '{c=\"x\"}'\n  severity: info\n  sequence: [abcd, efgh]\n", "3 needs-within")
	r("- alert: A\n  from: '{c=\"x\"}'\n  severity: info\n  within: 1m\n  sequence: abcd\n", "7 wrong-type")
	r("- alert: A\n  from: '{c=\"x\"}'\n  severity: info\n  within: 1m\n  sequence: []\n", "7 empty-matcher")
	r("- alert: A\n  from: '{c=\"x\"}'\n  severity: info\n  within: 1m\n  sequence: [abcd]\n", "7 short-sequence?")
	r("- alert: A\n  from: '{c=\"x\"}'\n  severity: info\n  within: 1m\n  sequence: [abcd, efgh]\n  count: 2\n", "8 no-effect")
	r("- alert: A\n  from: '{c=\"x\"}'\n  severity: info\n  within: 1m\n  sequence: [abcd, efgh]\n  distinct: x\n", "8 no-effect")
	r("- alert: A\n  from: '{c=\"x\", x!=\"y\"}'\n  severity: info\n  within: 1m\n  sequence:\n  - {contains: abcd, differs: [x]}\n  - efgh\n", "8 no-effect")
	r("- alert: A\n  from: '{c=\"x\", x!=\"y\"}'\n  severity: info\n  within: 1m\n  by: [x]\n  sequence:\n  - abcd\n  - {contains: efgh, differs: [x]}\n", "10 never")
	r("- alert: A\n  from: '{c=\"x\"}'\n  severity: info\n  within: 1m\n  sequence:\n  - abcd\n  - {contains: efgh, same: [x]}\n", "9 unknown-key")
	// Cost.
	r("- alert: A\n  from: '{c=\"x\"}'\n  severity: info\n  match: {regex: '[\\pL]{1,900}z'}\n", "6 no-literal?, 6 too-costly")
	r("- alert: A\n  from: '{c=\"x\"}'\n  severity: info\n  match: {contains: abcd, regex: '[\\pL]{1,900}z'}\n", "6 too-costly")
	r("- alert: A\n  from: '{c=\"x\"}'\n  severity: info\n  match: {regex: 'abcd[\\pL]{1,900}z'}\n", "6 too-costly")
	r("- alert: A\n  from: '{c=\"x\"}'\n  severity: info\n  match: {contains: abcd, regex: '[a-m]{1,90}[n-z]{1,90}[0-4]{1,90}[5-9]{1,90}'}\n", "")
	r("- alert: A\n  from: '{c=\"x\"}'\n  severity: info\n  match: {contains: abc, regex: '[\\pL]{1,900}z'}\n", "6 no-literal?, 6 too-costly")
	r("- alert: A\n  from: '{c=\"x\"}'\n  severity: info\n  match: {contains: abcd, not: {regex: '[\\pL]{1,900}z'}}\n", "6 too-costly")
	r("- alert: A\n  from: '{c=\"x\"}'\n  severity: info\n  match: {any: [abcd, {regex: '[a-z]{1,900}9'}]}\n", "6 no-literal?, 6 too-costly")
	r("- alert: A\n  from: '{c=\"x\"}'\n  severity: info\n  match: {regex: '(\\d+) (\\w+)'}\n", "6 no-literal?")
	r("- alert: A\n  from: '{c=\"x\"}'\n  severity: info\n  match: {regex: '(?i)panic: '}\n", "")
	r("- alert: A\n  from: '{c=\"x\"}'\n  severity: info\n  match: {regex: '(?i)etcdserver: leader changed'}\n", "")
	r("- alert: A\n  from: '{c=\"x\"}'\n  severity: info\n  match: {regex: '(?i)kiss task'}\n", "")
	r("- alert: A\n  from: '{c=\"x\"}'\n  severity: info\n  match: {regex: '(?i)sks ksk'}\n", "6 no-literal?")
	r("- alert: A\n  from: '{c=\"x\"}'\n  severity: info\n  match: {regex: 'a{1001}'}\n", "6 regex")
	r("- alert: A\n  from: '{c=\"x\"}'\n  severity: none\n  match: abcd\n", "5 severity-none?")
	// Two mistakes of one rule, and of two rules, are both told.
	r("- alert: A\n  from: '{c=\"x\"}'\n  severity: high\n  mach: abcd\n- alert: B\n  from: x\n  match: {contians: x}\n  count: 3\n", "5 enum, 6 unknown-key, 7 missing-key, 7 needs-within, 8 selector, 9 unknown-key")
}

// checkAll returns every problem of the files, as `check rules` does.
func checkAll(files []File, opt Options) Problems {
	var docs []*Document
	var problems Problems
	for _, f := range files {
		d, ps := Parse(f)
		docs, problems = append(docs, d), append(problems, ps...)
	}
	_, ps := Build(docs, opt)
	problems = append(problems, ps...)
	problems.Sort()
	return problems
}

func TestNever(t *testing.T) {
	f := func(from, match, more, want string) {
		t.Helper()
		require.Equal(t, want, check(t, pack(fmt.Sprintf("- alert: A\n  from: '%s'\n  %s\n  by: [namespace]\n  severity: warning\n%s", from, match, more))))
	}
	f(`{c="x", c="y"}`, "match: some text", "", "4 selector")
	f(`{c="x", c!="x"}`, "match: some text", "", "4 never")
	f(`{c="x", c=~"[a-w]"}`, "match: some text", "", "4 never")
	f(`{c="x"}`, "match: {contains: some text, not: {contains: text}}", "", "5 never")
	f(`{c="x"}`, "match: {contains: text, not: {contains: some text}}", "", "")
	f(`{c="x"}`, "match: {field: {msg: lost, reason: x}}", "  clear: {field: {msg: lost}}\n", "8 never")
	f(`{c="x"}`, "match: {field: {msg: lost}}", "  clear: {field: {msg: lost, reason: x}}\n", "")
	f(`{c="x"}`, "match: {any: [{contains: lost one}, {contains: lost two}]}", "  clear: lost\n", "8 never")
	f(`{c="x"}`, "match: {any: [{contains: lost one}, {contains: gone two}]}", "  clear: lost\n", "")
	f(`{c="x"}`, "sequence: [{contains: first one}, {contains: second one}]\n  within: 1m", "  clear: second\n", "9 never")
	f(`{c="x"}`, "sequence: [{contains: first one}, {contains: second one}]\n  within: 1m", "  clear: first\n", "")
}
