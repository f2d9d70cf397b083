package episodes

import (
	"slices"
	"time"

	"crowsnest/episodes/internal/instant"
	"crowsnest/episodes/internal/intake"
	"crowsnest/episodes/internal/window"
	"crowsnest/internal/quota"
	"crowsnest/rules"
)

// Swap installs a set of rules. A rule whose semantic hash is unchanged keeps its state;
// if the labels of an open alert change, the old alert is resolved and the new one
// continues with the same start. The alerts of removed and changed rules are resolved.
func (e *Engine) Swap(set *rules.Set, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := instant.Of(now)
	e.recent, e.trusted = nil, set.Namespaces
	old, before := e.rules, e.order
	moved := !slices.Equal(e.limits.trusted.List(), set.Namespaces.List())
	if e.limits.trusted = set.Namespaces; moved {
		e.seen.Reclass()
	}
	kept := map[*ruleState]bool{}
	e.rules, e.order = map[string]*ruleState{}, nil
	for _, r := range set.Rules {
		if r.Mode == rules.ModeOff {
			continue
		}
		rs := old[r.Alert]
		if rs != nil && rs.rule.Hash == r.Hash {
			delete(old, r.Alert)
			if moved || classOf(rs.rule) != classOf(r) {
				rs.reclass(classOf(r))
			}
			rs.rule, rs.last, kept[rs] = r, intake.NewMemory(r), true
		} else {
			rs = newRuleState(r, &e.common)
			if was := old[r.Alert]; was != nil {
				rs.stats, rs.newest = was.stats, was.newest
			}
		}
		rs.pos = len(e.order)
		e.rules[r.Alert] = rs
		e.order = append(e.order, rs)
	}
	e.bind()
	e.participate()
	for _, rs := range e.order {
		if kept[rs] && !rs.quarantined {
			e.guard(rs, at, func() { rs.rename(at) })
		}
	}
	for _, rs := range before {
		if !kept[rs] {
			e.guard(rs, at, func() { rs.drop(at) })
		}
	}
}

// rename gives the open alerts of a rule the labels of its new version.
func (rs *ruleState) rename(now int64) {
	for _, ep := range rs.sorted() {
		before := ep.transition(now)
		ep.identify()
		rs.unsettle()
		if ep.print == before.Fingerprint {
			rs.journal.touch(ep) // its annotations may be new
			continue
		}
		ep.history.note(Event{At: instant.Time(now), Kind: EventRenamed})
		if ep.state == StateFiring {
			before.ended(StateResolved, ReasonIdentity, max(now, ep.starts-ep.moved), now)
			rs.journal.add(before)
		}
		rs.journal.add(ep.transition(now))
	}
	if rs.over.active {
		rs.over.rename(now)
	}
}

// drop ends the state of a rule that is no longer installed.
func (rs *ruleState) drop(now int64) {
	for _, ep := range rs.sorted() {
		ep.close(ReasonRemoved, now, now, window.Text{})
	}
	if rs.over.active {
		rs.over.end(now, now, ReasonRemoved)
	}
	rs.windows.Purge()
	rs.clear.lines.Purge()
	rs.unless.lines.Purge()
	if rs.armed != nil {
		rs.armed.purge()
	}
}

// reclass charges the state of the rule to the class of a new version, or to other parties
// that are infrastructure.
func (rs *ruleState) reclass(c quota.Class) {
	for _, s := range []*quota.Group{rs.slots, rs.windows.Group, rs.clear.lines.Group, rs.unless.lines.Group} {
		s.Reclass(c)
	}
	if rs.armed != nil {
		rs.armed.Reclass(c)
	}
}
