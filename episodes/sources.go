package episodes

import (
	"time"

	"crowsnest/episodes/internal/instant"
	"crowsnest/episodes/internal/watermark"
	"crowsnest/episodes/internal/window"
	"crowsnest/matcher"
	"crowsnest/rules"
)

// AddSource registers a source before its first lines. Lateness is how far the
// watermark stays behind its progress; serves reports which selectors the source can
// satisfy. A known source keeps its progress.
func (e *Engine) AddSource(name string, lateness time.Duration, serves func(rules.Selector) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sources.Add(name, lateness, serves)
	e.bind()
}

// RemoveSource removes a source: no watermark waits for it any longer. It does nothing
// if the source is unknown.
func (e *Engine) RemoveSource(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sources.Remove(name)
	e.bind()
}

// AdvanceWatermark reports that all lines of the source up to readUpTo have been read,
// except those of lagging streams, which have watermarks of their own. The watermark never
// moves back, and an earlier one is ignored. The next Evaluate draws the conclusions.
func (e *Engine) AdvanceWatermark(name string, readUpTo time.Time, lagging ...matcher.LaggingStream) {
	e.mu.Lock()
	defer e.mu.Unlock()
	lags := make([]watermark.Lag, 0, len(lagging))
	for _, l := range lagging {
		lags = append(lags, watermark.NewLag(l, instant.Of(l.ReadUpTo)))
	}
	e.sources.Advance(name, instant.Of(readUpTo), lags...)
	e.lagging = e.lagging || len(lags) > 0
}

// HoldBack stops the watermarks of the named rules at the given times. After that time, an
// agent that reads their lines matched another version of the rule. Rules that are no
// longer in upTo are released.
func (e *Engine) HoldBack(upTo map[string]time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	changed := false
	for _, rs := range e.order {
		at := int64(window.NoTime)
		if t, held := upTo[rs.rule.Alert]; held {
			at = instant.Of(t)
		}
		changed = changed || at != rs.heldBack
		rs.heldBack = at
	}
	if changed {
		e.bind()
	}
}

// freeze stops the watermarks of a rule at a time, unless it is suspended already.
func (e *Engine) freeze(rs *ruleState, at int64) {
	if rs.suspended == window.NoTime {
		rs.suspended = at
		rs.groups = e.groupsOf(rs)
	}
}

// frozen returns where the watermarks of the rule stopped; window.NoTime: it did not.
func (rs *ruleState) frozen() int64 {
	switch {
	case rs.heldBack == window.NoTime:
		return rs.suspended
	case rs.suspended == window.NoTime:
		return rs.heldBack
	}
	return min(rs.heldBack, rs.suspended)
}

// arm arms the deadlines of a rule in its groups.
func (rs *ruleState) arm() {
	if rs.quarantined {
		return
	}
	for _, ep := range rs.open {
		ep.arm()
	}
	for _, l := range rs.lapses {
		l.due.Arm(l.awaits().Group)
	}
	if rs.armed != nil {
		for _, x := range rs.armed.Items {
			x.Value.due.Arm(rs.groups.firing.Group)
		}
	}
	if rs.over.active {
		rs.over.due.Arm(rs.groups.steps.Group)
	}
}

// disarm disarms the deadlines of a rule.
func (rs *ruleState) disarm() {
	for _, ep := range rs.open {
		ep.due.Disarm()
	}
	for _, l := range rs.lapses {
		l.due.Disarm()
	}
	if rs.armed != nil {
		for _, x := range rs.armed.Items {
			x.Value.due.Disarm()
		}
	}
	rs.over.due.Disarm()
}
