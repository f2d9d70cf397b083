package replay

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"crowsnest/episodes"
	"crowsnest/internal/strictyaml"
	"crowsnest/matcher"
	"crowsnest/rules"
)

// Untested returns a warning for each `clear` and `unless` of a pack that no line in the rule's tests matches. It
// returns an error if a rule cannot be compiled.
func Untested(all []*rules.Rule) (rules.Problems, error) {
	type outcome struct {
		problems rules.Problems
		err      error
	}
	var out rules.Problems
	for _, o := range runParallel(len(all), func(i int) (o outcome) {
		o.problems, o.err = untestedParts(all[i])
		return o
	}) {
		if o.err != nil {
			return nil, o.err
		}
		out = append(out, o.problems...)
	}
	return out, nil
}

func untestedParts(r *rules.Rule) (out rules.Problems, err error) {
	missing := map[matcher.Part]bool{}
	if r.Clear != nil && !r.Clear.Pos.IsZero() {
		missing[matcher.PartClear] = true
	}
	if r.Unless != nil && !r.Unless.Pos.IsZero() {
		missing[matcher.PartUnless] = true
	}
	if len(missing) == 0 {
		return nil, nil
	}
	if err := dropTested(missing, r); err != nil {
		return nil, err
	}
	message := fmt.Sprintf("no line in the tests of rule %s matches", r.Alert)
	if missing[matcher.PartClear] {
		out = append(out, r.Clear.Pos.Problem(strictyaml.Warning, "untested-clear", message+" `clear`", "add a test with the line that ends the failure, as it was logged"))
	}
	if missing[matcher.PartUnless] {
		out = append(out, r.Unless.Pos.Problem(strictyaml.Warning, "untested-unless", message+" `unless`", "add a test with the muting line, as it was logged"))
	}
	return out, nil
}

// dropTested removes from missing the parts of a rule that a line in its tests matches.
func dropTested(missing map[matcher.Part]bool, r *rules.Rule) error {
	set, program, err := ruleAlone(r)
	if err != nil {
		return err
	}
	for _, t := range r.Tests {
		s := newSession(set, program, testStart, episodes.Config{})
		drop := func(hits []matcher.Hit) {
			for _, h := range hits {
				delete(missing, h.Part)
			}
		}
		for _, st := range testSteps(t) {
			if len(missing) == 0 {
				return nil
			}
			if st.in.Source != "" || st.in.Do != "" || st.in.Cause != "" {
				continue
			}
			labels, text := stepLine(t, st)
			drop(program.Match(s.findStream(labels), matcher.Record{Time: testStart.Add(st.ts), Text: []byte(text)}))
		}
		for _, stream := range s.streams {
			drop(program.Flush(stream, testStart))
		}
	}
	return nil
}

// UnknownLabels returns a warning for each rule whose `from` requires a label that occurs neither in known nor in the
// streams of the rule's tests. Such a rule probably never matches.
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
				check(part.From, part.Pos)
			}
		}
	}
	return out
}
