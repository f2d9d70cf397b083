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

// Swap installs a set of rules. A rule whose semantic hash is unchanged keeps its state. If the labels of an open alert
// change, the old alert is resolved and a new alert continues it with the same start. The alerts of removed and changed
// rules are resolved.
func (e *Engine) Swap(set *rules.Set, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := instant.FromTime(now)
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
			if moved || quotaClass(rs.rule) != quotaClass(r) {
				rs.changeClass(quotaClass(r))
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
	e.bindSources()
	e.markParticipants()
	for _, rs := range e.order {
		if kept[rs] && !rs.quarantined {
			e.runGuarded(rs, at, func() { rs.relabel(at) })
		}
	}
	for _, rs := range before {
		if !kept[rs] {
			e.runGuarded(rs, at, func() { rs.endAll(at) })
		}
	}
}

// relabel gives the open alerts of a rule the labels of its new version.
func (rs *ruleState) relabel(now int64) {
	for _, ep := range rs.sortedEpisodes() {
		before := ep.transition(now)
		ep.computeLabels()
		rs.markUnsettled()
		if ep.print == before.Fingerprint {
			rs.journal.markContinued(ep) // the annotations of the alert may have changed
			continue
		}
		ep.history.addEvent(Event{Time: instant.ToTime(now), Kind: EventRenamed})
		if ep.state == StateFiring {
			before.setEnd(StateResolved, ReasonIdentity, max(now, ep.starts-ep.clockShift), now)
			rs.journal.add(before)
		}
		rs.journal.add(ep.transition(now))
	}
	if rs.overflow.active {
		rs.overflow.rename(now)
	}
}

func (rs *ruleState) endAll(now int64) {
	for _, ep := range rs.sortedEpisodes() {
		ep.close(ReasonRemoved, now, now, window.Text{})
	}
	if rs.overflow.active {
		rs.overflow.end(now, now, ReasonRemoved)
	}
	rs.windows.Purge()
	rs.clearLines.lines.Purge()
	rs.unlessLines.lines.Purge()
	if rs.armed != nil {
		rs.armed.removeAll()
	}
}

// changeClass moves the state of the rule to another quota class, because the class of its new version differs, or
// because other namespaces are trusted now.
func (rs *ruleState) changeClass(c quota.Class) {
	for _, s := range []*quota.Group{rs.slots, rs.windows.Group, rs.clearLines.lines.Group, rs.unlessLines.lines.Group} {
		s.Reclass(c)
	}
	if rs.armed != nil {
		rs.armed.Reclass(c)
	}
}
