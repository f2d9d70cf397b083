package rules

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Files that are loaded beside the shipped packs have the same effect, and the same problems
// with the same places, whether these were compiled or parsed.
func TestCompiledWithOthers(t *testing.T) {
	const pack = "pack: {name: mine, rules: 1}\nrules:\n- alert: Mine\n  from: '{container=\"mine\"}'\n  match: a text of mine\n  severity: info\n  annotations: {summary: s}\n  by: [pod]\n"
	parsed, compiled := shippedDocuments(t, "shipped:"), compiledDocuments(t, "shipped:")
	checks := map[string]bool{}
	f := func(opt Options, texts ...string) {
		t.Helper()
		build := func(docs []*Document) (*Set, Problems) {
			docs = slices.Clone(docs)
			for i, text := range texts {
				d, _ := Parse(File{Name: "f" + string(rune('0'+i)) + ".yaml", Data: []byte(text)})
				docs = append(docs, d)
			}
			return Build(docs, opt)
		}
		want, wantProblems := build(parsed)
		got, gotProblems := build(compiled)
		require.Equal(t, wantProblems, gotProblems)
		for _, p := range gotProblems {
			checks[p.Check] = true
		}
		require.Equal(t, want == nil, got == nil)
		if want == nil {
			return
		}
		require.Equal(t, want.Warnings, got.Warnings)
		require.Equal(t, len(want.Rules), len(got.Rules), "number of rules; run make compiled")
		for i, r := range got.Rules {
			w := want.Rules[i]
			sameRule(t, w, r)
			require.Equal(t, w.PackRule == nil, r.PackRule == nil)
			if w.PackRule != nil {
				sameRule(t, w.PackRule, r.PackRule)
			}
		}
		for i, p := range got.Packs {
			require.Equal(t, "", difference(p.Name, reflect.ValueOf(*want.Packs[i]), reflect.ValueOf(*p)))
		}
	}
	overrides := func(list string) string { return "overrides:\n" + list }
	f(Options{})
	f(Options{Version: "99.0.0"})
	f(Options{Version: "0.0.1"})
	f(Options{Shipped: true})
	f(Options{}, overrides("- {rule: \"*\", set: {severity: info}}\n"))
	f(Options{}, overrides("- {rule: \"*\", set: {labels: {team: a}, annotations: {wiki: b}, runbook_url: \"https://example.org\"}}\n"))
	f(Options{}, overrides("- {rule: \"*\", set: {by: [no_such_name]}}\n"))
	f(Options{}, overrides("- {rule: \"pack:etcd\", disable: \"not here\"}\n"), overrides("- {rule: \"Etcd*\", set: {enabled: silent}}\n"))
	f(Options{}, overrides("- {rule: EtcdOutOfSpac, disable: why}\n- {rule: \"pack:etc\", disable: why}\n"))
	f(Options{}, overrides("- rule: \"Etcd*\"\n  add_unless: {contains: maintenance begins, within: 10m}\n"))
	f(Options{}, overrides("- {rule: \"*\", set: {symptom_of: [EtcdOutOfSpace]}}\n"))
	f(Options{}, pack)
	f(Options{}, strings.ReplaceAll(pack, "name: mine", "name: etcd"))
	f(Options{}, strings.ReplaceAll(pack, "Mine", "EtcdOutOfSpace"))
	f(Options{}, strings.ReplaceAll(pack, "Mine", "etcdoutofspace"))
	f(Options{}, pack+"  symptom_of: [EtcdOutOfSpace, {alert: EtcdOutOfSpac, same: []}]\n")
	f(Options{}, pack+"  symptom_of: [{alert: EtcdOutOfSpace, same: [pod, cluster]}]\n")
	f(Options{}, pack+"  symptom_of: [{alert: EtcdOutOfSpace, same: []}]\n", overrides("- {rule: EtcdOutOfSpace, set: {symptom_of: [{alert: Mine, same: []}]}}\n"))
	f(Options{}, pack+"  symptom_of: [EtcdOutOfSpace]\n", overrides("- {rule: Mine, set: {by: [container]}}\n"))
	r := withText(t)
	f(Options{}, strings.ReplaceAll(strings.ReplaceAll(pack, "{container=\"mine\"}", r.From.String()), "a text of mine", r.Steps[0].Matcher.Contains[0]))
	for _, check := range []string{"shadowed", "duplicate-alert", "duplicate-pack", "no-such-rule", "requires", "unknown-cause", "no-shared-label", "same", "cause-circle"} {
		require.True(t, checks[check], "no case has the problem %s", check)
	}
}

// withText returns a shipped rule that matches a plain text.
func withText(t *testing.T) *Rule {
	t.Helper()
	for _, d := range compiledDocuments(t, "") {
		for _, r := range d.rules {
			if m := r.rule.Steps[0].Matcher; len(m.Contains) == 1 && m.Regex == nil && len(m.Fields)+len(m.Any) == 0 && !strings.ContainsAny(m.Contains[0], `:"'#{`) {
				return r.rule
			}
		}
	}
	t.Fatal("no shipped rule matches a plain text")
	return nil
}
