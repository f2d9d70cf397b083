// Package expr adds to package regexp what rules need. It has errors that name the fix, the names of groups with the
// width of the text that they capture, and an upper bound of the time that expressions take. It also has the error type
// of the small languages inside YAML texts.
package expr

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"crowsnest/internal/literals"
)

// SyntaxError is an error of a selector, a template or a version constraint, with the fix.
type SyntaxError struct {
	Offset  int // offset in bytes from the start of the text
	Message string
	Fix     string // text of the fix; empty if there is none
}

// Error returns the message, position and fix on one line.
func (e *SyntaxError) Error() string {
	s := fmt.Sprintf("%s (at byte %d)", e.Message, e.Offset)
	if e.Fix != "" {
		s += ": " + e.Fix
	}
	return s
}

// Errorf returns a SyntaxError with a formatted message.
func Errorf(offset int, fix, format string, args ...any) *SyntaxError {
	return &SyntaxError{Offset: offset, Fix: fix, Message: fmt.Sprintf(format, args...)}
}

// InvalidAt returns the offset of the first byte that is not valid UTF-8, or -1 if there is none.
func InvalidAt(s string) int {
	for i, r := range s {
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD") {
			return i
		}
	}
	return len(s)
}

// ParseAnchored returns the expression of a pattern that must match a whole value. It first parses the pattern by
// itself, because "a)|(b" would become valid inside the surrounding group. Its errors are errors of regexp.Compile.
func ParseAnchored(pattern string) (*literals.Expression, error) {
	if _, err := syntax.Parse(pattern, syntax.Perl); err != nil {
		return nil, err
	}
	return literals.NewExpression("^(?s:" + pattern + ")$")
}

// Reason returns the text of an error of regexp.Compile without the prefix "error parsing regexp: ".
func Reason(err error) string {
	var se *syntax.Error
	if errors.As(err, &se) {
		return se.Code.String() + " `" + se.Expr + "`"
	}
	return err.Error()
}

// Size returns an upper bound of the number of instructions of a pattern, which is rarely above the number. The result
// is zero if the pattern is invalid. Size does not compile the pattern, because a short pattern can have millions of
// instructions.
func Size(pattern string) int {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	return programSize(re)
}

// programSize returns the size of a pattern that was parsed. Two instructions begin and end every program.
func programSize(re *syntax.Regexp) int {
	n, _ := syntaxSize(re)
	return n + 2
}

// syntaxSize returns the size of a part of a pattern, and whether the part can match nothing.
func syntaxSize(re *syntax.Regexp) (n int, empty bool) {
	all, one := true, false
	for _, sub := range re.Sub {
		size, empty := syntaxSize(sub)
		n += size
		all = all && empty
		one = one || empty
	}
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune), false
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1, false
	case syntax.OpConcat:
		return n, all
	case syntax.OpAlternate:
		return n + len(re.Sub) - 1, one
	case syntax.OpCapture:
		return n + 2, all
	case syntax.OpPlus:
		return n + 1, all
	case syntax.OpRepeat:
		switch {
		case re.Max >= 0:
			return max(re.Max*n+re.Max-re.Min, 1), all || re.Min == 0
		case re.Min > 0:
			return re.Min*n + 1, all
		}
		return starSize(n, all), true
	case syntax.OpStar:
		return starSize(n, all), true
	}
	return n + 1, true
}

// starSize returns the size of x* for an x of size n. Go compiles it as (?:x+)? if x can match nothing.
func starSize(n int, empty bool) int {
	if empty {
		n++
	}
	return n + 1
}
