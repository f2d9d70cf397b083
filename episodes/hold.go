package episodes

import "time"

// HoldBack stops the watermarks of rules, by name, at a time: after it, an agent that
// reads their lines matched another version of the rule. Rules that are no longer in
// upTo are released.
func (e *Engine) HoldBack(upTo map[string]time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	changed := false
	for _, rs := range e.order {
		at := int64(noTime)
		if t, held := upTo[rs.rule.Alert]; held {
			at = nanos(t)
		}
		changed = changed || at != rs.heldBack
		rs.heldBack = at
	}
	if changed {
		e.bind()
	}
}

// frozen is where the watermark of the rule stopped; noTime: it did not.
func (rs *ruleState) frozen() int64 {
	switch {
	case rs.heldBack == noTime:
		return rs.suspended
	case rs.suspended == noTime:
		return rs.heldBack
	}
	return min(rs.heldBack, rs.suspended)
}
