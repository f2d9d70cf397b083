package rules

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// SyntaxError is an error of a selector, a template or a version constraint, with
// its position and the fix.
type SyntaxError struct {
	Offset  int // in bytes from the start of the text
	Message string
	Fix     string // "" : none
}

// Error returns the message, position and fix on one line.
func (e *SyntaxError) Error() string {
	s := fmt.Sprintf("%s (at byte %d)", e.Message, e.Offset)
	if e.Fix != "" {
		s += ": " + e.Fix
	}
	return s
}

func syntaxErrorf(offset int, fix, format string, args ...any) *SyntaxError {
	return &SyntaxError{Offset: offset, Fix: fix, Message: fmt.Sprintf(format, args...)}
}

// MatchOp is the operator of a label matcher.
type MatchOp string

// The operators. The regular ones match the whole value.
const (
	MatchEqual     MatchOp = "="
	MatchNotEqual  MatchOp = "!="
	MatchRegexp    MatchOp = "=~"
	MatchNotRegexp MatchOp = "!~"
)

// LabelMatcher is a condition on one label. It is immutable and safe for
// concurrent use.
type LabelMatcher struct {
	Name  string
	Op    MatchOp
	Value string
	re    *regexp.Regexp // of the regular operators, anchored
}

// Matches reports whether a label with this value satisfies the matcher. A label
// that is absent has the value "".
func (m LabelMatcher) Matches(value string) bool {
	switch m.Op {
	case MatchEqual:
		return value == m.Value
	case MatchNotEqual:
		return value != m.Value
	case MatchRegexp:
		return m.re != nil && m.re.MatchString(value)
	case MatchNotRegexp:
		return m.re != nil && !m.re.MatchString(value)
	}
	return false
}

// String formats the matcher as in a selector.
func (m LabelMatcher) String() string {
	return m.Name + string(m.Op) + strconv.Quote(m.Value)
}

// Selector selects log streams by their labels, as in LogQL and PromQL. It is
// immutable and safe for concurrent use. The zero value matches everything.
type Selector struct {
	matchers []LabelMatcher
}

// Matchers returns a copy of the conditions in the order in which they were
// written.
func (s Selector) Matchers() []LabelMatcher {
	return append([]LabelMatcher(nil), s.matchers...)
}

// String formats the selector so that ParseSelector returns an equal one. The zero
// value is "{}", which ParseSelector refuses.
func (s Selector) String() string {
	parts := make([]string, len(s.matchers))
	for i, m := range s.matchers {
		parts[i] = m.String()
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// Matches reports whether the selector selects a stream with these labels. A label
// with an empty value is absent. An absent label counts as "", or, if lenient is
// set, satisfies every condition.
func (s Selector) Matches(labels map[string]string, lenient bool) bool {
	for _, m := range s.matchers {
		v := labels[m.Name]
		if v == "" && lenient {
			continue
		}
		if !m.Matches(v) {
			return false
		}
	}
	return true
}
