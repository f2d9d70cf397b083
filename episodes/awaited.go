package episodes

import (
	"fmt"
	"slices"
	"strings"

	"crowsnest/episodes/internal/intake"
	"crowsnest/episodes/internal/watermark"
	"crowsnest/internal/text"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
)

// awaitedParts are the parts of a rule whose lines a conclusion waits for, with the group of sources that can serve
// these parts. The watermark of the group ignores lagging streams, because a lagging stream delays only the conclusions
// that its lines could change.
type awaitedParts struct {
	*watermark.Group
	rs    *ruleState
	parts []*part

	lags       []lag // lagging streams that at least one of the parts may read
	generation uint64

	waits   []AwaitedPart // cached waits for sources, computed at the time waitsAt
	waitsAt int64
}

// part is a part of a rule. keyed are indexes of values of `by`. A line of the part applies to the keys that have the
// same values at these indexes.
type part struct {
	name     string
	from     rules.Selector
	keyed    []int
	captures func() []string // returns the names that the part may capture from a line
}

// lag is a lagging stream whose lines a part may read.
type lag struct {
	*watermark.Lag
	part *part
	// requiredValues are the values of `by` that a key must have if lines of the stream belong to it.
	requiredValues []requiredValue
	who            *intake.Identity
	// anyIdentity is set if the identity of the stream is not known.
	anyIdentity bool
}

type requiredValue struct {
	index int
	value string
}

func (rs *ruleState) newPart(matched matcher.Part, from rules.Selector, shared []string, captures func() []string) *part {
	p := &part{name: matched.Name(rs.rule), from: from, captures: captures}
	for i, name := range rs.rule.By {
		if slices.Contains(shared, name) {
			p.keyed = append(p.keyed, i)
		}
	}
	return p
}

// readUpTo returns the watermark for conclusions about one key. All lines up to this time that could change such a
// conclusion were read. The key consists of these values of `by` and the identity who. If loose is set, the key matches
// any identity.
func (a *awaitedParts) readUpTo(values []redact.Text, who *intake.Identity, loose bool) int64 {
	out := a.Watermark()
	for l := range a.delayingLags(values, who, loose) {
		out = min(out, l.Watermark())
	}
	return out
}

// readUpToForAll is readUpTo for conclusions about any key.
func (a *awaitedParts) readUpToForAll() int64 {
	out := a.Watermark()
	for i := range a.relevantLags() {
		out = min(out, a.lags[i].Watermark())
	}
	return out
}

// delayingLags yields the lagging streams whose lines could change a conclusion about a key.
func (a *awaitedParts) delayingLags(values []redact.Text, who *intake.Identity, loose bool) func(func(lag) bool) {
	return func(yield func(lag) bool) {
		for _, l := range a.relevantLags() {
			if (loose || l.anyIdentity || l.who.KeySuffix() == who.KeySuffix()) &&
				!slices.ContainsFunc(l.requiredValues, func(n requiredValue) bool { return string(values[n.index]) != n.value }) && !yield(l) {
				return
			}
		}
	}
}

func (a *awaitedParts) relevantLags() []lag {
	all := a.Group.Lags()
	if len(all) == 0 {
		return nil
	}
	if a.generation == a.Generation() {
		return a.lags
	}
	a.lags, a.generation = nil, a.Generation()
	for _, l := range all {
		namespace := l.Stream.Labels["namespace"]
		if r := a.rs.rule; r.Infrastructure && namespace != "" && !a.rs.trusted.Has(namespace) {
			continue
		}
		for _, p := range a.parts {
			if p.from.MaySelect(l.Stream.Labels, l.Stream.UnknownLabels) {
				a.lags = append(a.lags, a.rs.matchLag(l, p))
			}
		}
	}
	return a.lags
}

// matchLag determines the keys that the lines of a lagging stream can belong to. The value of a name in `by` comes from
// the captures, then from the labels of the stream, then from the fields of the line. Therefore a label of the stream
// determines a value only if the part does not capture that name.
func (rs *ruleState) matchLag(l *watermark.Lag, p *part) lag {
	out := lag{Lag: l, part: p, who: rs.in.Identity(l.Stream.Labels)}
	unknown := func(name string) bool { return slices.Contains(l.Stream.UnknownLabels, name) }
	out.anyIdentity = slices.ContainsFunc(rs.cfg.Identity, unknown)
	captured := p.captures()
	for _, i := range p.keyed {
		name := rs.rule.By[i]
		value := l.Stream.Labels[name]
		if value == "" || unknown(name) || slices.Contains(captured, name) || value != text.Truncate(redact.Sanitise(value), intake.MaxValue) {
			continue
		}
		out.requiredValues = append(out.requiredValues, requiredValue{i, value})
	}
	return out
}

// onHoldFor reports whether a conclusion about a key is on hold. If group is true, the conclusion waits for sources,
// otherwise for lagging streams. waitsFor names the sources or streams that make no progress.
func (a *awaitedParts) onHoldFor(values []redact.Text, who *intake.Identity, loose, group bool, now int64) (onHold bool, waitsFor []string) {
	if group {
		waitsFor = a.SilentSources(now)
	}
	for l := range a.delayingLags(values, who, loose) {
		if l.OnHold(now) && !slices.Contains(waitsFor, l.Name()) {
			group, waitsFor = true, append(waitsFor, l.Name())
		}
	}
	return group, waitsFor
}

// describeWaits returns the parts for which a conclusion about a key waits, if the conclusion is on hold.
func (a *awaitedParts) describeWaits(values []redact.Text, who *intake.Identity, loose bool, now int64) []AwaitedPart {
	if a.waitsAt != now {
		a.waits, a.waitsAt = a.waitsForAll(now), now
	}
	out := a.waits
	for l := range a.delayingLags(values, who, loose) {
		if l.OnHold(now) {
			out = append(out[:len(out):len(out)], AwaitedPart{Part: l.part.name, Selector: l.part.from.String(), Sources: []string{l.Name()}})
		}
	}
	return out
}

func (a *awaitedParts) waitsForAll(now int64) []AwaitedPart {
	var unread, silent []AwaitedPart
	for _, p := range a.parts {
		if !a.CanServe(p.from) {
			unread = append(unread, AwaitedPart{Part: p.name, Selector: p.from.String()})
		} else if names := a.SilentFor(p.from, now); len(names) > 0 {
			silent = append(silent, AwaitedPart{Part: p.name, Selector: p.from.String(), Sources: names})
		}
	}
	if len(unread) > 0 {
		return unread // if no source reads the streams of a part, waiting for other sources cannot help
	}
	return silent
}

// groups are the groups of sources that the conclusions of a rule wait for. The groups are the same unless the parts of
// the rule have different sources.
type groups struct {
	// steps is the group of `match` or of all steps. The end of an episode by quiet or expiry, and the end of the
	// overflow alert, wait for this group.
	steps awaitedParts
	// firing is the group of the parts whose lines can prevent a pending episode from firing.
	firing awaitedParts
	// clearOrUnless is the group of `clear` and `unless`. If the rule has neither, it is the same as steps.
	clearOrUnless awaitedParts
	all           awaitedParts
	// unread are the distinct selectors of the parts whose streams no source reads.
	unread []rules.Selector
}

// bindSources finds the sources that can serve each rule and rebuilds the groups.
func (e *Engine) bindSources() {
	e.sources.Regroup()
	for _, rs := range e.order {
		rs.groups = e.findGroups(rs)
		e.runGuarded(rs, e.limits.losses.Now, rs.armDeadlines)
	}
}

func (e *Engine) findGroups(rs *ruleState) groups {
	r, frozen := rs.rule, rs.frozenAt()
	var steps, beside, firing []*part
	for i := range r.Steps {
		steps = append(steps, rs.newPart(matcher.Part(i), r.Steps[i].From, r.By, func() []string { return r.StepCaptures(i) }))
	}
	first := steps[0].from
	same := func(parts []*part) bool {
		return !slices.ContainsFunc(parts, func(p *part) bool { return !p.from.Equal(first) })
	}
	of := func(parts []*part) awaitedParts {
		var froms []rules.Selector
		for _, p := range parts {
			froms = append(froms, p.from)
		}
		return awaitedParts{Group: e.sources.Group(slices.CompactFunc(froms, rules.Selector.Equal), frozen), rs: rs, parts: parts}
	}
	own := of(steps)
	with := func(parts []*part) awaitedParts {
		if same(steps) && same(parts) {
			return awaitedParts{Group: own.Group, rs: rs, parts: parts}
		}
		return of(parts)
	}
	if (r.For > 0 || r.Silent > 0) && r.Clear == nil {
		firing = slices.Clone(steps)
	}
	if c := r.Clear; c != nil {
		p := rs.newPart(matcher.PartClear, c.From, c.Same, c.Captures)
		beside = append(beside, p)
		if r.For > 0 {
			firing = append(firing, p)
		}
	}
	if u := r.Unless; u != nil {
		p := rs.newPart(matcher.PartUnless, u.From, u.Same, u.Captures)
		beside, firing = append(beside, p), append(firing, p)
	}
	out := groups{steps: own, firing: own, clearOrUnless: own, all: with(slices.Concat(beside, steps))}
	if len(beside) > 0 {
		out.clearOrUnless = with(beside)
	}
	if len(firing) > 0 {
		out.firing = with(firing)
	}
	for from := range r.Selectors() {
		if !e.sources.CanServe(from) && !slices.ContainsFunc(out.unread, from.Equal) {
			out.unread = append(out.unread, from)
		}
	}
	return out
}

// ofPart returns the group of sources that can serve a part.
func (g *groups) ofPart(p matcher.Part) *awaitedParts {
	if p < 0 {
		return &g.clearOrUnless
	}
	return &g.steps
}

// onHold reports whether a conclusion waits for a source without progress, or for a part whose streams no source reads.
// If no source serves the steps of a rule, the rule concludes nothing.
func (g *groups) onHold(now int64) bool {
	return g.steps.IsServed() && (g.all.OnHold(now) || g.firing.OnHold(now) || g.clearOrUnless.OnHold(now))
}

// awaits returns the group of sources that the next conclusion about the episode waits for.
func (ep *episode) awaits() *awaitedParts {
	if ep.isFiringNext() {
		return &ep.rs.groups.firing
	}
	return &ep.rs.groups.steps
}

// ReadUpTo returns the watermark for the next conclusion about the episode. All lines up to this time that could change
// the conclusion were read.
func (ep *episode) ReadUpTo() int64 {
	return ep.awaits().readUpTo(ep.values, ep.who, ep.partialIdentity)
}

// awaits returns the group of sources that the conclusion about the brief failure waits for. If a clear line ended the
// brief failure, the lines of the steps do not matter, because a later trigger changes neither whether the failure
// fired nor when it ended.
func (l *briefFailure) awaits() *awaitedParts {
	if l.reason == ReasonClear {
		return &l.ep.rs.groups.clearOrUnless
	}
	return &l.ep.rs.groups.all
}

func (l *briefFailure) ReadUpTo() int64 {
	return l.awaits().readUpTo(l.ep.values, l.ep.who, l.ep.partialIdentity)
}
func (o *overflow) ReadUpTo() int64 { return o.rs.groups.steps.readUpToForAll() }
func (k *armedKey) ReadUpTo() int64 {
	return k.in.rs.groups.firing.readUpTo(k.values, k.who, k.partialIdentity)
}

// AwaitedPart is a part of a rule whose lines may not all have been read, so that a conclusion has to wait.
type AwaitedPart struct {
	Part     string   // name of the part, such as match, sequence_2, clear or unless
	Selector string   // selector of the streams that the part reads
	Sources  []string // sources without progress, sorted; empty if no source reads these streams
}

const maxNamed = 3

// BriefText describes in a few words why the conclusion waits.
func (w AwaitedPart) BriefText() string {
	switch len(w.Sources) {
	case 0:
		return "no source for " + w.Part
	case 1:
		return w.Sources[0] + " makes no progress"
	}
	return fmt.Sprintf("%d sources make no progress", len(w.Sources))
}

// String describes the wait in a sentence without a full stop.
func (w AwaitedPart) String() string {
	if len(w.Sources) == 0 {
		return fmt.Sprintf("`%s` waits for lines of %s, which no source reads", w.Part, w.Selector)
	}
	named := strings.Join(w.Sources[:min(len(w.Sources), maxNamed)], ", ")
	if n := len(w.Sources) - maxNamed; n > 0 {
		named += fmt.Sprintf(" and %d more", n)
	}
	if len(w.Sources) == 1 {
		return fmt.Sprintf("`%s` waits for source %s, which makes no progress", w.Part, named)
	}
	return fmt.Sprintf("`%s` waits for the sources %s, which make no progress", w.Part, named)
}
