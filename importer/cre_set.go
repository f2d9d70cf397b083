package importer

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"sort"
	"strings"
)

// A set is complete when each of its conditions was met by some line within the window, in any
// order. The language counts different values of a name (`distinct`), so each condition captures a
// text of its own: one that all of its lines contain.

// mark is the name of the captured text.
const mark = "condition"

// dropImplied removes conditions of a set that every line of another one meets: they are met at the
// same time.
func (m *meaning) dropImplied() error {
	counts := slices.ContainsFunc(m.cond.terms, func(t creTerm) bool { return t.count > 1 })
	if counts && len(m.terms) > 1 {
		return refusef("the set counts %s and also demands lines of other kinds, in any order: a rule counts lines of one kind, or different kinds", countsOf(m.cond.terms))
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
			// Of equal conditions, the first one stays.
			implied = implied || j != i && implies(other, texts[j], t) && (j < i || !implies(t, texts[i], other))
		}
		if !implied {
			kept, terms = append(kept, t), append(terms, m.cond.terms[i])
		}
	}
	m.terms, m.cond.terms = kept, terms
	return nil
}

// maxConditions bounds a set, as preq does.
const maxConditions = 64

func countsOf(terms []creTerm) string {
	for _, t := range terms {
		if t.count > 1 {
			return fmt.Sprintf("%d lines of one kind", t.count)
		}
	}
	return "lines"
}

// implies reports whether every line that satisfies a, and so contains its texts, also satisfies b.
// It may return false where that is hard to prove.
func implies(a pattern, texts [][]string, b pattern) bool {
	text, ok := b.onlyText()
	if !ok {
		return a.regex != "" && a.regex == b.regex && len(b.contains)+len(b.fields)+len(b.any) == 0 && b.not == nil
	}
	return inAll(texts, text)
}

// requiredTexts returns the texts that a line of the pattern contains, for each alternative.
func requiredTexts(m pattern) [][]string {
	out := [][]string{m.contains}
	if m.regex == "" {
		return out
	}
	re, err := syntax.Parse(m.regex, syntax.Perl)
	if err != nil {
		return out
	}
	out = required(re)
	for i := range out {
		out[i] = append(out[i], m.contains...)
	}
	return out
}

// set translates a set of several conditions.
func (m *meaning) set() error {
	if m.cond.window <= 0 {
		return refusef("a set of several conditions needs a `window`")
	}
	m.rarestFirst()
	marks, err := m.marks()
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
			branches = append(branches, t)
			continue
		}
		branches = append(branches, all([]pattern{t, {any: []pattern{{regex: capture}}}}))
	}
	r := m.rule
	r.match, r.distinct, r.count, r.within = pattern{any: branches}, mark, len(branches), m.cond.window
	r.comments = append(r.comments, fmt.Sprintf("Each of the %d kinds of lines has to occur, in any order: `%s` is a text of each kind.", len(branches), mark))
	r.warn("a line that meets several conditions of the set counts for the first of them only")
	r.ifFails = "a line of its sample log meets several conditions of the set, and crowsnest counts a line for one of them only"
	return nil
}

// rarestFirst sorts the conditions by how many lines of the sample meet them: a line that meets
// several counts for the first one.
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

// marks returns a text for each condition that all of its lines contain, and that differs from
// those of the others.
func (m *meaning) marks() ([]string, error) {
	candidates := make([][]string, len(m.terms))
	order := make([]int, len(m.terms))
	for i, t := range m.terms {
		candidates[i] = common(requiredTexts(t))
		order[i] = i
	}
	// Those with the fewest choose first.
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
