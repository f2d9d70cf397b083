package replay

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
	"crowsnest/rules/rulefiles"
)

// load parses every pack of a folder.
func load(t *testing.T, dir string) *rules.Set {
	t.Helper()
	set, err := rules.Load(os.DirFS(dir))
	require.NoError(t, err)
	return set
}

// run runs the inline tests of a folder and reports each failure.
func run(t *testing.T, dir string) {
	t.Helper()
	runSet(t, load(t, dir))
}

func runSet(t *testing.T, set *rules.Set) {
	t.Helper()
	report, err := RunTests(set.Rules, TestOptions{})
	require.NoError(t, err)
	require.NotEmpty(t, report.Results)
	for _, r := range report.Results {
		for _, f := range r.Failures {
			t.Errorf("%s:%d: %s / %s\n%s", r.File, r.Line, r.Rule, r.Test, f)
		}
	}
}

// TestLanguage pins the rule language: the name of each test says what it pins.
func TestLanguage(t *testing.T) { run(t, "../testdata/language") }

// TestConformance runs the packs of the specification.
func TestConformance(t *testing.T) {
	dir := "../../shared/conformance"
	if _, err := os.Stat(dir); err != nil {
		t.Skip("no conformance packs beside this checkout")
	}
	files, problems := rulefiles.ReadPaths([]string{dir})
	require.Empty(t, problems)
	var docs []*rules.Document
	for _, f := range files {
		d, problems := rules.Parse(f)
		require.Empty(t, problems.Errors())
		docs = append(docs, d)
	}
	set, problems := rules.Build(docs, rules.Options{Version: "0.1.0"})
	require.Empty(t, problems.Errors())
	runSet(t, set)
}
