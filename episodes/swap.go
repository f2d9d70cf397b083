package episodes

import (
	"time"

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
			rs = e.newRuleState(r)
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
		labels, print := ep.labels, ep.print
		e.identify(ep)
		if ep.print == print {
			e.touch(ep) // its annotations may be new
			continue
		}
		newLabels, newPrint := ep.labels, ep.print
		ep.labels, ep.print = labels, print
		before := e.export(ep, now)
		ep.labels, ep.print = newLabels, newPrint
		ep.history.note(transition{at: now, kind: didRename})
		if ep.state == StateFiring {
			before.State, before.Reason = StateResolved, ReasonIdentity
			before.EndsAt, before.Concluded = instant(max(now, ep.starts-ep.moved)), instant(now)
			e.changes = append(e.changes, before)
		}
		e.changes = append(e.changes, e.export(ep, now))
	}
	if !rs.over.active {
		return
	}
	before := e.exportOverflow(rs, now)
	rs.over.labels = e.overflowLabels(rs)
	if rs.over.print = printOf(rs.over.labels); rs.over.print != before.Fingerprint {
		before.State, before.Reason = StateResolved, ReasonIdentity
		before.EndsAt, before.Concluded = instant(now), instant(now)
		e.changes = append(e.changes, before, e.exportOverflow(rs, now))
	}
}

// drop ends all episodes of a rule that is no longer installed.
func (e *Engine) drop(rs *ruleState, now int64) {
	for _, ep := range rs.sorted() {
		e.close(ep, ReasonRemoved, now, now)
	}
	if rs.over.active {
		e.endOverflow(rs, now, now, ReasonRemoved)
	}
	rs.windows.purge()
	rs.cleared.purge()
	rs.muted.purge()
}

// reclass charges what the rule has to the class of its severity, which a new
// version may have changed.
func (rs *ruleState) reclass() {
	c := classOf(rs.rule)
	for _, s := range []*shelf{rs.slots, rs.windows.shelf, rs.cleared.shelf, rs.muted.shelf} {
		s.reclass(c)
	}
}

// Stats are the counters of an engine.
type Stats struct {
	Totals
	Seen int // fingerprints that are remembered
	// Evictions counts dropped state that could have made a difference, for a bounded
	// number of namespaces and rules.
	Evictions []Eviction
	Rules     []RuleStatus
}

// RuleStatus is the state of one rule.
type RuleStatus struct {
	Rule *rules.Rule
	RuleStats
	Pending, Firing int
	Overflow        bool
	OnHold          bool
	Windows         int
	// Inactive is set if no source can serve the rule.
	Inactive bool
	// Watermark is the event time up to which all lines of its sources were read; zero:
	// unknown.
	Watermark time.Time
}

// Stats returns a copy of all counters, in order of the rules.
func (e *Engine) Stats(now time.Time) Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := Stats{Totals: e.total, Seen: len(e.seen.slots), Evictions: e.evictions.list()}
	s.SeenEvicted = e.seen.evicted
	s.Rules = make([]RuleStatus, 0, len(e.order))
	at := nanos(now)
	for _, rs := range e.order {
		st := RuleStatus{
			Rule: rs.rule, RuleStats: rs.stats, Overflow: rs.over.active, OnHold: rs.onHold(at),
			Pending: rs.pending, Firing: len(rs.open) - rs.pending,
			Windows: rs.windows.used, Inactive: len(rs.group.sources) == 0,
		}
		if st.Matches > 0 {
			st.LastMatch = instant(rs.newest)
		}
		if w := rs.watermark(); w > 0 {
			st.Watermark = instant(w)
		}
		s.Rules = append(s.Rules, st)
	}
	return s
}
