package episodes

import (
	"time"

	"crowsnest/episodes/internal/instant"
)

// ClockSet reports that the clock was set forward or back by d and now shows now. All remembered times move by d, so
// that an event of two minutes ago stays two minutes ago. Without that, a clock that was set back would make every line
// of the next hour late. A clock that was set forward would end open episodes and decide episodes that wait for a
// recovery. The reported start of an open episode does not change. The times of later hits are times of the new clock
// (see times.Stamps).
func (e *Engine) ClockSet(d time.Duration, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	by, at := int64(d), instant.FromTime(now)
	e.ahead += by
	e.sources.Move(by, at)
	for _, rs := range e.rules {
		e.runGuarded(rs, at, func() { rs.moveTimes(by) })
		rs.newest = min(rs.newest, at)
	}
	e.sources.RearmAll(e.safeDue)
	e.deletedPods.moveTimes(by)
	e.departed.moveTimes(by)
	e.journal.moveTimes(by)
}

func (ep *episode) moveTimes(delta int64) {
	ep.starts += delta
	ep.clockShift += delta
	ep.newest += delta
	ep.windowStart += delta
	ep.completedAt += delta
	ep.times.Move(delta)
	ep.earlier.Move(delta)
	ep.recent.Move(delta)
	if ep.since != 0 {
		ep.since += delta
	}
}

func (l *briefFailure) moveTimes(delta int64) {
	l.ep.moveTimes(delta)
	l.times.Move(delta)
	l.end += delta
}

func (rs *ruleState) moveTimes(delta int64) {
	for _, ep := range rs.open {
		ep.moveTimes(delta)
		if ep.window != nil {
			ep.window.Move(delta)
		}
	}
	for _, x := range rs.windows.Items {
		x.Value.Move(delta)
	}
	for _, x := range rs.clearLines.lines.Items {
		x.Value = x.Value.Move(delta)
	}
	for _, l := range rs.briefFailures {
		l.moveTimes(delta)
	}
	rs.displaced.moveTimes(delta)
	if rs.armed != nil {
		for _, x := range rs.armed.Items {
			x.Value.last.T += delta
		}
	}
	for _, x := range rs.unlessLines.lines.Items {
		moved := make([]int64, len(x.Value)) // a copy, because a snapshot may share the original slice
		for i, t := range x.Value {
			moved[i] = t + delta
		}
		x.Value = moved
	}
	rs.overflow.moveTimes(delta)
}
