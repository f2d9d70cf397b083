package export

import (
	"regexp"
	"regexp/syntax"
	"slices"
)

// lineFilter returns an expression that Loki's line filters match as Go does. Loki turns
// simple expressions into searches for texts, and some into wrong ones: it searches
// a.*(?:b|c) as ab or ac, and (?:a|b)c as a or b, if a text stands before it. It leaves
// expressions alone that contain an operator which it does not know, such as the last one
// here, which matches the rest of any line.
func lineFilter(expr string) string {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil || !concatenates(re.Simplify()) {
		return expr
	}
	return "(?:" + expr + ")(?s:.*)"
}

// concatenates reports whether a part of an expression is an alternation beside something
// else. One text before an alternation of texts is harmless.
func concatenates(re *syntax.Regexp) bool {
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
	return slices.ContainsFunc(re.Sub, concatenates)
}

func isText(re *syntax.Regexp) bool { return re.Op == syntax.OpLiteral }

func isNoText(re *syntax.Regexp) bool { return !isText(re) }

// textFilter returns an expression for a text, in a form that keeps Go from joining it with
// other texts that begin alike.
func textFilter(text string) string { return "(" + regexp.QuoteMeta(text) + ")" }
