package export

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// renameGroups renames the named groups of an expression. A group for which rename returns "" loses its name. The rest
// of the expression stays unchanged.
func renameGroups(expr string, rename func(string) string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(expr); {
		rest, n := expr[i:], 1 // n is the number of bytes to copy unchanged
		switch {
		case strings.HasPrefix(rest, `\Q`):
			text, _, _ := strings.Cut(rest, `\E`)
			n = min(len(text)+2, len(rest))
		case rest[0] == '\\' && len(rest) > 1:
			n = 2
		case rest[0] == '[':
			n = classLength(rest)
		case strings.HasPrefix(rest, "(?P<") || strings.HasPrefix(rest, "(?<"):
			open := strings.IndexByte(rest, '<')
			end := strings.IndexByte(rest, '>')
			if end < 0 {
				return "", fmt.Errorf("a group of %q has no end to its name", expr)
			}
			if name := rename(rest[open+1 : end]); name != "" {
				b.WriteString("(?P<" + name + ">")
			} else {
				b.WriteString("(?:")
			}
			i += end + 1
			continue
		}
		b.WriteString(rest[:n])
		i += n
	}
	return b.String(), nil
}

func classLength(s string) int {
	i := 1
	if i < len(s) && s[i] == '^' {
		i++
	}
	if i < len(s) && s[i] == ']' {
		i++
	}
	for i < len(s) && s[i] != ']' {
		switch {
		case s[i] == '\\':
			i++
		case strings.HasPrefix(s[i:], "[:"):
			if end := strings.Index(s[i:], ":]"); end >= 0 {
				i += end + 1
			}
		}
		i++
	}
	return min(i+1, len(s))
}

// alwaysCaptures reports whether the named group is non-empty in every match.
func alwaysCaptures(expr, name string) bool {
	re, err := syntax.Parse(expr, syntax.Perl)
	return err == nil && hasCapture(re, name)
}

func hasCapture(re *syntax.Regexp, name string) bool {
	switch re.Op {
	case syntax.OpCapture:
		return re.Name == name && !matchesEmpty(re.Sub[0]) || hasCapture(re.Sub[0], name)
	case syntax.OpConcat:
		return slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return hasCapture(sub, name) })
	case syntax.OpAlternate:
		return !slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return !hasCapture(sub, name) })
	case syntax.OpPlus:
		return hasCapture(re.Sub[0], name)
	case syntax.OpRepeat:
		return re.Min > 0 && hasCapture(re.Sub[0], name)
	}
	return false
}

func matchesEmpty(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpLiteral, syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return false
	case syntax.OpCapture, syntax.OpPlus:
		return matchesEmpty(re.Sub[0])
	case syntax.OpRepeat:
		return re.Min == 0 || matchesEmpty(re.Sub[0])
	case syntax.OpConcat:
		return !slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return !matchesEmpty(sub) })
	case syntax.OpAlternate:
		return slices.ContainsFunc(re.Sub, matchesEmpty)
	}
	return true
}

// lineFilter returns an expression that Loki's line filters match as Go does. Loki turns simple expressions into
// searches for texts, and some of these searches are wrong. For example, it searches for ab or ac instead of
// a.*(?:b|c), and, after a text, for a or b instead of (?:a|b)c. Loki does not change an expression with an operator
// that it does not know. Therefore lineFilter appends such an operator, which matches the rest of any line.
func lineFilter(expr string) string {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil || !hasAlternation(re.Simplify()) {
		return expr
	}
	return "(?:" + expr + ")(?s:.*)"
}

// hasAlternation reports whether an expression contains an alternation next to another element. One text before an
// alternation of texts is harmless and does not count.
func hasAlternation(re *syntax.Regexp) bool {
	if re.Op == syntax.OpConcat {
		for _, sub := range re.Sub {
			for sub.Op == syntax.OpCapture {
				sub = sub.Sub[0]
			}
			isNoText := func(re *syntax.Regexp) bool { return re.Op != syntax.OpLiteral }
			if sub.Op == syntax.OpAlternate && (len(re.Sub) != 2 || isNoText(re.Sub[0]) || slices.ContainsFunc(sub.Sub, isNoText)) {
				return true
			}
		}
	}
	return slices.ContainsFunc(re.Sub, hasAlternation)
}

// textFilter returns an expression for a text. It is a group, so that Go does not merge it with
// other texts that begin in the same way.
func textFilter(text string) string { return "(" + regexp.QuoteMeta(text) + ")" }
