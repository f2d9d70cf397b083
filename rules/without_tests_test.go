package rules_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
	"crowsnest/rules/rulefiles"
)

// Without its tests, each shipped pack has the same rules at the same lines.
func TestWithoutTests(t *testing.T) {
	files, err := rulefiles.ReadFS(rules.Shipped())
	require.NoError(t, err)
	var whole, short []*rules.Document
	for _, f := range files {
		stripped := rules.WithoutTests(f.Data)
		require.Equal(t, bytes.Count(f.Data, []byte("\n")), bytes.Count(stripped, []byte("\n")), f.Name)
		require.NotContains(t, string(stripped), "  tests:", f.Name)
		d, problems := rules.Parse(f)
		require.Empty(t, problems)
		whole = append(whole, d)
		d, problems = rules.Parse(rules.File{Name: f.Name, Data: stripped})
		require.Empty(t, problems, f.Name)
		short = append(short, d)
	}
	want, problems := rules.Build(whole, rules.Options{})
	require.Empty(t, problems.Errors())
	got, problems := rules.Build(short, rules.Options{})
	require.Empty(t, problems.Errors())
	require.Len(t, got.Rules, len(want.Rules))
	for i, r := range got.Rules {
		w := want.Rules[i]
		require.Equal(t, w.Alert, r.Alert)
		require.Equal(t, w.Hash, r.Hash, r.Alert)
		require.Equal(t, w.Line, r.Line, r.Alert)
		require.Equal(t, w.Severity, r.Severity, r.Alert)
		require.NotEmpty(t, w.Tests, r.Alert)
		require.Empty(t, r.Tests, r.Alert)
	}
}

func TestWithoutTestsKeepsKeysBehindThem(t *testing.T) {
	const pack = "pack: {name: p, rules: 2, tests: 12, version: 1.0.0}\nrules:\n- alert: A\n  tests:\n  - name: x\n\n  # a comment\n    input: [{at: 0s}]\n  severity: info\n# of B\n- alert: B\n  tests: []\n"
	require.Equal(t,
		"pack: {name: p, rules: 2, version: 1.0.0}\nrules:\n- alert: A\n\n\n\n\n\n  severity: info\n# of B\n- alert: B\n\n",
		string(rules.WithoutTests([]byte(pack))))
}
