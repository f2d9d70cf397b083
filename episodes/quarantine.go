package episodes

import (
	"crowsnest/rules"
)

// guard runs f for one rule and reports whether f returned. If f panics, the rule is
// quarantined: its hits are ignored, its episodes stay open, and nothing is concluded
// from its silence until Swap installs another version. Other rules are not affected.
func (e *Engine) guard(rs *ruleState, now int64, f func()) (ok bool) {
	defer e.recoverRule(rs, now)
	f()
	return true
}

// recoverRule is deferred around the work for one rule. The caller holds the lock.
func (e *Engine) recoverRule(rs *ruleState, now int64) {
	if p := recover(); p != nil && rs != nil {
		e.quarantine(rs, now)
	}
}

func (e *Engine) quarantine(rs *ruleState, now int64) {
	rs.quarantined = true
	// Its deadlines are in a heap that other rules share, and may be what panics.
	for _, ep := range rs.open {
		ep.due.disarm()
	}
	for _, l := range rs.lapses {
		l.due.disarm()
	}
	rs.over.due.disarm()
	if rs.suspended == noTime {
		rs.suspended = now
		e.isolate(rs)
	}
}

// Quarantined returns the rules that panicked in the engine and are no longer
// evaluated, in order of the rules.
func (e *Engine) Quarantined() []*rules.Rule {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []*rules.Rule
	for _, rs := range e.order {
		if rs.quarantined {
			out = append(out, rs.rule)
		}
	}
	return out
}

// broken is the state of an episode whose texts cannot be made.
func (ep *episode) broken() Episode {
	return Episode{
		Fingerprint: ep.print, Rule: ep.rs.rule, Alert: ep.rs.rule.Alert, State: ep.state, Labels: ep.labels,
		StartsAt: instant(ep.starts - ep.moved), LastSeen: instant(ep.newest), Written: instant(ep.written), Count: ep.lines,
		Annotations: map[string]string{"summary": "The texts of this alert could not be made because of a defect of crowsnest"},
	}
}

// exportSafely is export. If the rule panics, it is quarantined, and the episode is
// returned without texts.
func (e *Engine) exportSafely(ep *episode, now int64) (x Episode) {
	if !e.guard(ep.rs, now, func() { x = e.export(ep, now) }) {
		x = ep.broken()
	}
	return x
}
