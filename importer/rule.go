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
	count       int       // 0: one line
	within      time.Duration
	distinct    string
	by          []string
	clear       *pattern
	unless      *pattern
	before      time.Duration // how long before the trigger unless mutes
	wait        time.Duration // for
	silent      time.Duration
	keep        time.Duration // keep_firing_for; 0: the default
	expire      time.Duration
	severity    string
	labels      []entry
	annotations []entry
	summary     string // of the remediation
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
	repeat int // 0: once
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
	fields   []entry // of JSON or text; a value that starts with ~ is an expression
	any      []pattern
	not      *pattern
}

func (m *pattern) empty() bool {
	return len(m.contains)+len(m.fields)+len(m.any) == 0 && m.regex == "" && m.not == nil
}

// onlyText returns the text of a pattern that consists of one.
func (m *pattern) onlyText() (string, bool) {
	if len(m.contains) == 1 && len(m.fields)+len(m.any) == 0 && m.regex == "" && m.not == nil {
		return m.contains[0], true
	}
	return "", false
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
// list of alternatives and each field once; further ones go into a list with one alternative.
func all(conditions []pattern) pattern {
	var out pattern
	var rest, not []pattern
	for _, c := range conditions {
		var more pattern
		out.contains = append(out.contains, c.contains...)
		if c.regex != "" {
			if out.regex == "" {
				out.regex = c.regex
			} else {
				more.regex = c.regex
			}
		}
		for _, f := range c.fields {
			if slices.ContainsFunc(out.fields, func(o entry) bool { return o.name == f.name }) {
				more.fields = append(more.fields, f)
			} else {
				out.fields = append(out.fields, f)
			}
		}
		if c.any != nil {
			if out.any == nil {
				out.any = c.any
			} else {
				more.any = c.any
			}
		}
		if c.not != nil {
			not = append(not, *c.not)
		}
		if !more.empty() {
			rest = append(rest, more)
		}
	}
	if len(not) > 0 {
		n := oneOf(not)
		out.not = &n
	}
	if len(rest) > 0 {
		if out.any != nil {
			rest = append(rest, pattern{any: out.any})
		}
		out.any = []pattern{all(rest)}
	}
	return out
}

// isPositive reports whether the pattern demands something of the line, which the language
// requires.
func (m *pattern) isPositive() bool {
	return len(m.contains)+len(m.fields)+len(m.any) > 0 || m.regex != ""
}

// anyText matches every line that is not blank.
const anyText = `\S`
