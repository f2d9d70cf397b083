package rules

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/rules/rulefiles"
)

// conformance is where packs with inline tests of the language lie, if they are
// there.
const conformance = "../../shared/conformance"

func TestConformancePacksLoad(t *testing.T) {
	if _, err := os.Stat(conformance); err != nil {
		t.Skip("no conformance packs")
	}
	files, problems := rulefiles.ReadPaths([]string{conformance})
	require.Empty(t, problems)
	var docs []*Document
	for _, f := range files {
		d, ps := Parse(f)
		require.Empty(t, ps.Errors(), "%s", ps.Errors().Error())
		docs = append(docs, d)
	}
	set, ps := Build(docs, Options{Version: "0.1.0"})
	require.Empty(t, ps.Errors(), "%s", ps.Errors().Error())
	require.NotEmpty(t, set.Rules)
	t.Log(set.Warnings.Error())
}

func TestShippedPacksLoad(t *testing.T) {
	set, err := Load(Shipped())
	require.NoError(t, err)
	require.NotEmpty(t, set.Rules)
}
