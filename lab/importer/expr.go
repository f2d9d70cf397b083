package importer

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"crowsnest/internal/strictyaml"
)

// maxRegex is the maximum length of an expression in the rule language.
const maxRegex = 16 << 10

// checkRegex returns an error with the position if an expression is not valid in RE2.
func checkRegex(pos strictyaml.Pos, expr string) error {
	if len(expr) > maxRegex {
		return refuseAt(pos, "the expression has %d bytes, more than %d", len(expr), maxRegex)
	}
	re, err := regexp.Compile(expr)
	var e *syntax.Error
	if errors.As(err, &e) {
		at := pos.Within(expr, max(0, strings.Index(expr, e.Expr)))
		return refuseAt(at, "the expression is not RE2: %s: `%s`%s", e.Code, e.Expr, explainConstruct(e))
	}
	if err != nil {
		return refuseAt(pos, "the expression is not RE2: %s", err)
	}
	if re.MatchString("") {
		return refuseAt(pos, "the expression `%s` matches the empty text, and with it every line", shorten(expr))
	}
	return nil
}

func explainConstruct(e *syntax.Error) string {
	switch {
	case strings.HasPrefix(e.Expr, "(?=") || strings.HasPrefix(e.Expr, "(?!") || strings.HasPrefix(e.Expr, "(?<"):
		return " (look-around of PCRE; use `not` or a second condition)"
	case e.Code == syntax.ErrInvalidEscape && len(e.Expr) > 1 && e.Expr[1] >= '1' && e.Expr[1] <= '9':
		return " (a back reference of PCRE)"
	case e.Code == syntax.ErrInvalidRepeatOp && strings.HasSuffix(e.Expr, "+"):
		return " (a possessive quantifier of PCRE)"
	}
	return ""
}

func shorten(s string) string {
	if len(s) <= 80 {
		return s
	}
	return strings.ToValidUTF8(s[:80], "") + "..."
}

// plainText returns the string that an expression matches, if the expression matches only one string.
func plainText(expr string) (string, bool) {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil || re.Op != syntax.OpLiteral || re.Flags&syntax.FoldCase != 0 {
		return "", false
	}
	return string(re.Rune), true
}

// Maximum number of alternatives of an expression, and maximum number of texts of each alternative.
const (
	maxAlternatives = 256
	maxTexts        = 32
)

// patternTexts returns, for each alternative of an expression, the texts that every match contains. It omits letters
// that match in either case.
func patternTexts(re *syntax.Regexp) [][]string {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 {
			return [][]string{{string(re.Rune)}}
		}
		return [][]string{strings.FieldsFunc(string(re.Rune), func(r rune) bool { return unicode.SimpleFold(r) != r })}
	case syntax.OpCapture, syntax.OpPlus:
		return patternTexts(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return patternTexts(re.Sub[0])
		}
	case syntax.OpAlternate:
		var out [][]string
		for _, s := range re.Sub {
			out = append(out, patternTexts(s)...)
		}
		if len(out) <= maxAlternatives {
			return out
		}
	case syntax.OpConcat:
		out := [][]string{nil}
		for _, s := range re.Sub {
			sub := patternTexts(s)
			if len(sub)*len(out) > maxAlternatives || len(sub) == 1 && (len(sub[0]) == 0 || len(out[0]) == maxTexts) {
				continue
			}
			var next [][]string
			for _, a := range out {
				for _, b := range sub {
					both := slices.Concat(a, b)
					next = append(next, both[:min(len(both), maxTexts)])
				}
			}
			out = next
		}
		return out
	}
	return [][]string{nil}
}

// commonToAll returns the texts that all alternatives contain, the longest first.
func commonToAll(alternatives [][]string) []string {
	const longest = 32
	seen := map[string]bool{}
	var out []string
	for _, text := range alternatives[0] {
		for i := range min(len(text), 256) {
			for j := i + 1; j <= min(len(text), i+longest); j++ {
				if s := text[i:j]; !seen[s] && utf8.ValidString(s) && inAll(alternatives[1:], s) {
					seen[s] = true
					out = append(out, s)
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return len(b) - len(a) })
	return out
}

func inAll(alternatives [][]string, s string) bool {
	return !slices.ContainsFunc(alternatives, func(texts []string) bool {
		return !slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(t, s) })
	})
}

func exampleText(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune)
	case syntax.OpCharClass:
		for i := 0; i+1 < len(re.Rune); i += 2 {
			for r := re.Rune[i]; r <= re.Rune[i+1] && r < utf8.RuneSelf; r++ {
				if unicode.IsLetter(r) || unicode.IsDigit(r) {
					return string(r)
				}
			}
		}
		if len(re.Rune) > 0 {
			return string(re.Rune[0])
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return "x"
	case syntax.OpCapture, syntax.OpPlus:
		return exampleText(re.Sub[0])
	case syntax.OpRepeat:
		return strings.Repeat(exampleText(re.Sub[0]), min(re.Min, 64))
	case syntax.OpAlternate:
		return exampleText(re.Sub[0])
	case syntax.OpConcat:
		var b strings.Builder
		for _, s := range re.Sub {
			b.WriteString(exampleText(s))
		}
		return b.String()
	}
	return ""
}
