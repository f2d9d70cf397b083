package rules

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

// possibleCaptures returns the sorted names that a matcher may capture.
func possibleCaptures(m Matcher) []string {
	out := ownCaptures(m)
	for _, a := range m.Any {
		out = append(out, possibleCaptures(a)...)
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

// stepCaptures returns the names that step i of a rule, counted from 0, may
// capture. In a sequence each name is also listed with the step's number.
func stepCaptures(r *Rule, i int) []string {
	names := possibleCaptures(r.Steps[i].Matcher)
	if r.Sequence {
		for _, n := range slices.Clone(names) {
			names = append(names, n+"_"+strconv.Itoa(i+1))
		}
	}
	return names
}

// duplicateGroup returns a group name that an expression has twice, "" if none.
// exclusive is true if a match can use only one of the two groups.
func duplicateGroup(expr string) (name string, exclusive bool) {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return "", false
	}
	seen := map[string]bool{}
	for _, n := range re.CapNames() {
		if n != "" && seen[n] {
			return n, maxTogether(re, n) < 2
		}
		seen[n] = true
	}
	return "", false
}

// maxTogether returns how many groups of this name one match can use.
func maxTogether(re *syntax.Regexp, name string) int {
	n := 0
	for _, sub := range re.Sub {
		k := maxTogether(sub, name)
		if re.Op == syntax.OpAlternate {
			n = max(n, k)
		} else {
			n += k
		}
	}
	if re.Op == syntax.OpCapture && re.Name == name {
		n++
	}
	return n
}

// width is how much text a group can capture.
type width int

const (
	narrow    width = iota
	wide            // contains .* or .+, so it extends to some later text
	unlimited       // is .*, so it captures any text
)

// groupWidth returns how much the named group of an expression captures.
func groupWidth(re *syntax.Regexp, name string) width {
	if re.Op != syntax.OpCapture || re.Name != name {
		w := narrow
		for _, s := range re.Sub {
			w = max(w, groupWidth(s, name))
		}
		return w
	}
	sub := re.Sub[0]
	for sub.Op == syntax.OpCapture {
		sub = sub.Sub[0]
	}
	switch {
	case sub.Op == syntax.OpStar && isAnyChar(sub.Sub[0]):
		return unlimited
	case hasAnyRun(sub):
		return wide
	}
	return narrow
}

func isAnyChar(re *syntax.Regexp) bool {
	return re.Op == syntax.OpAnyChar || re.Op == syntax.OpAnyCharNotNL
}

// hasAnyRun reports whether re contains .* or .+.
func hasAnyRun(re *syntax.Regexp) bool {
	if (re.Op == syntax.OpStar || re.Op == syntax.OpPlus) && isAnyChar(re.Sub[0]) {
		return true
	}
	return slices.ContainsFunc(re.Sub, hasAnyRun)
}

// captureWidth returns how much a matcher can capture under the name. A field
// has an end of its own, so only a group of .* counts for it.
func captureWidth(m Matcher, name string) width {
	w := narrow
	if m.Regex != nil {
		w = exprWidth(m.Regex, name)
	}
	for _, f := range m.Fields {
		if f.Regex != nil && exprWidth(f.Regex, name) == unlimited {
			w = unlimited
		}
	}
	for _, a := range m.Any {
		w = max(w, captureWidth(a, name))
	}
	return w
}

func exprWidth(re *regexp.Regexp, name string) width {
	parsed, err := syntax.Parse(re.String(), syntax.Perl)
	if err != nil {
		return narrow
	}
	return groupWidth(parsed, name)
}

// capturedNames returns the names whose values a hit carries; see
// Rule.CapturedNames.
func capturedNames(r *Rule) []string {
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

// withoutStep returns "name" for "name_2", the value of name at step 2, and "" for
// a name without a step's number.
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
