package importer

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"sort"
	"strings"
)

// A set is complete when for each of its conditions a line within the window met it, in any
// order. The rule language can count different values of a name (`distinct`), so each condition
// captures a different text, which all of its lines contain.

// mark is the name of the capture with this text.
const mark = "condition"

// dropImplied removes the conditions of a set that are met by every line which meets another
// condition.
func (m *meaning) dropImplied() error {
	counts := slices.ContainsFunc(m.cond.terms, func(t creTerm) bool { return t.count > 1 })
	if counts && len(m.terms) > 1 {
		return refusef("the set counts %s and also demands lines of other kinds, in any order: a rule counts lines of one kind, or different kinds", describeCounts(m.cond.terms))
	}
	if len(m.terms) > maxConditions {
		return refusef("the set has %d conditions, more than %d", len(m.terms), maxConditions)
	}
	texts := make([][][]string, len(m.terms))
	for i, t := range m.terms {
		texts[i] = requiredTexts(t)
	}
	var kept []pattern
	var terms []creTerm
	for i, t := range m.terms {
		implied := false
		for j, other := range m.terms {
			// The first of several equal conditions is kept.
			implied = implied || j != i && implies(other, texts[j], t) && (j < i || !implies(t, texts[i], other))
		}
		if !implied {
			kept, terms = append(kept, t), append(terms, m.cond.terms[i])
		}
	}
	m.terms, m.cond.terms = kept, terms
	return nil
}

// maxConditions is the maximum number of conditions in a set. preq has the same limit.
const maxConditions = 64

func describeCounts(terms []creTerm) string {
	for _, t := range terms {
		if t.count > 1 {
			return fmt.Sprintf("%d lines of one kind", t.count)
		}
	}
	return "lines"
}

// implies reports whether every line that matches a also matches b. texts are the texts that
// lines of a contain. implies may return false if the implication is hard to prove.
func implies(a pattern, texts [][]string, b pattern) bool {
	text, ok := b.onlyText()
	if !ok {
		return a.regex != "" && a.regex == b.regex
	}
	return inAll(texts, text)
}

// requiredTexts returns, for each alternative of a pattern, the texts that a matching line
// contains.
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
		return refusef("a set of several conditions needs a `window`")
	}
	m.rarestFirst()
	marks, err := m.commonTexts()
	if err != nil {
		return err
	}
	var branches []pattern
	for i, t := range m.terms {
		capture := fmt.Sprintf("(?P<%s>%s)", mark, quoteMeta(marks[i]))
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
	r.comments = append(r.comments, fmt.Sprintf("Each of the %d kinds of lines has to occur, in any order: `%s` is a text of each kind.", len(branches), mark))
	r.warn("a line that meets several conditions of the set counts for the first of them only")
	r.ifFails = "a line of its sample log meets several conditions of the set, and crowsnest counts a line for one of them only"
	return nil
}

// rarestFirst sorts the conditions by the number of sample lines that meet them. A line that
// meets several conditions counts for the first one.
func (m *meaning) rarestFirst() {
	order := make([]int, len(m.terms))
	lines := make([]int, len(m.terms))
	for i := range m.terms {
		order[i] = i
		match := m.terms[i].compile()
		for _, l := range m.sample {
			if match(l) {
				lines[i]++
			}
		}
	}
	sort.SliceStable(order, func(a, b int) bool { return lines[order[a]] < lines[order[b]] })
	terms, cre := make([]pattern, len(order)), make([]creTerm, len(order))
	for i, o := range order {
		terms[i], cre[i] = m.terms[o], m.cond.terms[o]
	}
	m.terms, m.cond.terms = terms, cre
}

// commonTexts returns a text for each condition. All lines of the condition contain it, and it
// differs from the texts of the other conditions.
func (m *meaning) commonTexts() ([]string, error) {
	candidates := make([][]string, len(m.terms))
	order := make([]int, len(m.terms))
	for i, t := range m.terms {
		candidates[i] = commonToAll(requiredTexts(t))
		order[i] = i
	}
	// The conditions with the fewest candidates choose first.
	sort.SliceStable(order, func(a, b int) bool { return len(candidates[order[a]]) < len(candidates[order[b]]) })
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
			t := m.cond.terms[i]
			return nil, refusef("line %d, column %d: the alternatives of this condition have no text in common: `%s`. A rule distinguishes the conditions of a set by such a text",
				t.valueAt.Line, t.valueAt.Column, shorten(t.value+t.regex+t.jq))
		}
	}
	return out, nil
}
