package rules

import (
	"slices"
	"strconv"
	"strings"

	"crowsnest/rules/internal/expr"
	"crowsnest/rules/template"
)

// possibleCaptures returns the sorted names that a matcher may capture.
func possibleCaptures(m Matcher) []string {
	out := expr.Groups(m.Regex)
	for _, f := range m.Fields {
		out = append(out, expr.Groups(f.Regex)...)
	}
	for _, a := range m.Any {
		out = append(out, possibleCaptures(a)...)
	}
	return sortedUnique(out)
}

// StepCaptures returns the names that step i, counted from 0, may capture from a line. In a sequence, each name also
// occurs with the number of the step, such as name_2.
func (r *Rule) StepCaptures(i int) []string {
	names := possibleCaptures(r.Steps[i].Matcher)
	if r.Sequence {
		for _, n := range slices.Clone(names) {
			names = append(names, n+"_"+strconv.Itoa(i+1))
		}
	}
	return names
}

// Captures returns the names that the matcher may capture from a line.
func (a *ClearOrUnless) Captures() []string { return possibleCaptures(a.Matcher) }

// captureWidth returns how much text a matcher can capture under the name. The value of a field has an end, so a group
// in a field is limited unless it is .* itself.
func captureWidth(m Matcher, name string) expr.Width {
	w := expr.Narrow
	if m.Regex != nil {
		w = expr.GroupWidth(m.Regex, name)
	}
	for _, f := range m.Fields {
		if f.Regex != nil && expr.GroupWidth(f.Regex, name) == expr.Unlimited {
			w = expr.Unlimited
		}
	}
	for _, a := range m.Any {
		w = max(w, captureWidth(a, name))
	}
	return w
}

func capturedNames(r *Rule) []string {
	out := slices.Clone(r.By)
	add := func(names ...string) {
		for _, n := range names {
			if n != "" && !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	add(r.DistinctName())
	for _, s := range r.Steps {
		add(s.Differs...)
	}
	for _, t := range ruleTemplates(r) {
		if t.UsesError() {
			for _, s := range r.Steps {
				for _, name := range possibleCaptures(s.Matcher) {
					if slices.Contains(template.ErrorNames[:], name) {
						add(name)
					}
				}
			}
		}
		for _, name := range t.Vars() {
			add(name)
			if r.Sequence {
				add(withoutStep(name))
			}
		}
	}
	if len(r.Remediation.Affects) > 0 {
		add("image")
	}
	return out
}

// withoutStep returns "name" for "name_2", which is the value of name in step 2. It returns "" for a name without the
// number of a step.
func withoutStep(name string) string {
	i := strings.LastIndexByte(name, '_')
	if i < 1 {
		return ""
	}
	if n, err := strconv.Atoi(name[i+1:]); err != nil || n < 1 || name[i+1] == '0' || name[i+1] == '+' {
		return ""
	}
	return name[:i]
}

// ruleTemplates returns the templates of a rule that may use $vars.
func ruleTemplates(r *Rule) []*Template {
	var out []*Template
	for _, a := range r.Annotations {
		out = append(out, a.Template)
	}
	if r.Remediation.Summary != nil {
		out = append(out, r.Remediation.Summary)
	}
	return append(out, r.Remediation.Steps...)
}
