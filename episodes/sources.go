package episodes

import (
	"time"

	"crowsnest/episodes/internal/instant"
	"crowsnest/episodes/internal/watermark"
	"crowsnest/episodes/internal/window"
	"crowsnest/matcher"
	"crowsnest/rules"
)

// AddSource registers a source. AddSource must be called before the first lines of the source are taken. lateness is
// the duration by which the watermark stays behind the source's progress. serves reports which selectors the source can
// satisfy. A source that was registered before keeps its progress.
func (e *Engine) AddSource(name string, lateness time.Duration, serves func(rules.Selector) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sources.Add(name, lateness, serves)
	e.bindSources()
}

// RemoveSource removes a source, so that no watermark waits for it. It does nothing if the
// source is unknown.
func (e *Engine) RemoveSource(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sources.Remove(name)
	e.bindSources()
}

// AdvanceWatermark reports that all lines of the source up to readUpTo have been read, except the lines of lagging
// streams, which have their own watermarks. A watermark never moves back, so an earlier time is ignored. The next
// Evaluate draws the conclusions.
func (e *Engine) AdvanceWatermark(name string, readUpTo time.Time, lagging ...matcher.LaggingStream) {
	e.mu.Lock()
	defer e.mu.Unlock()
	lags := make([]watermark.Lag, 0, len(lagging))
	for _, l := range lagging {
		lags = append(lags, watermark.NewLag(l, instant.FromTime(l.ReadUpTo)))
	}
	e.sources.Advance(name, instant.FromTime(readUpTo), lags...)
	e.lagging = e.lagging || len(lags) > 0
}

// HoldBack stops the watermarks of the named rules at the given times, because from these times on an agent matched
// another version of the rule. Rules that are not in upTo are released.
func (e *Engine) HoldBack(upTo map[string]time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	changed := false
	for _, rs := range e.order {
		at := int64(window.NoTime)
		if t, held := upTo[rs.rule.Alert]; held {
			at = instant.FromTime(t)
		}
		changed = changed || at != rs.heldBack
		rs.heldBack = at
	}
	if changed {
		e.bindSources()
	}
}

// freezeRule stops the watermarks of a rule at t, unless the rule is already suspended.
func (e *Engine) freezeRule(rs *ruleState, t int64) {
	if rs.suspended == window.NoTime {
		rs.suspended = t
		rs.groups = e.findGroups(rs)
	}
}

// frozenAt returns the time at which the watermarks of the rule are stopped, or window.NoTime if they are not.
func (rs *ruleState) frozenAt() int64 {
	switch {
	case rs.heldBack == window.NoTime:
		return rs.suspended
	case rs.suspended == window.NoTime:
		return rs.heldBack
	}
	return min(rs.heldBack, rs.suspended)
}

func (rs *ruleState) armDeadlines() {
	if rs.quarantined {
		return
	}
	for _, ep := range rs.open {
		ep.armDeadline()
	}
	for _, l := range rs.briefFailures {
		l.due.Arm(l.awaits().Group)
	}
	if rs.armed != nil {
		for _, x := range rs.armed.Items {
			x.Value.due.Arm(rs.groups.firing.Group)
		}
	}
	if rs.overflow.active {
		rs.overflow.due.Arm(rs.groups.steps.Group)
	}
}

func (rs *ruleState) disarmDeadlines() {
	for _, ep := range rs.open {
		ep.due.Disarm()
	}
	for _, l := range rs.briefFailures {
		l.due.Disarm()
	}
	if rs.armed != nil {
		for _, x := range rs.armed.Items {
			x.Value.due.Disarm()
		}
	}
	rs.overflow.due.Disarm()
}
