package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// unfinished matches what a missing value must not leave in a text: double spaces, spaces before
// punctuation, empty quotes and brackets, and prepositions and articles without a noun.
var unfinished = regexp.MustCompile(`  | [,;.:!?)](?:\s|$)|""|''|` + "``" + `|\(\s?\)|\[\s?\]|<no value>|\x00|\{\{|[,;:(]$|[,:;][,;.)]|^[\s,;.:)]|` +
	`(?i)\b(?:in|of|on|for|from|to|by|with|at|into|via|between|because|the|a|an|and|or|per|is|are|was)(?: (?:of|for|at|into|via|because|and|or|per|is|has|cannot|was|fails)\b|[.,;:)]|$)`)

// Every text of every shipped rule reads as sentences, whichever of its values are missing.
func TestShippedTextsWithoutValues(t *testing.T) {
	set, err := Load(Shipped())
	require.NoError(t, err)
	plain := func(s string) string { return s }
	for _, r := range set.Rules {
		texts := map[string]*Template{}
		for _, a := range r.Annotations {
			texts[a.Name] = a.Template
		}
		if r.Remediation.Summary != nil {
			texts["remediation"] = r.Remediation.Summary
		}
		for name, tmpl := range texts {
			names := sortedUnique(slices.Concat(tmpl.Labels(), tmpl.Vars()))
			render := func(without ...string) string {
				data := TemplateData{Labels: map[string]string{}, Vars: map[string]string{}, Value: 7, Line: "E0101 a line"}
				for _, n := range names {
					if !slices.Contains(without, n) {
						data.Labels[n], data.Vars[n] = "x7", "x7"
					}
				}
				text, ok := tmpl.ExecuteText(data, plain)
				require.True(t, ok)
				return text
			}
			complete := render()
			cases := [][]string{names}
			for _, n := range names {
				cases = append(cases, []string{n})
			}
			for _, without := range cases {
				text := render(without...)
				for _, at := range unfinished.FindAllStringIndex(text, -1) {
					if bad := text[at[0]:at[1]]; !strings.Contains(complete, bad) { // else the rule says it, whatever its values
						t.Errorf("%s: %s without %v: %q in ...%s...", r.Alert, name, without, bad, text[max(0, at[0]-40):min(len(text), at[1]+40)])
					}
				}
			}
		}
		for i, tmpl := range r.Remediation.Steps {
			require.NotContains(t, tmpl.DocumentText(strings.ToUpper, plain), "{{", fmt.Sprint(r.Alert, i))
		}
	}
}
