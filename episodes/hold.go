package episodes

import "time"

// HoldBack keeps the watermarks of rules, by name, from passing a time: from then
// on somebody who reads their lines looks for another version of them. What was
// held back and is not named any more goes on.
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

// frozen is when the watermark of the rule stopped; noTime: it has not.
func (rs *ruleState) frozen() int64 {
	switch {
	case rs.heldBack == noTime:
		return rs.suspended
	case rs.suspended == noTime:
		return rs.heldBack
	}
	return min(rs.heldBack, rs.suspended)
}
