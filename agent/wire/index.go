package wire

import (
	"math"
	"sync"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// Reason is a reason why hits were dropped.
type Reason string

// Values of Reason.
const (
	ReasonUnknown  Reason = "unknown_rule" // no rule with this name is loaded
	reasonDisabled Reason = "disabled"     // the rule is off
	reasonWants    Reason = "wants"        // the sender's version does not capture a value that our version needs
	reasonPart     Reason = "part"         // our version of the rule has no such step, clear or unless
	reasonSelector Reason = "selector"     // our rule, or the part of it, does not select the stream
	reasonMatch    Reason = "match"        // our rule does not match the line
	reasonOrigin   Reason = "origin"       // our rule does not trust the namespace
)

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{ReasonUnknown, reasonDisabled, reasonWants, reasonPart, reasonSelector, reasonMatch, reasonOrigin}
}

// Outcome counts the hits of a batch by result.
type Outcome struct {
	AcceptedHits     int // number of accepted hits
	OtherVersionHits int // number of accepted hits that another version of the rule had found
	DroppedHits      map[Reason]int
}

// Index finds the rules of a set by name. It is safe for concurrent use.
type Index struct {
	set      *rules.Set
	byName   map[string]*rules.Rule
	programs sync.Map // *matcher.Program of each *rules.Rule; a program contains only this rule
}

// NewIndex returns the index of a set of rules.
func NewIndex(set *rules.Set) *Index {
	x := &Index{set: set, byName: make(map[string]*rules.Rule, len(set.Rules))}
	for _, r := range set.Rules {
		x.byName[r.Alert] = r
	}
	return x
}

// IsOf reports whether x is the index of this set.
func (x *Index) IsOf(set *rules.Set) bool { return x != nil && x.set == set }

// compiledRule returns the program of a rule. It compiles the rule when it is first used. It
// returns nil if the rule cannot be compiled.
func (x *Index) compiledRule(r *rules.Rule) *matcher.Program {
	if known, ok := x.programs.Load(r); ok {
		return known.(*matcher.Program)
	}
	one := *x.set
	one.Rules = []*rules.Rule{r}
	program, err := matcher.Compile(&one)
	if err != nil {
		program = nil // impossible, because the whole set was compiled before
	}
	x.programs.Store(r, program)
	return program
}

// target describes how the hits of one record are accepted or dropped.
type target struct {
	rule           *rules.Rule // rule with the name that the record states; nil if no rule with this name is active
	dropReason     Reason      // reason to drop hits whose lines cannot be evaluated again; empty if such hits are accepted
	isOtherVersion bool        // whether the sender has another version of the rule
	values         []string
}

// streamKey identifies a stream on which a rule evaluates lines again.
type streamKey struct {
	rule   *rules.Rule
	labels int
}

// FindHits converts a batch to hits of the indexed rules, in the order of reading. During a rollout, the sender may
// have another version of a rule. Our version then evaluates the lines again. A line without its text cannot be
// evaluated again. Its hit is accepted unchanged if our version has the part that the line matched, and if the hit has
// every value that our version captures.
func (b *Batch) FindHits(x *Index) ([]matcher.Hit, Outcome) {
	out := Outcome{}
	targets := make([]target, len(b.records))
	for i := range b.records {
		targets[i] = b.findRule(x, &b.records[i])
	}
	drop := func(why Reason) {
		if out.DroppedHits == nil {
			out.DroppedHits = map[Reason]int{}
		}
		out.DroppedHits[why]++
	}
	streams := map[streamKey]*matcher.Stream{}
	found := make([]matcher.Hit, 0, len(b.hits))
	for i := range b.hits {
		h := &b.hits[i]
		t := &targets[h.record]
		if t.isOtherVersion {
			if again, ok := b.evaluateAgain(x, streams, t.rule, h); ok {
				if len(again) == 0 {
					drop(reasonMatch)
					continue
				}
				out.AcceptedHits, out.OtherVersionHits = out.AcceptedHits+1, out.OtherVersionHits+1
				found = append(found, again...)
				continue
			}
		}
		if t.dropReason != "" {
			drop(t.dropReason)
			continue
		}
		out.AcceptedHits++
		if t.isOtherVersion {
			out.OtherVersionHits++
		}
		r := &b.records[h.record]
		found = append(found, matcher.Hit{
			Rule: t.rule, Part: r.part, Time: timeOfNanos(h.t), Line: h.text, Values: t.values, Labels: b.labels[r.labels], ID: h.id,
		})
	}
	return found, out
}

// findRule finds the rule of a record. It checks everything that the sender states, even if
// the sender has the same version of the rule.
func (b *Batch) findRule(x *Index, rec *record) target {
	ref, labels := &b.rules[rec.rule], b.labels[rec.labels]
	r := x.byName[ref.name]
	switch {
	case r == nil:
		return target{dropReason: ReasonUnknown}
	case r.Mode == rules.ModeOff:
		return target{dropReason: reasonDisabled}
	}
	t := target{rule: r, values: make([]string, len(r.CapturedNames)), isOtherVersion: r.Hash != ref.hash}
	switch {
	case t.isOtherVersion && !r.Applies(labels, false):
		return target{dropReason: reasonSelector}
	case !x.set.Trusts(r, labels):
		return target{dropReason: reasonOrigin}
	case !hasPart(r, rec.part):
		t.dropReason = reasonPart
		return t
	case t.isOtherVersion && !rec.part.SelectorOf(r).Matches(labels, false):
		t.dropReason = reasonSelector
		return t
	}
	positions := make(map[string]int, len(ref.wants))
	for i, name := range ref.wants {
		positions[name] = i
	}
	for i, name := range r.CapturedNames {
		k, sent := positions[name]
		if !sent {
			t.dropReason = reasonWants
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

// evaluateAgain evaluates the line of a hit with our version of its rule. ok is false if that
// is impossible, because the line has no text or the rule cannot be compiled.
func (b *Batch) evaluateAgain(x *Index, streams map[streamKey]*matcher.Stream, r *rules.Rule, h *foldedHit) (found []matcher.Hit, ok bool) {
	program := x.compiledRule(r)
	if program == nil || !h.textWritten {
		return nil, false
	}
	key := streamKey{r, b.records[h.record].labels}
	s := streams[key]
	if s == nil {
		s = matcher.NewStream(b.labels[key.labels], matcher.StreamOptions{})
		streams[key] = s
	}
	found = program.Match(s, matcher.Record{Time: timeOfNanos(h.t), Text: []byte(h.text)})
	for i := range found {
		found[i].ID, found[i].Labels = h.id, b.labels[key.labels]
	}
	return found, true
}

// UnknownHits returns a sealed batch of the hits whose rules are not indexed, and their number. The batch contains the
// text of every line that has one. The batch is nil if there are no such hits.
func (b *Batch) UnknownHits(x *Index) (payload []byte, n int) {
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
		if out.IsFull() {
			break // a valid batch contains no further hits
		}
		out.FullTextRules = map[string]bool{ref.name: true}
		out.Add(&matcher.Hit{Rule: made[rec.rule], Part: rec.part, Time: timeOfNanos(h.t), Line: h.text, Values: rec.values, Labels: b.labels[rec.labels], ID: h.id})
	}
	n = out.Len()
	return out.Seal(), n
}

// RuleNames returns the names of the rules that have hits.
func (b *Batch) RuleNames() []string {
	out := make([]string, len(b.rules))
	for i := range b.rules {
		out[i] = b.rules[i].name
	}
	return out
}

// OldestTime returns the time of the oldest hit in nanoseconds since 1970, or math.MaxInt64 if there are no hits.
func (b *Batch) OldestTime() int64 {
	oldest := int64(math.MaxInt64)
	for i := range b.hits {
		oldest = min(oldest, b.hits[i].t)
	}
	return oldest
}
