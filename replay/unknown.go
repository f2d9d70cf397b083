package replay

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/strictyaml"
)

// UnknownLabels returns a warning for each rule whose `from` requires a label that is neither
// in known nor in the streams of the rule's tests. Such a rule probably never matches.
func UnknownLabels(all []*rules.Rule, known []string) (out rules.Problems) {
	known = slices.Compact(slices.Sorted(slices.Values(slices.Concat(known, rules.DefaultIdentity, matcher.DefaultIgnoreLabels))))
	for _, r := range all {
		set := slices.Clone(known)
		for _, t := range r.Tests {
			set = slices.AppendSeq(set, maps.Keys(t.Stream))
			for _, in := range t.Input {
				if in.Cause == "" {
					set = slices.AppendSeq(set, maps.Keys(in.Labels))
				}
			}
		}
		check := func(from rules.Selector, pos strictyaml.Pos) {
			for _, m := range from.Matchers() {
				if pos.IsZero() || m.Matches("") || slices.Contains(set, m.Name) {
					continue
				}
				out = append(out, pos.Problem(strictyaml.Warning, "unknown-label",
					fmt.Sprintf("`from` requires the label `%s`, which no source sets by itself", m.Name),
					"use one of "+strings.Join(known, ", ")+"; or add a test whose stream has the label, if the configuration of a source sets it"))
			}
		}
		check(r.From, r.FromAt)
		for _, part := range []*rules.ClearOrUnless{r.Clear, r.Unless} {
			if part != nil && !part.From.Equal(r.From) {
				check(part.From, part.At)
			}
		}
	}
	return out
}
