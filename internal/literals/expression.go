package literals

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"sync/atomic"
)

// Expression is a regular expression in Go's syntax, with its required literals. It is compiled when it is first
// matched. Most expressions of a program are never matched, because no line contains their literals, and compiled
// expressions take ten times the memory. It is safe for concurrent use and must not be copied.
type Expression struct {
	text  string
	names []string
	need  *Cond
	empty bool // whether the expression matches the empty string

	compiled atomic.Pointer[regexp.Regexp]
	runs     atomic.Pointer[Runs]
}

// NewExpression parses an expression. Its errors are the errors of regexp.Compile.
func NewExpression(text string) (*Expression, error) {
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	return &Expression{text: text, names: re.CapNames(), need: parseCond(re), empty: matchesEmpty(re)}, nil
}

// MustExpression parses a constant expression. It panics if text is not valid.
func MustExpression(text string) *Expression {
	e, err := NewExpression(text)
	if err != nil {
		panic(err)
	}
	return e
}

// String returns the text of the expression.
func (e *Expression) String() string { return e.text }

// MarshalText returns the text of the expression. The error is nil.
func (e *Expression) MarshalText() ([]byte, error) { return []byte(e.text), nil }

// SubexpNames returns the names of the groups, as regexp.Regexp does. The caller must not
// change the slice.
func (e *Expression) SubexpNames() []string { return e.names }

// Required returns the condition that every match satisfies. It returns nil if there is none.
func (e *Expression) Required() *Cond { return e.need }

// Match reports whether b has a match.
func (e *Expression) Match(b []byte) bool { return e.Regexp().Match(b) }

// MatchString reports whether s has a match. It does not compile the expression if the required texts decide.
func (e *Expression) MatchString(s string) bool {
	end, decided := e.need.Match([]byte(s))
	if decided {
		return end >= 0
	}
	return e.Regexp().MatchString(s)
}

// MatchesEmpty reports whether the empty text has a match. It does not compile the
// expression.
func (e *Expression) MatchesEmpty() bool { return e.empty }

// FindSubmatchIndex returns the positions of the leftmost match in b and of its groups, or nil
// if there is none.
func (e *Expression) FindSubmatchIndex(b []byte) []int { return e.Regexp().FindSubmatchIndex(b) }

// Regexp returns the compiled expression.
func (e *Expression) Regexp() *regexp.Regexp {
	if re := e.compiled.Load(); re != nil {
		return re
	}
	return e.compile()
}

func (e *Expression) compile() *regexp.Regexp {
	e.compiled.CompareAndSwap(nil, regexp.MustCompile(e.text)) // the text was parsed before, so it compiles
	return e.compiled.Load()
}

// matchesEmpty reports whether re matches the empty text. In such a match, all sub-expressions match at the same
// position.
func matchesEmpty(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpNoMatch, syntax.OpLiteral, syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL, syntax.OpWordBoundary:
		return false
	case syntax.OpCapture, syntax.OpPlus, syntax.OpConcat:
		return !slices.ContainsFunc(re.Sub, func(s *syntax.Regexp) bool { return !matchesEmpty(s) })
	case syntax.OpAlternate:
		return slices.ContainsFunc(re.Sub, matchesEmpty)
	case syntax.OpRepeat:
		return re.Min == 0 || matchesEmpty(re.Sub[0])
	}
	return true // anchors, and sub-expressions that may occur zero times
}
