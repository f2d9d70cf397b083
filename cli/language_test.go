package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/rules/schema"
	"crowsnest/rules/template"
)

// docs/language.md has each key of the language with its description, and each function of templates.
func TestLanguagePage(t *testing.T) {
	page, err := os.ReadFile("../docs/language.md")
	require.NoError(t, err)
	type definition struct {
		Description string                `json:"description"`
		Properties  map[string]definition `json:"properties"`
		AnyOf       []definition          `json:"anyOf"`
	}
	data, err := schema.Rules()
	require.NoError(t, err)
	var root struct {
		Defs map[string]definition `json:"$defs"`
	}
	require.NoError(t, json.Unmarshal(data, &root))
	require.NotEmpty(t, root.Defs)
	rows := strings.Split(string(page), "\n")
	escape := strings.NewReplacer("<", "&lt;", "*", `\*`, "_", `\_`, "|", `\|`)
	for name, def := range root.Defs {
		for _, form := range append(def.AnyOf, def) {
			for key, property := range form.Properties {
				if property.Description == "As in a rule." {
					require.Contains(t, string(page), "`"+key+"`", name)
					continue
				}
				found := false
				for _, row := range rows {
					found = found || strings.HasPrefix(row, "| `"+key+"` | ") && strings.HasSuffix(row, " | "+escape.Replace(property.Description)+" |")
				}
				require.True(t, found, fmt.Sprintf("%s.%s: %s", name, key, property.Description))
			}
		}
	}
	for _, name := range template.Functions() {
		require.Contains(t, string(page), "`"+name+"`")
	}
}
