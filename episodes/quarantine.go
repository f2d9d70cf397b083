package episodes

import "crowsnest/rules"

// runGuarded calls f for one rule and reports whether f returned. If f panics, the rule is
// quarantined: its hits are ignored, its episodes stay open, and nothing is concluded from its
// silence until Swap installs another version. Other rules are not affected.
func (e *Engine) runGuarded(rs *ruleState, now int64, f func()) (ok bool) {
	defer func() {
		if p := recover(); p != nil {
			e.quarantineRule(rs, now)
		}
	}()
	f()
	return true
}

func (e *Engine) quarantineRule(rs *ruleState, now int64) {
	rs.quarantined = true
	rs.disarmDeadlines() // other rules share the heap of its deadlines, and computing them may be what panics
	e.freezeRule(rs, now)
}

// Quarantined returns the rules that panicked in the engine and are no longer evaluated, in the
// order of the rule set.
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
