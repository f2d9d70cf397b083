package export

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
)

// renameGroups renames the named groups of an expression. A group for which rename returns ""
// loses its name. The rest of the expression stays unchanged.
func renameGroups(expr string, rename func(string) string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(expr); {
		switch rest := expr[i:]; {
		case strings.HasPrefix(rest, `\Q`):
			end := strings.Index(rest, `\E`)
			if end < 0 {
				end = len(rest) - 2
			}
			b.WriteString(rest[:end+2])
			i += end + 2
		case rest[0] == '\\' && len(rest) > 1:
			b.WriteString(rest[:2])
			i += 2
		case rest[0] == '[':
			n := classLength(rest)
			b.WriteString(rest[:n])
			i += n
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
		default:
			b.WriteByte(rest[0])
			i++
		}
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

// alwaysCaptures reports whether the group called name has a non-empty value whenever the
// expression matches.
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

// matchesEmpty reports whether an expression can match the empty string.
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
