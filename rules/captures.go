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

// groupTwice returns a group name that an expression has twice, "" if none. apart
// tells that only one of both can take part in a match.
func groupTwice(expr string) (name string, apart bool) {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return "", false
	}
	seen := map[string]bool{}
	for _, n := range re.CapNames() {
		if n != "" && seen[n] {
			return n, mostTogether(re, n) < 2
		}
		seen[n] = true
	}
	return "", false
}

// mostTogether counts how many groups of this name can take part in one match.
func mostTogether(re *syntax.Regexp, name string) int {
	n := 0
	for _, sub := range re.Sub {
		k := mostTogether(sub, name)
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

// width says how much a group captures.
type width int

const (
	narrow  width = iota
	wide          // has .* or .+ in it, so that it runs on to some later text
	endless       // is .*, so that it captures anything
)

// groupWidth tells how much the named group of an expression captures.
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
		return endless
	case hasAnyRun(sub):
		return wide
	}
	return narrow
}

func isAnyChar(re *syntax.Regexp) bool {
	return re.Op == syntax.OpAnyChar || re.Op == syntax.OpAnyCharNotNL
}

// hasAnyRun tells whether .* or .+ is anywhere in re.
func hasAnyRun(re *syntax.Regexp) bool {
	if (re.Op == syntax.OpStar || re.Op == syntax.OpPlus) && isAnyChar(re.Sub[0]) {
		return true
	}
	return slices.ContainsFunc(re.Sub, hasAnyRun)
}

// captureWidth tells how much a matcher captures under the name. A field ends by
// itself, so that only .* for all of it says nothing.
func captureWidth(m Matcher, name string) width {
	w := narrow
	if m.Regex != nil {
		w = exprWidth(m.Regex, name)
	}
	for _, f := range m.Fields {
		if f.Regex != nil && exprWidth(f.Regex, name) == endless {
			w = endless
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

// capturedNames lists the names whose values a hit carries; see Rule.CapturedNames.
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
