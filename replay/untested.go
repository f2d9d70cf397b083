package replay

import (
	"fmt"

	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/strictyaml"
)

// Untested returns a warning for each `clear` and `unless` that no line of the rule's tests
// matches. Parts that an override adds need no test. It returns an error if a rule cannot be
// compiled.
func Untested(all []*rules.Rule) (rules.Problems, error) {
	type outcome struct {
		problems rules.Problems
		err      error
	}
	var out rules.Problems
	for _, o := range runParallel(all, func(r *rules.Rule) (o outcome) {
		o.problems, o.err = untestedParts(r)
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
	if r.Clear != nil && !r.Clear.At.IsZero() {
		missing[matcher.PartClear] = true
	}
	if r.Unless != nil && !r.Unless.At.IsZero() {
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
		out = append(out, r.Clear.At.Problem(strictyaml.Warning, "untested-clear", message+" `clear`", "add a test with the line that ends the failure, as it was logged"))
	}
	if missing[matcher.PartUnless] {
		out = append(out, r.Unless.At.Problem(strictyaml.Warning, "untested-unless", message+" `unless`", "add a test with the muting line, as it was logged"))
	}
	return out, nil
}

// dropTested removes from missing the parts of a rule that a line of its tests matches.
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
