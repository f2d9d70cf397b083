package rules

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

// possibleCaptures returns the names that a matcher may capture, sorted.
func possibleCaptures(m Matcher) []string {
	out := ownCaptures(m)
	for _, a := range m.Any {
		out = append(out, possibleCaptures(a)...)
	}
	return sortedUnique(out)
}

// sureCaptures returns the names that every branch of a matcher captures.
func sureCaptures(m Matcher) []string {
	out := ownCaptures(m)
	for i, a := range m.Any {
		if i > 0 {
			break
		}
		for _, name := range sureCaptures(a) {
			if !slices.ContainsFunc(m.Any, func(b Matcher) bool { return !contains(sureCaptures(b), name) }) {
				out = append(out, name)
			}
		}
	}
	return sortedUnique(out)
}

func ownCaptures(m Matcher) []string {
	out := groupNames(m.Regex)
	for _, f := range m.Fields {
		out = append(out, groupNames(f.Regex)...)
	}
	return out
}

func groupNames(re *regexp.Regexp) []string {
	if re == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(re.SubexpNames()), func(s string) bool { return s == "" })
}

// stepCaptures returns what step i, from 0, of a rule may capture: in a sequence
// also under the step's number.
func stepCaptures(r *Rule, i int) []string {
	names := possibleCaptures(r.Steps[i].Matcher)
	if r.Sequence {
		for _, n := range slices.Clone(names) {
			names = append(names, n+"_"+strconv.Itoa(i+1))
		}
	}
	return names
}

// catchAll tells whether the named group of an expression is `.*`, so that it
// captures anything.
func catchAll(re *regexp.Regexp, name string) bool {
	if re == nil {
		return false
	}
	parsed, err := syntax.Parse(re.String(), syntax.Perl)
	return err == nil && catchAllIn(parsed, name)
}

func catchAllIn(re *syntax.Regexp, name string) bool {
	if re.Op == syntax.OpCapture && re.Name == name {
		return isCatchAll(re.Sub[0])
	}
	return slices.ContainsFunc(re.Sub, func(s *syntax.Regexp) bool { return catchAllIn(s, name) })
}

// isCatchAll tells whether re is .* or made of it.
func isCatchAll(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpCapture:
		return isCatchAll(re.Sub[0])
	case syntax.OpStar:
		return re.Sub[0].Op == syntax.OpAnyChar || re.Sub[0].Op == syntax.OpAnyCharNotNL
	}
	return false
}

// capturedByAnything tells whether a matcher captures the name by `.*`.
func capturedByAnything(m Matcher, name string) bool {
	if catchAll(m.Regex, name) || slices.ContainsFunc(m.Fields, func(f Field) bool { return catchAll(f.Regex, name) }) {
		return true
	}
	return slices.ContainsFunc(m.Any, func(a Matcher) bool { return capturedByAnything(a, name) })
}

// wants lists the names whose values a hit carries; see Rule.Wants.
func wants(r *Rule) []string {
	out := slices.Clone(r.By)
	add := func(names ...string) {
		for _, n := range names {
			if n != "" && !contains(out, n) {
				out = append(out, n)
			}
		}
	}
	add(r.Distinct)
	for _, s := range r.Steps {
		add(s.Differs...)
	}
	for _, t := range templatesOf(r) {
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

// withoutStep returns the name of which name_2 is the value at step 2, or "".
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

// templatesOf returns every template that may use $vars.
func templatesOf(r *Rule) []*Template {
	var out []*Template
	for _, a := range r.Annotations {
		out = append(out, a.Template)
	}
	if r.Remediation.Summary != nil {
		out = append(out, r.Remediation.Summary)
	}
	return append(out, r.Remediation.Steps...)
}
