package expr

import (
	"cmp"
	"errors"
	"regexp/syntax"
	"strings"
)

// elsewhere lists syntax of other regular expression engines that RE2 does not have, with replacements. The first entry
// that is a prefix of the faulty section applies.
var elsewhere = []struct{ part, instead string }{
	{"(?!", "RE2 has no lookahead: write the other text as `not` beside it, such as {regex: '...', not: '...'}; in a selector with !~"},
	{"(?<!", "RE2 has no lookbehind: write the other text as `not` beside it, such as {regex: '...', not: '...'}; in a selector with !~"},
	{"(?=", "RE2 has no lookahead: write both texts as parts of the matcher, which must all hold, such as {contains: '...', regex: '...'}"},
	{"(?<=", "RE2 has no lookbehind: include the text, and put the part that is meant into a named group: (?P<name>...)"},
	{"(?>", "RE2 never goes back, so it has no atomic groups: write (?:...)"},
	{"(?#", "RE2 has no comments: put it into a comment of the YAML"},
	{"(?|", "RE2 has no branch reset: give each branch a named group of its own"},
	{"(?R", "RE2 has no recursion"},
	{"(?0", "RE2 has no recursion"},
	{"(?(", "RE2 has no conditions: write the cases as branches of `any`"},
	{"(?P=", "RE2 has no back-references: repeat the pattern"},
	{"(?x", "RE2 has no flag x: write the pattern without spaces and comments"},
	{`\h`, `write [ \t]`},
	{`\R`, `write \r?\n`},
	{`\Z`, `write \z, or $`},
	{`\e`, `write \x1b`},
	{`\u`, `write \x{...} with the digits in the braces`},
	{`\U`, `write \x{...} with the digits in the braces`},
	{`\k`, "RE2 has no back-references: repeat the pattern"},
	{`\g`, "RE2 has no back-references: repeat the pattern"},
}

// FaultAt returns the offset of the section of a pattern that an error of regexp.Compile names.
func FaultAt(pattern string, err error) int {
	if se, ok := errors.AsType[*syntax.Error](err); ok {
		return max(strings.Index(pattern, se.Expr), 0)
	}
	return 0
}

// SuggestFix returns the fix for a pattern that does not compile.
func SuggestFix(pattern string) string {
	_, err := syntax.Parse(pattern, syntax.Perl)
	se, ok := errors.AsType[*syntax.Error](err)
	if !ok {
		return reference
	}
	if strings.HasPrefix(pattern, "*") {
		return `write .* for *: a regular expression is not a glob`
	}
	for _, e := range elsewhere {
		if strings.HasPrefix(se.Expr, e.part) || strings.HasPrefix(e.part, se.Expr) && strings.Contains(pattern, e.part) {
			return e.instead
		}
	}
	if se.Code == syntax.ErrInvalidEscape && len(se.Expr) == 2 && se.Expr[1] >= '1' && se.Expr[1] <= '9' {
		return "RE2 has no back-references: repeat the pattern"
	}
	return strings.ReplaceAll(cmp.Or(fixes[se.Code], reference), "PART", se.Expr)
}

const reference = "see https://github.com/google/re2/wiki/Syntax"

// fixes are the fixes for errors of regexp. PART is replaced by the faulty section of the pattern.
var fixes = map[syntax.ErrorCode]string{
	syntax.ErrInvalidEscape:         `write \PART for a backslash as it is in the line`,
	syntax.ErrTrailingBackslash:     `write \\ for a backslash as it is in the line`,
	syntax.ErrInvalidRepeatOp:       "RE2 never goes back, so it has no possessive repetition: write one of * + ?, or escape the second with a backslash",
	syntax.ErrMissingRepeatArgument: `write \PART for the character itself`,
	syntax.ErrMissingParen:          `close each ( with ), and write \( or \) for the character itself`,
	syntax.ErrUnexpectedParen:       `close each ( with ), and write \( or \) for the character itself`,
	syntax.ErrMissingBracket:        `close [ with ], and write \[ for the character itself`,
	syntax.ErrInvalidRepeatSize:     "repeat at most 1000 times, or write * or +",
	syntax.ErrInvalidCharRange:      `write the smaller character first, or \- for the character itself`,
	syntax.ErrInvalidNamedCapture:   "write (?P<name>...), with letters, digits and _ in the name",
}
