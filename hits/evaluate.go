package hits

import (
	"math"
	"sync"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// programs holds programs for single rules, to evaluate hits that another version of
// the rule found. They are compiled on first use.
type programs struct {
	set *rules.Set
	all sync.Map // *rules.Rule to *matcher.Program, nil if it cannot be compiled
}

func (p *programs) of(r *rules.Rule) *matcher.Program {
	if known, ok := p.all.Load(r); ok {
		return known.(*matcher.Program)
	}
	one := *p.set
	one.Rules = []*rules.Rule{r}
	program, err := matcher.Compile(&one)
	if err != nil {
		program = nil // cannot happen: the whole set was compiled
	}
	p.all.Store(r, program)
	return program
}

type streamKey struct {
	rule   *rules.Rule
	labels int
}

// evaluateAgain evaluates the line of a hit with our version of its rule. ok is false if
// that is impossible.
func (b *Batch) evaluateAgain(x *Index, streams map[streamKey]*matcher.Stream, r *rules.Rule, h *folded) (found []matcher.Hit, ok bool) {
	program := x.programs.of(r)
	if program == nil || !h.textWritten {
		return nil, false
	}
	key := streamKey{r, b.records[h.record].labels}
	s := streams[key]
	if s == nil {
		s = matcher.NewStream(b.labels[key.labels], matcher.StreamOptions{})
		streams[key] = s
	}
	found = program.Match(s, matcher.Record{Time: at(h.t), Text: []byte(h.text)})
	for i := range found {
		found[i].ID, found[i].Labels = h.id, b.labels[key.labels]
	}
	return found, true
}

// Unknown returns a sealed batch of the hits whose rules are not indexed, with the text
// of every line that has one, and the number of hits; nil if there are none.
func (b *Batch) Unknown(x *Index) (payload []byte, n int) {
	var out Builder
	made := make([]*rules.Rule, len(b.rules))
	for i := range b.hits {
		h := &b.hits[i]
		rec := &b.records[h.record]
		ref := &b.rules[rec.rule]
		if x.byName[ref.name] != nil {
			continue
		}
		if made[rec.rule] == nil {
			made[rec.rule] = &rules.Rule{Alert: ref.name, Hash: ref.hash, CapturedNames: ref.wants, Count: math.MaxInt}
		}
		if out.Full() {
			break // the original batch was no larger
		}
		out.Whole = map[string]bool{ref.name: true}
		out.Add(&matcher.Hit{Rule: made[rec.rule], Part: rec.part, Time: at(h.t), Line: h.text, Values: rec.values, Labels: b.labels[rec.labels], ID: h.id})
	}
	n = out.Len()
	return out.Seal(), n
}

// Rules returns the names of the rules of the hits.
func (b *Batch) Rules() []string {
	out := make([]string, len(b.rules))
	for i := range b.rules {
		out[i] = b.rules[i].name
	}
	return out
}

// Oldest returns the lowest event time of the hits in nanoseconds since 1970;
// math.MaxInt64 if there are none.
func (b *Batch) Oldest() int64 {
	least := int64(math.MaxInt64)
	for i := range b.hits {
		least = min(least, b.hits[i].t)
	}
	return least
}
