package rules_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
	"crowsnest/rules/rulefiles"
)

// TestReleased loads the shipped packs as parts of a program: the lint, which is left out
// then, has nothing to report, and without its tests each pack has the same rules at the
// same lines.
func TestReleased(t *testing.T) {
	files, err := rulefiles.ReadFS(rules.Shipped())
	require.NoError(t, err)
	var whole, short []*rules.Document
	for _, f := range files {
		d, problems := rules.Parse(f)
		require.Empty(t, problems)
		whole = append(whole, d)
		f.Released, f.WithoutTests = true, true
		d, problems = rules.Parse(f)
		require.Empty(t, problems, f.Name)
		short = append(short, d)
	}
	want, problems := rules.Build(whole, rules.Options{})
	require.Empty(t, problems.Errors())
	got, problems := rules.Build(short, rules.Options{})
	require.Empty(t, problems.Errors())
	require.Len(t, got.Rules, len(want.Rules))
	require.Equal(t, want.Warnings, got.Warnings)
	for i, p := range got.Packs {
		require.Equal(t, want.Packs[i].SHA256, p.SHA256, p.Name)
	}
	for i, r := range got.Rules {
		w := want.Rules[i]
		require.Equal(t, w.Alert, r.Alert)
		require.Equal(t, w.Hash, r.Hash, r.Alert)
		require.Equal(t, w.MatchHash(), r.MatchHash(), r.Alert)
		require.Equal(t, w.Source, r.Source, r.Alert)
		delete(w.SetBy(), "tests")
		require.Equal(t, w.SetBy(), r.SetBy(), r.Alert)
		require.Equal(t, w.MaxLineTime(), r.MaxLineTime(), r.Alert)
		require.Equal(t, w.Line, r.Line, r.Alert)
		require.Equal(t, w.Severity, r.Severity, r.Alert)
		require.NotEmpty(t, w.Tests, r.Alert)
		require.Empty(t, r.Tests, r.Alert)
	}
}
