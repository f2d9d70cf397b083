package expr

import (
	"regexp/syntax"
	"slices"

	"crowsnest/internal/literals"
)

// Groups returns the names of the named groups of re. It returns nil if re is nil.
func Groups(re *literals.Expression) []string {
	if re == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(re.SubexpNames()), func(s string) bool { return s == "" })
}

// DuplicateGroup returns a group name that occurs twice in an expression, or "" if there is none. exclusive means that
// the two groups are alternatives, so that a match uses only one of them.
func DuplicateGroup(expr string) (name string, exclusive bool) {
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

// maxTogether returns the maximum number of groups of this name that one match can use.
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

// Width is a class of the length of the text that a group can capture.
type Width int

// The widths of groups.
const (
	Narrow    Width = iota
	Wide            // contains .* or .+, so the group extends to a later text of the pattern
	Unlimited       // consists of .*, so the group captures any text
)

func groupWidth(re *syntax.Regexp, name string) Width {
	if re.Op != syntax.OpCapture || re.Name != name {
		w := Narrow
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
		return Unlimited
	case hasAnyRun(sub):
		return Wide
	}
	return Narrow
}

func isAnyChar(re *syntax.Regexp) bool {
	return re.Op == syntax.OpAnyChar || re.Op == syntax.OpAnyCharNotNL
}

func hasAnyRun(re *syntax.Regexp) bool {
	if (re.Op == syntax.OpStar || re.Op == syntax.OpPlus) && isAnyChar(re.Sub[0]) {
		return true
	}
	return slices.ContainsFunc(re.Sub, hasAnyRun)
}

// GroupWidth returns the width of the named group of an expression.
func GroupWidth(re *literals.Expression, name string) Width {
	if !slices.Contains(re.SubexpNames(), name) {
		return Narrow
	}
	parsed, err := syntax.Parse(re.String(), syntax.Perl)
	if err != nil {
		return Narrow
	}
	return groupWidth(parsed, name)
}
