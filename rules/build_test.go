package rules

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

const basePack = `pack: {name: base, version: 1.2.3, rules: 3}
defaults: {severity: warning, labels: {team: platform}}
rules:
- alert: LinesWithCount
  from: '{container="c"}'
  match: {contains: some text}
  count: 5
  within: 10m
  by: [namespace]
- alert: LinesWithClear
  from: '{container="c"}'
  match: other text
  by: [namespace, pod]
  clear: text is back
- alert: Sequence
  from: '{container="c"}'
  sequence:
  - regex: 'first (?P<group>\S+)'
  - {regex: 'second (?P<group>\S+)', differs: [group]}
  within: 10m
  by: [namespace]
  unless: {contains: planned stop, within: 5m}
  annotations: {summary: "{{ $vars.group_1 }} {{ $vars.size }}"}
`

func parsed(t *testing.T, name, text string) *Document {
	t.Helper()
	d, ps := Parse(File{Name: name, Data: []byte(text)})
	require.Empty(t, ps.Errors(), "%s", ps.Error())
	return d
}

func build(t *testing.T, texts ...string) *Set {
	t.Helper()
	var docs []*Document
	for i, text := range texts {
		docs = append(docs, parsed(t, fmt.Sprintf("f%d.yaml", i), text))
	}
	set, ps := Build(docs, Options{Version: "0.1.0"})
	require.NotNil(t, set, "%s", ps.Error())
	return set
}

func TestBuild(t *testing.T) {
	set := build(t, basePack)
	require.Len(t, set.Packs, 1)
	p := set.Packs[0]
	require.Equal(t, "base", p.Name)
	require.Equal(t, "1.2.3", p.Version)
	require.Equal(t, "f0.yaml", p.File)
	require.Len(t, p.SHA256, 64)
	require.Equal(t, set.Rules, p.Rules)
	require.Empty(t, set.Warnings)

	r := set.Rule("LinesWithCount")
	require.Equal(t, 4, r.Line)
	require.Equal(t, "base", r.Pack)
	require.Equal(t, `{container="c"}`, r.From.String())
	require.Equal(t, []string{"some text"}, r.Steps[0].Matcher.Contains)
	require.False(t, r.Sequence)
	require.Equal(t, 5, r.Count)
	require.Equal(t, 10*time.Minute, r.Within)
	require.Equal(t, DefaultKeepFiringFor, r.KeepFiringFor)
	require.Zero(t, r.Expire)
	require.Equal(t, defaultLimit, r.Limit)
	require.Equal(t, ModeOn, r.Mode)
	require.Equal(t, SeverityWarning, r.Severity)
	require.Equal(t, ScopeCluster, r.Scope)
	require.Equal(t, "team", r.Labels[0].Name)
	require.Equal(t, "defaults f0.yaml:2", r.SetBy()["severity"])
	require.Equal(t, "defaults f0.yaml:2", r.SetBy()["labels.team"])
	require.Equal(t, "pack f0.yaml:7", r.SetBy()["count"])
	require.NotContains(t, r.SetBy(), "limit")

	r = set.Rule("LinesWithClear")
	require.Equal(t, 1, r.Count)
	require.Zero(t, r.KeepFiringFor)
	require.Equal(t, DefaultExpire, r.Expire)
	require.Equal(t, r.By, r.Clear.Same)
	require.Equal(t, ScopeNode, r.Scope)
	require.Equal(t, "- alert: LinesWithClear\n  from: '{container=\"c\"}'\n  match: other text\n  by: [namespace, pod]\n  clear: text is back\n", r.Source)

	r = set.Rule("Sequence")
	require.True(t, r.Sequence)
	require.Len(t, r.Steps, 2)
	require.Equal(t, []string{"group"}, r.Steps[1].Differs)
	require.Equal(t, 5*time.Minute, r.Unless.Within)
	require.Equal(t, []string{"namespace", "group", "group_1", "size"}, r.CapturedNames)
	require.Nil(t, set.Rule("nobody"))
}

func TestOverrides(t *testing.T) {
	set := build(t, basePack, `overrides:
- rule: LinesWithCount
  set: {severity: none, count: 50, keep_firing_for: 1h, enabled: silent, limit: 7, from: '{container="d"}'}
- rule: "LinesWith*"
  set: {for: 1m}
- rule: "pack:ba?e"
  add_unless: {contains: maintenance started, within: 5m}
- rule: LinesWithClear
  disable: "edge clusters have one replica"
- rule: LinesWithCount
  set: {count: 60}
`)
	r := set.Rule("LinesWithCount")
	require.Equal(t, 60, r.Count)
	require.Equal(t, SeverityNone, r.Severity)
	require.Equal(t, time.Hour, r.KeepFiringFor)
	require.Equal(t, time.Minute, r.For)
	require.Equal(t, ModeSilent, r.Mode)
	require.Equal(t, 7, r.Limit)
	require.Equal(t, `{container="d"}`, r.From.String())
	require.Equal(t, []string{"maintenance started"}, r.Unless.Matcher.Contains)
	require.Equal(t, r.By, r.Unless.Same)
	require.Equal(t, 5*time.Minute, r.Unless.Within)
	require.Equal(t, "override f1.yaml:11", r.SetBy()["count"])
	require.Equal(t, "override f1.yaml:5", r.SetBy()["for"])
	require.Equal(t, "override f1.yaml:7", r.SetBy()["unless"])
	require.Equal(t, "pack f0.yaml:8", r.SetBy()["within"])

	r = set.Rule("LinesWithClear")
	require.Equal(t, ModeOff, r.Mode)
	require.Equal(t, "edge clusters have one replica", r.Disabled)
	require.Equal(t, "override f1.yaml:9", r.SetBy()["enabled"])

	// The sequence has an unless of its own: either line mutes.
	r = set.Rule("Sequence")
	require.Len(t, r.Unless.Matcher.Any, 2)
	require.Equal(t, 5*time.Minute, r.Unless.Within)
	require.Zero(t, r.For)
}

func TestOverrideProblems(t *testing.T) {
	f := func(overrides, want string) {
		t.Helper()
		ps := checkAll([]File{{Name: "a.yaml", Data: []byte(basePack)}, {Name: "b.yaml", Data: []byte("overrides:\n" + overrides)}}, Options{})
		for _, p := range ps {
			require.Equal(t, "b.yaml", p.File, "%s", p)
		}
		require.Equal(t, want, findings(ps), "%s", overrides)
	}
	f("- rule: LinesWithCount\n  set: {severity: none}\n", "")
	f("- rule: Nobody\n  set: {severity: none}\n", "2 no-such-rule")
	f("- rule: 'X*'\n  disable: why\n", "2 no-such-rule")
	f("- rule: pack:other\n  disable: why\n", "2 no-such-rule")
	f("- rule: lineswithcount\n  disable: why\n", "2 no-such-rule")
	f("- rule: '['\n  disable: why\n", "2 glob")
	f("- rule: ''\n  disable: why\n", "2 empty-value")
	f("- disable: why\n", "2 missing-key")
	f("- rule: Sequence\n", "2 missing-key")
	f("- rule: Sequence\n  set: {}\n", "3 no-effect")
	f("- rule: Sequence\n  disable:\n", "3 no-value")
	f("- rule: Sequence\n  disable: true\n", "3 no-reason")
	f("- rule: Sequence\n  disable: ' '\n", "3 empty-value")
	f("- rule: Sequence\n  disable: why\n  set: {severity: info}\n", "3 no-effect")
	f("- rule: Sequence\n  set: {enabled: false}\n", "3 disable-reason?")
	f("- rule: Sequence\n  set:\n    severity: info\n    match: x\n    tests: [a]\n    clear: x\n    remediation: {summary: b}\n    alert: X\n", "5 unknown-key, 6 unknown-key, 7 unknown-key, 8 unknown-key, 9 unknown-key")
	f("- rule: Sequence\n  set: {count: 5}\n", "3 no-effect")
	f("- rule: LinesWithCount\n  set: {count: 10001}\n", "3 too-many")
	f("- rule: LinesWithCount\n  set: {count: 1}\n", "")
	f("- rule: LinesWithClear\n  set: {within: 1m}\n", "3 no-effect")
	f("- rule: LinesWithCount\n  set: {limit: 0}\n", "3 zero")
	f("- rule: LinesWithClear\n  set: {count: 5}\n", "3 needs-within")
	f("- rule: LinesWithClear\n  set: {keep_firing_for: 1h}\n", "3 no-effect")
	f("- rule: LinesWithClear\n  set: {expire: 1h, for: 2h}\n", "3 for-expire")
	f("- rule: LinesWithCount\n  set: {from: '{'}\n", "3 selector")
	f("- rule: LinesWithCount\n  set: {scope: node}\n", "3 scope")
	f("- rule: LinesWithCount\n  set: {within: 5}\n", "3 bad-duration")
	f("- rule: Sequence\n  add_unless: {contains: planned maintenance}\n", "3 needs-within")
	f("- rule: Sequence\n  add_unless: planned maintenance\n", "3 needs-within")
	f("- rule: Sequence\n  add_unless: {within: 5m}\n", "3 empty-matcher")
	f("- rule: Sequence\n  add_unless: {contains: planned, within: 1m, same: [pod]}\n", "3 add-unless, 3 same")
	f("- rule: Sequence\n  add_unless: {contains: planned, within: 1m}\n", "3 add-unless?")
	f("- rule: Sequence\n  reason: x\n", "2 missing-key, 3 unknown-key")
}

// TestHashIsStable: a rule whose hash changes loses its open episodes at an upgrade.
func TestHashIsStable(t *testing.T) {
	r := build(t, `pack: {name: p}
rules:
- alert: A
  from: '{container="x"}'
  sequence:
  - {contains: [abcd, "<b>"], field: {a: b, c: "~(?P<pod>.+)"}}
  - {any: [{regex: 'abcd (?P<pod>\w+)'}, {contains: efgh, regex: '(?P<pod>x+)'}], not: ijkl, differs: [z]}
  within: 10m
  by: [pod]
  clear: {contains: cleared, same: []}
  unless: {contains: maintenance, within: 1h, regex: 'of (?P<pod>\w+)'}
  severity: info
`).Rules[0]
	require.Equal(t, "c98e50e0f7489e29a1f9278126939f3a", r.Hash)
	require.Equal(t, "43fe04144817c1b163106274b267f9f4", r.MatchHash())
}

func TestSemanticHash(t *testing.T) {
	base := "pack: {name: p}\nrules:\n- alert: A\n  from: '{a=\"b\"}'\n  severity: info\n"
	hash := func(rest string) string {
		t.Helper()
		return build(t, base+rest).Rules[0].Hash
	}
	match := "  match: some text\n  by: [ns]\n"
	want := hash(match)
	same := func(rest string) { t.Helper(); require.Equal(t, want, hash(rest)) }
	differs := func(rest string) { t.Helper(); require.NotEqual(t, want, hash(rest)) }
	require.Len(t, want, 32)
	same("  match: {contains: [some text]}\n  by: [ns]\n")
	same(match + "  annotations: {summary: x}\n  remediation: {summary: x}\n  labels: {a: b}\n")
	same(match + "  tests: [{input: [{at: 0s, line: x}], expect: [{at: 1s, firing: none}]}]\n")
	same(match + "  count: 1\n  limit: 100\n  keep_firing_for: 15m\n  for: 0s\n  enabled: true\n  scope: cluster\n")
	require.Equal(t, hash(match+"  clear: all good\n"), hash(match+"  clear: {contains: all good, same: [ns]}\n  expire: 24h\n"))
	for _, rest := range []string{
		"  match: some text2\n  by: [ns]\n", "  match: some text\n", "  match: {regex: some text}\n  by: [ns]\n",
		"  match: {contains: some text, not: y}\n  by: [ns]\n", "  match: {contains: some text, field: {a: b}}\n  by: [ns]\n",
		"  match: {any: [some text]}\n  by: [ns]\n", "  sequence: [some text, some text]\n  within: 1m\n  by: [ns]\n",
		match + "  count: 2\n  within: 1m\n", match + "  count: 2\n  within: 1m\n  distinct: pod\n", match + "  limit: 5\n",
		match + "  for: 1m\n", match + "  clear: all good\n", match + "  clear: {contains: all good, same: []}\n",
		match + "  unless: {contains: all good, within: 1m}\n", match + "  enabled: silent\n", match + "  keep_firing_for: 1m\n",
	} {
		differs(rest)
	}
	differs(match + "  clear: all good\n  expire: 1h\n")
}

func TestScope(t *testing.T) {
	f := func(rest string, want Scope) {
		t.Helper()
		set := build(t, "pack: {name: p}\nrules:\n- alert: A\n  from: '{a=\"b\"}'\n  severity: info\n"+rest)
		require.Equal(t, want, set.Rules[0].Scope)
	}
	f("  match: some text\n", ScopeCluster)
	f("  match: some text\n  by: [namespace]\n", ScopeCluster)
	f("  match: some text\n  by: [pod]\n", ScopeNode)
	f("  match: some text\n  by: [pod]\n  scope: node\n", ScopeNode)
	f("  match: some text\n  by: [namespace, pod]\n  clear: x is back\n", ScopeNode)
	f("  match: some text\n  by: [namespace, pod]\n  clear: {contains: x is back, same: [pod]}\n", ScopeNode)
	f("  match: some text\n  by: [namespace, pod]\n  clear: {contains: x is back, same: [namespace]}\n", ScopeCluster)
	f("  match: some text\n  by: [namespace, pod]\n  unless: {contains: planned, same: [namespace], within: 1m}\n", ScopeCluster)
	f("  match: {regex: 'some (?P<pod>\\S+)'}\n  by: [pod]\n", ScopeCluster)
}

// TestConcurrentBuildsKeepDocuments builds the same documents concurrently, with and
// without overrides: a document is kept as the last good version.
func TestConcurrentBuildsKeepDocuments(t *testing.T) {
	pack := parsed(t, "p.yaml", basePack)
	over := parsed(t, "o.yaml", "overrides:\n- rule: '*'\n  set: {for: 1m}\n  add_unless: {contains: maintenance, within: 5m}\n")
	plain, _ := Build([]*Document{pack}, Options{})
	want := plain.Rules[0].Hash
	var wg sync.WaitGroup
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 20 {
				Build([]*Document{pack, over}, Options{})
			}
		}()
	}
	wg.Wait()
	again, _ := Build([]*Document{pack}, Options{})
	require.Equal(t, want, again.Rules[0].Hash)
	require.Equal(t, plain.Rules[0].SetBy(), again.Rules[0].SetBy())
	require.Nil(t, again.Rules[0].Unless)
	require.Zero(t, again.Rules[0].For)
}

// TestBuildOrder: overrides come last, wherever their file sorts.
func TestBuildOrder(t *testing.T) {
	set := build(t, "overrides:\n- rule: Sequence\n  set: {for: 1m}\n", basePack)
	require.Equal(t, time.Minute, set.Rule("Sequence").For)
}

func TestBuildAcrossPacks(t *testing.T) {
	f := func(opt Options, want string, texts ...string) {
		t.Helper()
		var files []File
		for i, text := range texts {
			files = append(files, File{Name: fmt.Sprintf("f%d.yaml", i), Data: []byte(text)})
		}
		require.Equal(t, want, findings(checkAll(files, opt)))
	}
	rule := func(pack, alert, match string) string {
		return "pack: {name: " + pack + "}\nrules:\n- {alert: " + alert + ", from: '{a=\"b\"}', match: " + match + ", severity: info}\n"
	}
	f(Options{}, "", rule("p", "A", "some text"), rule("q", "B", "other text"))
	f(Options{}, "3 duplicate-alert", rule("p", "A", "some text"), rule("q", "A", "other text"))
	f(Options{}, "3 duplicate-alert", rule("p", "A", "some text"), rule("q", "a", "other text"))
	f(Options{}, "3 shadowed?", rule("p", "A", "some text"), rule("q", "B", "{contains: [some text, x]}"))
	f(Options{}, "1 duplicate-pack?", rule("p", "A", "some text"), rule("p", "B", "other text"))
	f(Options{Version: "0.1.0"}, "1 requires", strings.Replace(rule("p", "A", "some text"), "{name: p}", "{name: p, requires: '>=0.2'}", 1))
	f(Options{Version: "0.2.0-rc.1"}, "", strings.Replace(rule("p", "A", "some text"), "{name: p}", "{name: p, requires: '>=0.2'}", 1))
	f(Options{Version: "dev"}, "", strings.Replace(rule("p", "A", "some text"), "{name: p}", "{name: p, requires: '>=0.2'}", 1))
	f(Options{}, "0 no-rules")
	// A broken pack is not blamed twice, nor are overrides of its rules.
	f(Options{}, "3 unknown-key", rule("p", "A", "{contians: some text}"), "overrides:\n- rule: A\n  set: {for: 1m}\n")
}

func TestRuleLimit(t *testing.T) {
	var docs []*Document
	for i := range 3 {
		var b strings.Builder
		fmt.Fprintf(&b, "pack: {name: p%d}\nrules:\n", i)
		for j := range 2000 {
			fmt.Fprintf(&b, "- {alert: A%d_%d, from: '{a=\"b\"}', match: text %d %d, severity: info}\n", i, j, i, j)
		}
		docs = append(docs, parsed(t, fmt.Sprintf("%d.yaml", i), b.String()))
	}
	set, ps := Build(docs[:2], Options{})
	require.Empty(t, ps.Errors())
	require.Len(t, set.Rules, 4000)
	set, ps = Build(docs, Options{})
	require.Nil(t, set)
	require.Equal(t, "1 too-many-rules", findings(ps))
}

func TestShippedLint(t *testing.T) {
	f := func(tests, want string) {
		t.Helper()
		text := "pack: {name: p, rules: 1}\nrules:\n- alert: A\n  from: '{a=\"b\"}'\n  match: {any: [some text, {regex: 'other \\w+'}]}\n  severity: info\n" + tests
		require.Equal(t, want, findings(checkAll([]File{{Name: "p.yaml", Data: []byte(text)}}, Options{Shipped: true})))
	}
	f("", "3 no-positive-test, 3 no-negative-test")
	test := func(line, firing string) string {
		return "  - {input: [{at: 1s, line: " + line + "}], expect: [{at: 2s, firing: " + firing + "}]}\n"
	}
	f("  tests:\n"+test("some text", "[{alertname: A}]"), "3 no-negative-test, 3 untested-shape")
	f("  tests:\n"+test("some text", "[{alertname: A}]")+test("other words", "[{alertname: A}]"), "3 no-negative-test")
	f("  tests:\n"+test("some text", "[{alertname: A}]")+test("other words", "[{alertname: A}]")+test("x", "none"), "")
	// A checkpoint before any line shows nothing.
	f("  tests:\n"+test("some text", "[{alertname: A}]")+test("other words", "[{alertname: A}]")+
		"  - {input: [{at: 1m, line: x}], expect: [{at: 2s, firing: none}]}\n", "3 no-negative-test")
}

func TestLoad(t *testing.T) {
	f := func(text string) fstest.MapFS { return fstest.MapFS{"a.yaml": &fstest.MapFile{Data: []byte(text)}} }
	set, err := Load(f(basePack), f("overrides:\n- {rule: Sequence, set: {for: 1m}}\n"))
	require.NoError(t, err)
	require.Len(t, set.Rules, 3)

	_, err = Load(f(basePack), f("pack: {name: x}\nrules: []\n"))
	var ps Problems
	require.ErrorAs(t, err, &ps)
	require.Equal(t, "2 no-rules", findings(ps))

	_, err = Load(fstest.MapFS{"a.yaml": &fstest.MapFile{Data: make([]byte, MaxFileBytes+100)}})
	require.ErrorAs(t, err, &ps)
	require.Equal(t, "0 too-large", findings(ps))

	_, err = Load()
	require.ErrorContains(t, err, "no rules")
}
