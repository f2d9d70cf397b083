package capture

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"crowsnest/discover"
	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/replay"
	"crowsnest/rules"
)

// matchesStep reports whether a line is one that `match` or a step of `sequence` matches.
func matchesStep(r *rules.Rule, l Line) bool {
	return slices.ContainsFunc(matcher.Explain(r, l.Labels, []byte(l.Text)).Parts, func(p matcher.PartExplanation) bool {
		return p.Part >= 0 && p.Matches()
	})
}

// Cause says which parts of the rule let the trigger line through, and what would have
// stopped it and did not, one thing a line.
func Cause(r *rules.Rule, t Test) []string {
	e := matcher.Explain(r, t.Trigger.Labels, []byte(t.Trigger.Text))
	var out []string
	for _, p := range e.Parts {
		if p.Part < 0 || !p.Matches() {
			continue
		}
		out = append(out, fmt.Sprintf("`%s` matches: %s", p.Name, strings.Join(held(p.Conditions), ", ")))
	}
	if r.Count > 1 {
		out = append(out, fmt.Sprintf("`count: %d` was reached within %s", r.Count, offset(r.Within)))
	}
	if r.For > 0 {
		out = append(out, "`for: "+offset(r.For)+"` passed without an end")
	}
	state := func(name string, a *rules.ClearOrUnless, part matcher.Part) {
		switch {
		case a == nil:
			out = append(out, "there is no `"+name+"`")
		case !seen(r, t, part):
			out = append(out, "no line of the test matches `"+name+"`")
		}
	}
	state("unless", r.Unless, matcher.PartUnless)
	state("clear", r.Clear, matcher.PartClear)
	return out
}

func seen(r *rules.Rule, t Test, part matcher.Part) bool {
	return slices.ContainsFunc(t.Input, func(in rules.Input) bool {
		return slices.ContainsFunc(matcher.Explain(r, t.Trigger.Labels, []byte(in.Text)).Parts, func(p matcher.PartExplanation) bool {
			return p.Part == part && p.Matches()
		})
	})
}

// held returns the conditions that hold, with the branch of `any` that does.
func held(all []matcher.Condition) (out []string) {
	for _, c := range all {
		if !c.Held {
			continue
		}
		switch c.Kind {
		case "any":
			for i, branch := range c.Conditions {
				if branch.Held {
					inner := branch.Conditions
					if len(inner) == 0 {
						inner = []matcher.Condition{branch}
					}
					out = append(out, fmt.Sprintf("branch %d of any (%s)", i+1, strings.Join(held(inner), ", ")))
					break
				}
			}
		case "not":
			out = append(out, "not, which the line does not have")
		case "contains":
			out = append(out, fmt.Sprintf("contains %q", c.Want))
		default:
			out = append(out, strings.TrimSpace(c.Kind+" "+c.Want))
		}
	}
	return out
}

// Fixes returns changes of the rule with which the false page does not fire and every other
// test passes as before. Each was tried.
func Fixes(r *rules.Rule, t Test, ep Episode) []string {
	var out []string
	for _, text := range phrases(r, string(t.Trigger.Text)) {
		if inTests(r, text) {
			continue
		}
		if x := without(r, text); passes(x, t) {
			out = append(out, fmt.Sprintf("`not: %q` in `match`", text))
			break
		}
	}
	if d := last(t.Test); ep.Reason == episodes.ReasonClear && r.Clear != nil && d >= r.For {
		longer := *r
		longer.For = d.Round(time.Minute) + time.Minute
		if passes(&longer, t) {
			out = append(out, "`for: "+offset(longer.For)+"`: this failure was over after "+offset(d))
		}
	}
	return out
}

// minPhrase is the minimum length of a text that distinguishes lines.
const minPhrase = 8

// phrases returns the fixed texts of a line without those that the rule requires.
func phrases(r *rules.Rule, line string) []string {
	all := discover.Phrases(line)
	for _, s := range r.Steps {
		for _, required := range contained(s.Matcher) {
			var rest []string
			for _, text := range all {
				rest = append(rest, strings.Split(text, required)...)
			}
			all = rest
		}
	}
	for i, text := range all {
		all[i] = strings.Trim(text, " ,.;:-()'\"")
	}
	return slices.DeleteFunc(all, func(text string) bool { return len(text) < minPhrase })
}

// contained returns the texts of `contains` of a matcher and its branches.
func contained(m rules.Matcher) []string {
	out := slices.Clone(m.Contains)
	for _, branch := range m.Any {
		out = append(out, contained(branch)...)
	}
	return out
}

func inTests(r *rules.Rule, text string) bool {
	return slices.ContainsFunc(r.Tests, func(t rules.Test) bool {
		return slices.ContainsFunc(t.Input, func(in rules.Input) bool { return strings.Contains(in.Text, text) })
	})
}

// without returns the rule with a text that its lines must not contain.
func without(r *rules.Rule, text string) *rules.Rule {
	x := *r
	x.Steps = slices.Clone(r.Steps)
	for i := range x.Steps {
		m := &x.Steps[i].Matcher
		not := rules.Matcher{Contains: []string{text}}
		if m.Not != nil {
			not = rules.Matcher{Any: []rules.Matcher{*m.Not, not}}
		}
		m.Not = &not
	}
	return &x
}

// passes reports whether a rule passes its tests and one more.
func passes(r *rules.Rule, t Test) bool {
	for _, one := range append(slices.Clone(r.Tests), t.Test) {
		if failures, err := replay.RunTest(r, one); err != nil || len(failures) > 0 {
			return false
		}
	}
	return true
}
