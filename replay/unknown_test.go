package replay

import (
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
)

func TestUnknownLabels(t *testing.T) {
	f := func(rule, tests string, want ...int) {
		t.Helper()
		doc, problems := rules.Parse(rules.File{Name: "pack.yaml", Data: []byte("pack: {name: p, rules: 1}\nrules:\n- alert: A\n  severity: info\n  match: abcd\n" + rule + tests)})
		require.Empty(t, problems.Errors())
		set, problems := rules.Build([]*rules.Document{doc}, rules.Options{})
		require.Empty(t, problems.Errors())
		var got []int
		for _, p := range UnknownLabels(set.Rules, []string{"container", "pod"}) {
			require.Equal(t, "unknown-label", p.Check)
			got = append(got, p.Line)
		}
		require.Equal(t, want, got)
	}
	tests := "  tests:\n  - stream: {contianer: x}\n    input: [{at: 0s, line: x, labels: {team: b}}]\n    expect: [{at: 1s, firing: none}]\n"
	f("  from: '{container=\"x\", cluster=\"y\", job=~\".+\"}'\n", "")
	f("  from: '{contianer=\"x\"}'\n", "", 6)
	f("  from: '{contianer=\"x\", team=\"b\"}'\n", tests)
	f("  from: '{container=\"x\", team!=\"b\", app=~\".*\"}'\n", "")
	f("  from: '{container=\"x\"}'\n  clear: {contains: efgh, from: '{contianer=\"x\"}'}\n", "", 7)
}
