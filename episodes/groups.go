package episodes

import (
	"slices"

	"crowsnest/episodes/internal/watermark"
	"crowsnest/matcher"
	"crowsnest/rules"
)

// groups are the groups of sources that the conclusions of a rule wait for. They are one
// group unless the parts of the rule have different sources.
type groups struct {
	// steps are the sources of `match` or of all steps. Quiet, expiry and the end of the
	// overflow alert wait for them.
	steps *watermark.Group
	// firing are the sources of the lines whose absence makes a pending episode fire.
	firing *watermark.Group
	// beside are the sources of `clear` and `unless`; those of steps if there is neither.
	beside *watermark.Group
	all    *watermark.Group
	// unread are the selectors of parts whose streams no source reads, each once.
	unread []rules.Selector
}

// bind finds the sources that can serve each rule and rebuilds the groups.
func (e *Engine) bind() {
	e.sources.Regroup()
	for _, rs := range e.order {
		rs.groups = e.groupsOf(rs)
		e.guard(rs, e.limits.losses.Now, rs.arm)
	}
}

// groupsOf returns the groups of a rule.
func (e *Engine) groupsOf(rs *ruleState) groups {
	r, frozen := rs.rule, rs.frozen()
	var steps, beside []rules.Selector
	for i := range r.Steps {
		steps = append(steps, r.Steps[i].From)
	}
	steps = slices.CompactFunc(steps, rules.Selector.Equal)
	own := e.sources.Group(steps, frozen)
	of := func(froms ...rules.Selector) *watermark.Group {
		if len(steps) == 1 && !slices.ContainsFunc(froms, func(from rules.Selector) bool { return !from.Equal(steps[0]) }) {
			return own
		}
		return e.sources.Group(froms, frozen)
	}
	var firing []rules.Selector
	if (r.For > 0 || r.Silent > 0) && r.Clear == nil {
		firing = slices.Clone(steps)
	}
	if r.Clear != nil {
		beside = append(beside, r.Clear.From)
		if r.For > 0 {
			firing = append(firing, r.Clear.From)
		}
	}
	if r.Unless != nil {
		beside, firing = append(beside, r.Unless.From), append(firing, r.Unless.From)
	}
	out := groups{steps: own, firing: own, beside: own, all: of(append(beside, steps...)...)}
	if len(beside) > 0 {
		out.beside = of(beside...)
	}
	if len(firing) > 0 {
		out.firing = of(firing...)
	}
	for from := range r.Selectors() {
		if !e.sources.Serve(from) && !slices.ContainsFunc(out.unread, from.Equal) {
			out.unread = append(out.unread, from)
		}
	}
	return out
}

// ofPart returns the group of the sources that can serve a part.
func (g *groups) ofPart(p matcher.Part) *watermark.Group {
	if p < 0 {
		return g.beside
	}
	return g.steps
}

// onHold reports whether a conclusion waits for a source without progress, or for a part
// whose streams no source reads. A rule whose steps no source serves concludes nothing.
func (g *groups) onHold(now int64) bool {
	return g.steps.Served() && (g.all.OnHold(now) || g.firing.OnHold(now) || g.beside.OnHold(now))
}

// group is what the next conclusion about the episode waits for.
func (ep *episode) group() *watermark.Group {
	if ep.fires() {
		return ep.rs.groups.firing
	}
	return ep.rs.groups.steps
}

// group is what the conclusion about the lapse waits for. One that a clear line ended needs
// no further line of the steps: a later line of the failure changes neither that it fired
// nor its end.
func (l *lapse) group() *watermark.Group {
	if l.why == ReasonClear {
		return l.ep.rs.groups.beside
	}
	return l.ep.rs.groups.all
}
