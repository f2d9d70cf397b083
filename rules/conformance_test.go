package rules

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/rules/rulefiles"
)

// conformance is where packs with inline tests of the language lie, if they are
// there.
const conformance = "../../shared/conformance"

// later reports whether a pack uses what the language does not have yet.
func later(file string) bool {
	name := filepath.Base(file)
	return strings.HasPrefix(name, "ext-") && name != "ext-identity.yaml"
}

func TestConformancePacksLoad(t *testing.T) {
	if _, err := os.Stat(conformance); err != nil {
		t.Skip("no conformance packs")
	}
	files, problems := rulefiles.ReadPaths([]string{conformance})
	require.Empty(t, problems)
	var docs []*Document
	for _, f := range files {
		if later(f.Name) {
			continue
		}
		d, ps := Parse(f)
		require.Empty(t, ps.Errors(), "%s", ps.Errors().Error())
		docs = append(docs, d)
	}
	set, ps := Build(docs, Options{Version: "0.1.0"})
	require.Empty(t, ps.Errors(), "%s", ps.Errors().Error())
	require.Len(t, set.Rules, 13)
	t.Log(set.Warnings.Error())
}

func TestShippedPacksLoad(t *testing.T) {
	set, err := Load(Shipped())
	require.NoError(t, err)
	require.NotEmpty(t, set.Rules)
}
