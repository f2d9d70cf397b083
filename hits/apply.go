package hits

import (
	"crowsnest/matcher"
	"crowsnest/rules"
)

// Reason is why hits were dropped.
type Reason string

// The reasons.
const (
	ReasonUnknown  Reason = "unknown_rule" // no rule of this name is loaded
	reasonDisabled Reason = "disabled"     // the rule is off
	reasonWants    Reason = "wants"        // the other version does not capture a value that ours needs
	reasonPart     Reason = "part"         // our rule has no such step, clear or unless
	reasonSelector Reason = "selector"     // our rule, or its part, does not select the stream
	reasonMatch    Reason = "match"        // our rule does not match the line
	reasonOrigin   Reason = "origin"       // our rule does not trust the namespace
)

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{ReasonUnknown, reasonDisabled, reasonWants, reasonPart, reasonSelector, reasonMatch, reasonOrigin}
}

// Outcome counts what happened to the hits of a batch.
type Outcome struct {
	Taken int
	// Other is how many of the accepted hits another version of their rule found.
	Other   int
	Dropped map[Reason]int
}

// Index finds the rules of a set by name. It is immutable.
type Index struct {
	set    *rules.Set
	byName map[string]*rules.Rule

	programs *programs
}

// NewIndex creates the index of a set.
func NewIndex(set *rules.Set) *Index {
	x := &Index{set: set, byName: make(map[string]*rules.Rule, len(set.Rules)), programs: &programs{set: set}}
	for _, r := range set.Rules {
		x.byName[r.Alert] = r
	}
	return x
}

// Of reports whether x is the index of this set.
func (x *Index) Of(set *rules.Set) bool { return x != nil && x.set == set }

// target is where the hits of one record go.
type target struct {
	rule   *rules.Rule // nil: no such rule is active
	why    Reason      // why hits are dropped unless their lines can be evaluated again; "": they fit
	other  bool
	values []string
}

// Find converts a batch to hits of the indexed rules, in reading order. During a rollout the
// sender may have another version of a rule: our version then evaluates the lines
// again. A folded line without its text is accepted unchanged if it has every value
// that our version captures, by name, and its part exists in our version.
func (b *Batch) Find(x *Index) ([]matcher.Hit, Outcome) {
	out := Outcome{}
	targets := make([]target, len(b.records))
	for i := range b.records {
		targets[i] = b.target(x, &b.records[i])
	}
	drop := func(why Reason) {
		if out.Dropped == nil {
			out.Dropped = map[Reason]int{}
		}
		out.Dropped[why]++
	}
	streams := map[streamKey]*matcher.Stream{}
	found := make([]matcher.Hit, 0, len(b.hits))
	for i := range b.hits {
		h := &b.hits[i]
		t := &targets[h.record]
		if t.other {
			if evaluateAgain, ok := b.evaluateAgain(x, streams, t.rule, h); ok {
				if len(evaluateAgain) == 0 {
					drop(reasonMatch)
					continue
				}
				out.Taken, out.Other = out.Taken+1, out.Other+1
				found = append(found, evaluateAgain...)
				continue
			}
		}
		if t.why != "" {
			drop(t.why)
			continue
		}
		out.Taken++
		if t.other {
			out.Other++
		}
		r := &b.records[h.record]
		found = append(found, matcher.Hit{
			Rule: t.rule, Part: r.part, Time: at(h.t), Line: h.text, Values: t.values, Labels: b.labels[r.labels], ID: h.id,
		})
	}
	return found, out
}

// target finds the rule of a record. It does not trust the sender, whatever hash the
// record names.
func (b *Batch) target(x *Index, rec *record) target {
	ref := &b.rules[rec.rule]
	r := x.byName[ref.name]
	switch {
	case r == nil:
		return target{why: ReasonUnknown}
	case r.Mode == rules.ModeOff:
		return target{why: reasonDisabled}
	}
	t := target{rule: r, values: make([]string, len(r.CapturedNames)), other: r.Hash != ref.hash}
	switch {
	case t.other && !r.Applies(b.labels[rec.labels], false):
		return target{why: reasonSelector}
	case !x.set.Trusts(r, b.labels[rec.labels]):
		return target{why: reasonOrigin}
	case !hasPart(r, rec.part):
		t.why = reasonPart
		return t
	case t.other && !rec.part.From(r).Matches(b.labels[rec.labels], false):
		t.why = reasonSelector
		return t
	}
	at := make(map[string]int, len(ref.wants))
	for i, name := range ref.wants {
		at[name] = i
	}
	for i, name := range r.CapturedNames {
		k, sent := at[name]
		if !sent {
			t.why = reasonWants
			return t
		}
		t.values[i] = rec.values[k]
	}
	return t
}

func hasPart(r *rules.Rule, p matcher.Part) bool {
	switch p {
	case matcher.PartClear:
		return r.Clear != nil
	case matcher.PartUnless:
		return r.Unless != nil
	}
	return p >= 0 && int(p) < len(r.Steps)
}
