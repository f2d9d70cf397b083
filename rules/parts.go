package rules

import (
	"fmt"
	"iter"
	"slices"
)

// rulePart is a matcher of a rule with the selector of the streams that it reads.
type rulePart struct {
	name    string // clear, unless, match, or for example "step 2" in a sequence
	from    Selector
	matcher *Matcher
}

// ruleParts returns the parts of a rule in the order clear, unless, steps.
func ruleParts(r *Rule) []rulePart {
	out := make([]rulePart, 0, len(r.Steps)+2)
	if r.Clear != nil {
		out = append(out, rulePart{"clear", r.Clear.From, &r.Clear.Matcher})
	}
	if r.Unless != nil {
		out = append(out, rulePart{"unless", r.Unless.From, &r.Unless.Matcher})
	}
	for i := range r.Steps {
		name := "match"
		if r.Sequence {
			name = fmt.Sprintf("step %d", i+1)
		}
		out = append(out, rulePart{name, r.Steps[i].From, &r.Steps[i].Matcher})
	}
	return out
}

// Selectors yields the distinct selectors of the parts in the order clear, unless, steps.
func (r *Rule) Selectors() iter.Seq[Selector] {
	return func(yield func(Selector) bool) {
		parts := ruleParts(r)
		for i, p := range parts {
			known := slices.ContainsFunc(parts[:i], func(o rulePart) bool { return o.from.Equal(p.from) })
			if !known && !yield(p.from) {
				return
			}
		}
	}
}

// Applies reports whether a part of the rule selects a stream. lenient is explained at Selector.Matches.
func (r *Rule) Applies(labels map[string]string, lenient bool) bool {
	for from := range r.Selectors() {
		if from.Matches(labels, lenient) {
			return true
		}
	}
	return false
}

// WithFrom returns a copy of the rule in which replacement takes the place of the selector old, in the rule and in its
// parts.
func (r *Rule) WithFrom(old, replacement Selector) *Rule {
	out := *r
	replace := func(from *Selector) {
		if from.Equal(old) {
			*from = replacement
		}
	}
	replace(&out.From)
	out.Steps = slices.Clone(r.Steps)
	for i := range out.Steps {
		replace(&out.Steps[i].From)
	}
	for _, a := range []**ClearOrUnless{&out.Clear, &out.Unless} {
		if *a != nil {
			c := **a
			replace(&c.From)
			*a = &c
		}
	}
	return &out
}

// OwnSelectors returns the selectors of parts that differ from the rule's From, by the name of the part. A name is
// clear, unless, or for example "step 2" in a sequence. The map is nil if there are none.
func (r *Rule) OwnSelectors() map[string]string {
	var out map[string]string
	for _, p := range ruleParts(r) {
		if !p.from.Equal(r.From) {
			if out == nil {
				out = map[string]string{}
			}
			out[p.name] = p.from.String()
		}
	}
	return out
}
