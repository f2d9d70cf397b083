package episodes

import (
	"slices"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// groups are the groups of sources that the conclusions of a rule wait for. There is one group
// unless the parts of the rule have different sources.
type groups struct {
	// steps is the group of `match` or of all steps. The end by quiet, the expiry and the end
	// of the overflow alert wait for their lines.
	steps awaited
	// firing is the group of the parts whose lines can keep a pending episode from firing.
	firing awaited
	// beside is the group of `clear` and `unless`, or of the steps if the rule has neither.
	beside awaited
	all    awaited
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

// findGroups returns the groups of a rule.
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
	of := func(parts []*part) awaited {
		var froms []rules.Selector
		for _, p := range parts {
			froms = append(froms, p.from)
		}
		return awaited{Group: e.sources.Group(slices.CompactFunc(froms, rules.Selector.Equal), frozen), rs: rs, parts: parts}
	}
	own := of(steps)
	with := func(parts []*part) awaited {
		if same(steps) && same(parts) {
			return awaited{Group: own.Group, rs: rs, parts: parts}
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
	out := groups{steps: own, firing: own, beside: own, all: with(slices.Concat(beside, steps))}
	if len(beside) > 0 {
		out.beside = with(beside)
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
func (g *groups) ofPart(p matcher.Part) *awaited {
	if p < 0 {
		return &g.beside
	}
	return &g.steps
}

// onHold reports whether a conclusion waits for a source without progress, or for a part
// whose streams no source reads. A rule whose steps no source serves concludes nothing.
func (g *groups) onHold(now int64) bool {
	return g.steps.IsServed() && (g.all.OnHold(now) || g.firing.OnHold(now) || g.beside.OnHold(now))
}

// awaits returns what the next conclusion about the episode waits for.
func (ep *episode) awaits() *awaited {
	if ep.isFiringNext() {
		return &ep.rs.groups.firing
	}
	return &ep.rs.groups.steps
}

// ReadUpTo returns the time up to which the lines were read that the next conclusion waits
// for.
func (ep *episode) ReadUpTo() int64 { return ep.awaits().readUpTo(ep.values, ep.who, ep.loose) }

// awaits returns what the conclusion about the lapse waits for. A lapse that a clear line ended
// needs no further line of the steps, because a later line of the failure changes neither that
// it fired nor its end.
func (l *lapse) awaits() *awaited {
	if l.why == ReasonClear {
		return &l.ep.rs.groups.beside
	}
	return &l.ep.rs.groups.all
}

func (l *lapse) ReadUpTo() int64    { return l.awaits().readUpTo(l.ep.values, l.ep.who, l.ep.loose) }
func (o *overflow) ReadUpTo() int64 { return o.rs.groups.steps.readUpToForAll() }
func (k *armedKey) ReadUpTo() int64 {
	return k.in.rs.groups.firing.readUpTo(k.values, k.who, k.loose)
}
