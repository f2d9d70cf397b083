package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"crowsnest/internal/strictyaml"
)

// lintShipped checks the additional requirements for the packs of this repository.
func lintShipped(f *form, r *Rule) Problems {
	var out Problems
	add := func(check, message, fix string) {
		out = append(out, f.newProblem(f.at, strictyaml.Error, check, message, fix))
	}
	positive, negative := false, false
	for i := range r.Tests {
		p, n := expectsAlert(&r.Tests[i])
		positive, negative = positive || p, negative || n
	}
	if !positive {
		add("no-positive-test", "the rule has no test that expects an alert", "add a test with a line as it was logged, and a checkpoint that lists the alert")
	}
	if !negative {
		add("no-negative-test", "the rule has no test in which lines raise no alert", "add a test with a similar line, and a checkpoint with firing: none")
	}
	if positive {
		for _, m := range untestedBranches(r) {
			add("untested-shape", "no test that expects an alert has a line for "+m, "add a test for each branch")
		}
	}
	return out
}

// expectsAlert reports whether a test expects an alert (positive), and whether it expects none after a line (negative).
func expectsAlert(t *Test) (positive, negative bool) {
	first := time.Duration(-1)
	for _, in := range t.Input {
		if in.Text != "" && (first < 0 || in.At < first) {
			first = in.At
		}
	}
	for _, e := range t.Expect {
		positive = positive || len(e.Firing) > 0 || len(e.Resolved) > 0
		negative = negative || e.None && first >= 0 && e.At >= first
	}
	return positive, negative
}

// untestedBranches returns the names of the branches of `any` that no line of a positive test matches. For a condition
// on a field, it only checks that the line contains the name of the field.
func untestedBranches(r *Rule) []string {
	var out []string
	for i, s := range r.Steps {
		for j, branch := range s.Matcher.Any {
			like := func(in Input) bool { return looksLike(in.Text, branch) }
			tested := slices.ContainsFunc(r.Tests, func(t Test) bool {
				positive, _ := expectsAlert(&t)
				return positive && slices.ContainsFunc(t.Input, like)
			})
			if !tested {
				name := fmt.Sprintf("branch %d of `any`", j+1)
				if r.Sequence {
					name += fmt.Sprintf(" in step %d", i+1)
				}
				out = append(out, name)
			}
		}
	}
	return out
}

func looksLike(line string, m Matcher) bool {
	for _, text := range m.Contains {
		if !strings.Contains(line, text) {
			return false
		}
	}
	if m.Regex != nil && !m.Regex.MatchString(line) {
		return false
	}
	for _, f := range m.Fields {
		if first, _, _ := strings.Cut(f.Name, "."); first != "msg" && !strings.Contains(line, first) {
			return false
		}
	}
	return len(m.Any) == 0 || slices.ContainsFunc(m.Any, func(a Matcher) bool { return looksLike(line, a) })
}
