//go:build !race

package loki

import (
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
	"crowsnest/rules/rulefiles"
)

// For every rule of the shipped packs and of the language: the queries return each line of its
// tests that it matches, and the line has the same hits.
func TestFilterIsSound(t *testing.T) {
	files, problems := rulefiles.ReadPaths([]string{"../../rules/packs", "../../testdata/language"})
	require.Empty(t, problems.Errors())
	n := 0
	for _, file := range files {
		doc, problems := rules.Parse(file)
		if doc.IsOverrides() || len(problems.Errors()) > 0 {
			continue
		}
		set, problems := rules.Build([]*rules.Document{doc}, rules.Options{})
		require.Empty(t, problems.Errors(), file.Name)
		n += soundFor(t, set)
	}
	require.Greater(t, n, 300)
}
