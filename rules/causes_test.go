package rules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const causePack = `pack: {name: p}
defaults: {labels: {team: base, tier: one}}
rules:
- alert: StoreSlow
  from: '{a="b"}'
  match: slow
  by: [namespace]
  severity: critical
- alert: LeaseLost
  from: '{a="b"}'
  match: lost it
  by: [namespace, pod]
  clear: regained
  severity: warning
  annotations: {summary: "{{ $labels.pod }}", description: stays}
  remediation: {summary: restart it, runbook_url: https://a.example/b}
  symptom_of:
  - StoreSlow
  - {alert: Elsewhere, same: [], lag: 5m}
  tests: [{input: [{at: 0s, line: lost it}], expect: [{at: 1s, firing: [{alertname: LeaseLost}]}]}]
`

func TestCauses(t *testing.T) {
	r := build(t, causePack).Rule("LeaseLost")
	require.Len(t, r.Causes, 2)
	require.Equal(t, "StoreSlow", r.Causes[0].Alert)
	require.Nil(t, r.Causes[0].Same)
	require.Equal(t, 18, r.Causes[0].Pos.Line)
	require.NotNil(t, r.Causes[1].Same, "none is not the default")
	require.Equal(t, 5*time.Minute, r.Causes[1].Lag)

	f := func(cause int, by []string, want []string, related bool) {
		t.Helper()
		names, ok := r.Causes[cause].SharedLabels(r, by)
		require.Equal(t, related, ok)
		require.Equal(t, want, names)
	}
	f(0, []string{"pod", "namespace", "x"}, []string{"namespace", "pod"}, true)
	f(0, []string{"namespace"}, []string{"namespace"}, true)
	f(0, []string{"node"}, nil, false)
	f(1, []string{"node"}, []string{}, true)
}

// The relation says nothing about which episodes there are.
func TestCausesAreNotPartOfTheHash(t *testing.T) {
	set := build(t, causePack)
	again := build(t, "overrides:\n- {rule: LeaseLost, set: {symptom_of: []}}\n", causePack)
	require.Equal(t, set.Rule("LeaseLost").Hash, again.Rule("LeaseLost").Hash)
	require.Empty(t, again.Rule("LeaseLost").Causes)
	require.NotNil(t, again.Rule("LeaseLost").PackRule, "the tests are about the rule of the pack")
	require.Nil(t, set.Rule("LeaseLost").PackRule)
}

func TestOverridesOfTextsAndKey(t *testing.T) {
	set := build(t, `overrides:
- rule: LeaseLost
  set:
    labels: {team: storage, tier: "", shard: "{{ $labels.pod }}"}
    annotations: {summary: "mine {{ $labels.pod }}", wiki: here}
    runbook_url: https://c.example/d
- rule: LeaseLost
  set: {by: [pod], labels: {shard: two}, symptom_of: []}
`, causePack)
	r := set.Rule("LeaseLost")
	source := func(all []NamedTemplate) map[string]string {
		out := map[string]string{}
		for _, x := range all {
			out[x.Name] = x.Template.Source()
		}
		return out
	}
	require.Equal(t, map[string]string{"team": "storage", "tier": "", "shard": "two"}, source(r.Labels))
	require.Equal(t, map[string]string{"summary": "mine {{ $labels.pod }}", "description": "stays", "wiki": "here"}, source(r.Annotations))
	require.Equal(t, "https://c.example/d", r.Remediation.RunbookURL)
	require.Equal(t, "restart it", r.Remediation.Summary.Source())
	require.Equal(t, []string{"pod"}, r.By)
	require.Equal(t, []string{"pod"}, r.Clear.Same)
	require.Equal(t, "override f0.yaml:4", r.SetBy()["labels.team"][:len("override f0.yaml:4")])
	require.Contains(t, r.SetBy()["annotations.wiki"], "override f0.yaml:5")
	require.Contains(t, r.SetBy()["remediation.runbook_url"], "override f0.yaml:6")
	require.Contains(t, r.SetBy()["by"], "override f0.yaml:8")
	require.NotEqual(t, r.PackRule.Hash, r.Hash, "another key has other episodes")
	require.Equal(t, []string{"namespace", "pod"}, r.PackRule.By)
	other := set.Rule("StoreSlow")
	require.Equal(t, map[string]string{"team": "base", "tier": "one"}, source(other.Labels), "rules share no map")
	require.Nil(t, other.PackRule)

	// A rule without a remediation gets the link alone.
	set = build(t, "overrides:\n- {rule: StoreSlow, set: {runbook_url: 'https://c.example/d'}}\n", causePack)
	require.Equal(t, "https://c.example/d", set.Rule("StoreSlow").Remediation.RunbookURL)
	require.Equal(t, build(t, causePack).Rule("StoreSlow").Hash, set.Rule("StoreSlow").Hash)
}

// What an override of a key breaks is a problem of the override.
func TestOverrideOfAKeyIsBlamed(t *testing.T) {
	f := func(overrides, want string) {
		t.Helper()
		ps := checkAll([]File{{Name: "a.yaml", Data: []byte(causePack)}, {Name: "b.yaml", Data: []byte("overrides:\n" + overrides)}}, Options{})
		require.Equal(t, want, findings(ps.Errors()), "%s", ps.Error())
		for _, p := range ps.Errors() {
			require.Equal(t, "b.yaml", p.File, "%s", p)
			require.Contains(t, p.Message, "a.yaml:", "%s", p)
		}
	}
	f("- {rule: LeaseLost, set: {by: [pod]}}\n", "2 no-shared-label")
	f("- {rule: LeaseLost, set: {by: [namespace]}}\n", "2 annotation-template")
	f("- {rule: StoreSlow, set: {by: [node]}}\n", "2 no-shared-label")
}
