package importer

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// rule is a translated rule.
type rule struct {
	alert, from string
	match       pattern
	sequence    []pattern // instead of match
	count       int       // zero means one line
	within      time.Duration
	distinct    string
	by          []string
	clear       *pattern
	unless      *pattern
	before      time.Duration // how long before the trigger unless mutes
	wait        time.Duration // for
	keep        time.Duration // keep_firing_for; zero means the default
	expire      time.Duration
	severity    string
	annotations []entry
	summary     string // summary of the remediation
	runbook     string
	steps       []string
	affects     []affects
	tests       []test

	comments []string // above the rule
	warnings []string
	ifFails  string // why the rule is refused if its tests fail
}

// entry is one of an ordered set of names and texts.
type entry struct{ name, value string }

type affects struct{ component, image, versions string }

// test is an inline test.
type test struct {
	name   string
	stream []entry
	lines  []testLine
	at     time.Duration
	fires  bool
}

type testLine struct {
	at     time.Duration
	text   string
	repeat int // zero means once
	every  time.Duration
}

func (r *rule) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(r.warnings, text) {
		r.warnings = append(r.warnings, text)
	}
}

// annotate adds an annotation, unless it is empty.
func (r *rule) annotate(name, value string) {
	if value = strings.TrimSpace(value); value != "" {
		r.annotations = append(r.annotations, entry{name, value})
	}
}

// pattern is a condition on a line; all parts must hold.
type pattern struct {
	contains []string
	regex    string
	fields   []entry // fields of JSON or text; a value that starts with ~ is an expression
	any      []pattern
	not      *pattern
	large    bool // reports whether the rule was given up, because its alternatives multiply
}

// onlyText returns the text of a pattern that consists of one.
func (m *pattern) onlyText() (string, bool) {
	if len(m.contains) == 1 && len(m.fields)+len(m.any) == 0 && m.regex == "" && m.not == nil {
		return m.contains[0], true
	}
	return "", false
}

// hasText reports whether a part of the pattern demands a text or an expression.
func (m *pattern) hasText() bool {
	return m != nil && (len(m.contains) > 0 || m.regex != "" || m.not.hasText() ||
		slices.ContainsFunc(m.any, func(a pattern) bool { return a.hasText() }))
}

// negation returns a pattern that a line satisfies if it does not satisfy m.
func negation(m pattern) pattern { return pattern{not: &m} }

// oneOf returns a pattern for any of several.
func oneOf(ms []pattern) pattern {
	if len(ms) == 1 {
		return ms[0]
	}
	return pattern{any: ms}
}

// all returns a pattern that demands every condition. A mapping has room for one expression, one
// list of alternatives and each field once: further ones are nested in the alternatives.
func all(conditions []pattern) pattern {
	var out pattern
	var not, more []pattern
	var groups [][]pattern // alternatives
	for _, c := range conditions {
		out.large = out.large || c.large
		out.contains = append(out.contains, c.contains...)
		if out.regex == "" {
			out.regex = c.regex
		} else if c.regex != "" {
			more = append(more, pattern{regex: c.regex})
		}
		for _, f := range c.fields {
			if slices.ContainsFunc(out.fields, func(o entry) bool { return o.name == f.name }) {
				more = append(more, pattern{fields: []entry{f}})
			} else {
				out.fields = append(out.fields, f)
			}
		}
		if c.any != nil {
			groups = append(groups, c.any)
		}
		if c.not != nil {
			not = append(not, *c.not)
		}
	}
	if len(not) > 0 {
		n := oneOf(not)
		out.not = &n
	}
	if len(more) > 0 {
		groups = append(groups, []pattern{all(more)})
	}
	slices.SortStableFunc(groups, func(a, b []pattern) int { return len(a) - len(b) })
	for _, g := range slices.Backward(groups) {
		if leaves(g)*leaves(out.any) > maxLeaves {
			out.large = true
			break
		}
		out.any = both(g, out.any)
	}
	return out
}

// maxLeaves bounds the alternatives of a pattern. Two lists of alternatives multiply.
const maxLeaves = 512

// leaves counts alternatives.
func leaves(group []pattern) int {
	n := 0
	for i := range group {
		n += leaves(group[i].any)
	}
	return max(n, 1)
}

// both returns the alternatives that satisfy one of a and one of b. It does not modify a.
func both(a, b []pattern) []pattern {
	if b == nil {
		return a
	}
	out := slices.Clone(a)
	for i := range out {
		out[i].any = b
		if a[i].any != nil {
			out[i].any = both(a[i].any, b)
		}
	}
	return out
}

// tooLarge reports whether the alternatives of a pattern multiply beyond the bound.
func (m *pattern) tooLarge() bool {
	return m != nil && (m.large || m.not.tooLarge() || slices.ContainsFunc(m.any, func(a pattern) bool { return a.tooLarge() }))
}

// tooLarge reports whether a part of the rule has too many alternatives.
func (r *rule) tooLarge() bool {
	return r.match.tooLarge() || r.clear.tooLarge() || r.unless.tooLarge() || slices.ContainsFunc(r.sequence, func(m pattern) bool { return m.tooLarge() })
}

// isPositive reports whether the pattern demands something of the line, which the language
// requires.
func (m *pattern) isPositive() bool {
	return len(m.contains)+len(m.fields)+len(m.any) > 0 || m.regex != ""
}

// anyText matches every line that is not blank.
const anyText = `\S`
