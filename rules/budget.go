package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"crowsnest/rules/internal/expr"
	"crowsnest/rules/selector"
)

// Limits per file. A file of 1 MiB reaches them only by repeating the same expressions.
const (
	maxInstructions = 2_000_000
	maxClasses      = 1_000 // number of character classes with hundreds of ranges; see expr.CountCostlyClasses
)

// budget is the cost of the regular expressions of a file, which is computed before any of them is compiled. A file
// whose compilation would take longer than a second is refused.
type budget struct{ instructions, classes, maxInstructions, maxClasses int }

// newBudget returns the budget of a file. owned means that a namespace owns the file.
func newBudget(owned bool) budget {
	if owned {
		return budget{maxInstructions: maxOwnedInstructions, maxClasses: maxOwnedClasses}
	}
	return budget{maxInstructions: maxInstructions, maxClasses: maxClasses}
}

// expressions are the texts of a rule or an override that can contain regular expressions.
type expressions struct {
	patterns, selectors, templates []string
}

// addCost adds the cost of w to the budget. If the cost of the file is then too high, it returns the problem and the
// fix.
func (b *budget) addCost(w expressions) (problem, fix string) {
	for _, p := range w.patterns {
		b.classes += expr.CountCostlyClasses(p)
	}
	for _, s := range w.selectors {
		b.classes += expr.QuotedClasses(s)
	}
	for _, t := range w.templates {
		if strings.Contains(t, "reReplaceAll") {
			b.classes += expr.QuotedClasses(t)
		}
	}
	if b.classes > b.maxClasses {
		return fmt.Sprintf("the regular expressions of the rules up to this one have more than %d Unicode classes, such as \\pL", b.maxClasses),
			`use \w or [a-z] where the text is ASCII, or split the file`
	}
	for _, p := range w.patterns {
		b.instructions += expr.Size(p)
	}
	for _, text := range w.selectors {
		if !strings.Contains(text, "~") {
			continue // the selector has no expression
		}
		if s, err := selector.Parse(text); err == nil {
			b.instructions += s.Size()
		}
	}
	if b.instructions > b.maxInstructions {
		return fmt.Sprintf("the regular expressions of the rules up to this one have more than %d instructions", b.maxInstructions),
			"use smaller repetitions, or load fewer rules"
	}
	return "", ""
}

func (f *form) expressions() expressions {
	w := expressions{selectors: []string{f.From}, templates: slices.Concat(slices.Collect(maps.Values(f.Annotations)), []string{f.Remediation.Summary}, f.Remediation.Steps)}
	if f.Match != nil {
		w.addMatcher(&f.Match.Parts, "")
	}
	for i := range f.Sequence {
		w.addMatcher(&f.Sequence[i].Parts, f.Sequence[i].From)
	}
	if f.Clear != nil {
		w.addMatcher(&f.Clear.Parts, f.Clear.From)
	}
	if f.Unless != nil {
		w.addMatcher(&f.Unless.Parts, f.Unless.From)
	}
	return w
}

func (e *OverrideSyntax) expressions() (w expressions) {
	if u := e.AddUnless; u != nil {
		w.addMatcher(&u.Parts, u.From)
	}
	if s := e.Set; s != nil {
		w.templates = slices.Collect(maps.Values(s.Annotations))
		w.selectors = append(w.selectors, s.From)
	}
	return w
}

func (w *expressions) addMatcher(p *Parts, from string) {
	if from != "" {
		w.selectors = append(w.selectors, from)
	}
	if p.Regex != "" {
		w.patterns = append(w.patterns, p.Regex)
	}
	for _, v := range p.Field {
		if len(v) > 1 && v[0] == '~' {
			w.patterns = append(w.patterns, v[1:])
		}
	}
	for i := range p.Any {
		w.addMatcher(&p.Any[i].Parts, "")
	}
	if p.Not != nil {
		w.addMatcher(&p.Not.Parts, "")
	}
}
