package importer

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// A set is complete when each of its conditions was met by a line within the window, in any order. The rule language
// can count the different values of a captured name (`distinct`). So the pattern of each condition captures a different
// text, which all lines of the condition contain.

// mark is the name of the capture that contains the text of a condition.
const mark = "condition"

// dropImplied removes conditions of a set that follow from another condition, because every line that meets the other
// condition meets them too.
func (m *meaning) dropImplied() error {
	if i := slices.IndexFunc(m.terms, func(t term) bool { return t.cre.count > 1 }); i >= 0 && len(m.terms) > 1 {
		return fmt.Errorf("the set counts %d lines of one kind and also demands lines of other kinds, in any order: a rule counts lines of one kind, or different kinds", m.terms[i].cre.count)
	}
	if len(m.terms) > maxConditions {
		return fmt.Errorf("the set has %d conditions, more than %d", len(m.terms), maxConditions)
	}
	for i := range m.terms {
		m.terms[i].texts = requiredTexts(m.terms[i].pattern)
	}
	var kept []term
	for i, t := range m.terms {
		implied := false
		for j, other := range m.terms {
			// Of several equal conditions, the first one is kept.
			implied = implied || j != i && other.implies(&t) && (j < i || !t.implies(&other))
		}
		if !implied {
			kept = append(kept, t)
		}
	}
	m.terms = kept
	return nil
}

// maxConditions is the maximum number of conditions in a set. preq has the same limit.
const maxConditions = 64

// implies reports whether every line that matches t also matches o. If this is true but hard to prove, implies may
// return false.
func (t *term) implies(o *term) bool {
	text, ok := o.onlyText()
	if !ok {
		return t.regex != "" && t.regex == o.regex
	}
	return inAll(t.texts, text)
}

// requiredTexts returns, for each alternative of a pattern, the texts that every matching line contains.
func requiredTexts(m pattern) [][]string {
	if m.regex == "" {
		return [][]string{{m.text}}
	}
	re, err := syntax.Parse(m.regex, syntax.Perl)
	if err != nil {
		return [][]string{nil}
	}
	return patternTexts(re)
}

func (m *meaning) translateSet() error {
	if m.cond.window <= 0 {
		return fmt.Errorf("a set of several conditions needs a `window`")
	}
	m.rarestFirst()
	marks, err := m.commonTexts()
	if err != nil {
		return err
	}
	var branches []pattern
	for i, t := range m.terms {
		t, capture := t.pattern, fmt.Sprintf("(?P<%s>%s)", mark, regexp.QuoteMeta(marks[i]))
		if text, ok := t.onlyText(); ok {
			if marks[i] == text {
				t = pattern{regex: capture}
			} else {
				t.regex = capture
			}
		} else {
			t.any = []pattern{{regex: capture}}
		}
		branches = append(branches, t)
	}
	r := m.rule
	r.match, r.distinct, r.count, r.within = pattern{any: branches}, mark, len(branches), m.cond.window
	r.comments = append(r.comments, fmt.Sprintf("All %d kinds of lines have to occur, in any order. Each kind contains one of these texts: `%s`.", len(branches), mark))
	r.warn("a line that meets several conditions of the set counts for the first of them only")
	r.ifFails = "a line of its sample log meets several conditions of the set, and crowsnest counts a line for one of them only"
	return nil
}

// rarestFirst sorts the conditions by the number of sample lines that meet them. A line that meets several conditions
// counts only for the first of them.
func (m *meaning) rarestFirst() {
	for i := range m.terms {
		t := &m.terms[i]
		match := t.compile()
		for _, l := range m.sample {
			if match(l) {
				t.lines++
			}
		}
	}
	slices.SortStableFunc(m.terms, func(a, b term) int { return a.lines - b.lines })
}

// commonTexts returns a text for each condition. All lines that meet the condition contain its text, and no two
// conditions have the same text.
func (m *meaning) commonTexts() ([]string, error) {
	candidates := make([][]string, len(m.terms))
	order := make([]int, len(m.terms))
	for i, t := range m.terms {
		candidates[i] = commonToAll(t.texts)
		order[i] = i
	}
	// Conditions with few candidates choose first, because others have more alternatives.
	slices.SortStableFunc(order, func(a, b int) int { return len(candidates[a]) - len(candidates[b]) })
	out := make([]string, len(m.terms))
	taken := map[string]bool{}
	for _, i := range order {
		for _, c := range candidates[i] {
			if !taken[c] && strings.TrimSpace(c) == c {
				out[i], taken[c] = c, true
				break
			}
		}
		if out[i] == "" {
			t := m.terms[i].cre
			return nil, refuseAt(t.valueAt, "the alternatives of this condition have no text in common: `%s`. A rule distinguishes the conditions of a set by such a text", t.text())
		}
	}
	return out, nil
}
