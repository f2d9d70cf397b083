package export

import (
	"regexp"
	"regexp/syntax"
	"slices"
)

// lineFilter returns an expression that Loki's line filters match as Go does. Loki turns simple
// expressions into searches for texts, and some of these are wrong. For example, it searches
// for ab or ac instead of a.*(?:b|c), and, after a text, for a or b instead of (?:a|b)c. Loki
// does not change an expression with an operator that it does not know. lineFilter appends such
// an operator, which matches the rest of any line.
func lineFilter(expr string) string {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil || !hasAlternation(re.Simplify()) {
		return expr
	}
	return "(?:" + expr + ")(?s:.*)"
}

// hasAlternation reports whether an expression contains an alternation next to something else.
// One text before an alternation of texts is harmless and does not count.
func hasAlternation(re *syntax.Regexp) bool {
	if re.Op == syntax.OpConcat {
		for _, sub := range re.Sub {
			for sub.Op == syntax.OpCapture {
				sub = sub.Sub[0]
			}
			if sub.Op == syntax.OpAlternate && !(len(re.Sub) == 2 && isText(re.Sub[0]) && !slices.ContainsFunc(sub.Sub, isNoText)) {
				return true
			}
		}
	}
	return slices.ContainsFunc(re.Sub, hasAlternation)
}

func isText(re *syntax.Regexp) bool { return re.Op == syntax.OpLiteral }

func isNoText(re *syntax.Regexp) bool { return !isText(re) }

// textFilter returns an expression for a text. It is a group, so that Go does not merge it with
// other texts that begin in the same way.
func textFilter(text string) string { return "(" + regexp.QuoteMeta(text) + ")" }
