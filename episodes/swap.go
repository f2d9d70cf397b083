package episodes

import (
	"time"

	"crowsnest/episodes/internal/fair"
	"crowsnest/episodes/internal/window"
	"crowsnest/rules"
)

// Swap installs a set of rules. A rule whose semantic hash is unchanged keeps its state;
// if the labels of an open alert change, the old alert is resolved and the new one
// continues with the same start. The alerts of removed and changed rules are resolved.
func (e *Engine) Swap(set *rules.Set, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := nanos(now)
	e.recent = nil
	old, before := e.rules, e.order
	kept := map[*ruleState]bool{}
	e.rules, e.order = map[string]*ruleState{}, nil
	for _, r := range set.Rules {
		if r.Mode == rules.ModeOff {
			continue
		}
		rs := old[r.Alert]
		if rs != nil && rs.rule.Hash == r.Hash {
			delete(old, r.Alert)
			rs.rule, rs.last, kept[rs] = r, recall{}, true
			rs.reclass()
		} else {
			rs = newRuleState(r, &e.cfg, &e.limits)
			if was := old[r.Alert]; was != nil {
				rs.stats, rs.newest = was.stats, was.newest
			}
		}
		rs.pos = len(e.order)
		e.rules[r.Alert] = rs
		e.order = append(e.order, rs)
	}
	e.bind()
	for _, rs := range e.order {
		if kept[rs] && !rs.quarantined {
			e.guard(rs, at, func() { e.rename(rs, at) })
		}
	}
	for _, rs := range before {
		if !kept[rs] {
			e.guard(rs, at, func() { e.drop(rs, at) })
		}
	}
}

// rename gives the open episodes of a rule the labels of its new version.
func (e *Engine) rename(rs *ruleState, now int64) {
	for _, ep := range rs.sorted() {
		before := ep.transition(now, &e.in.Copier)
		e.identify(ep)
		if ep.print == before.Fingerprint {
			e.journal.touch(ep) // its annotations may be new
			continue
		}
		ep.history.note(Event{At: instant(now), Kind: EventRenamed})
		if ep.state == StateFiring {
			before.ended(StateResolved, ReasonIdentity, max(now, ep.starts-ep.moved), now)
			e.journal.add(before)
		}
		e.journal.add(ep.transition(now, &e.in.Copier))
	}
	if !rs.over.active {
		return
	}
	before := rs.over.transition(now)
	rs.over.labels = e.overflowLabels(rs)
	if rs.over.print = printOf(rs.over.labels); rs.over.print != before.Fingerprint {
		before.ended(StateResolved, ReasonIdentity, now, now)
		e.journal.add(before)
		e.journal.add(rs.over.transition(now))
	}
}

// drop ends all episodes of a rule that is no longer installed.
func (e *Engine) drop(rs *ruleState, now int64) {
	for _, ep := range rs.sorted() {
		e.close(ep, ReasonRemoved, now, now, window.Text{})
	}
	if rs.over.active {
		e.endOverflow(rs, now, now, ReasonRemoved)
	}
	rs.windows.Purge()
	rs.cleared.Purge()
	rs.muted.Purge()
}

// reclass charges what the rule has to the class of its severity, which a new
// version may have changed.
func (rs *ruleState) reclass() {
	c := classOf(rs.rule)
	for _, s := range []*fair.Shelf{rs.slots, rs.windows.Shelf, rs.cleared.Shelf, rs.muted.Shelf} {
		s.Reclass(c)
	}
}
