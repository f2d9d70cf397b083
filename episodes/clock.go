package episodes

import (
	"time"

	"crowsnest/episodes/internal/instant"
)

// ClockSet reports that the clock was set forward or back by d and now shows now. All
// remembered times move by d, so that an event of two minutes ago stays two minutes ago.
// Otherwise a clock that was set back would make every line of the next hour late, and one
// that was set forward would end open episodes and decide those that wait for a recovery.
// The reported start of an open episode does not change. The times of later hits are those of the new clock: see
// times.Stamps.
func (e *Engine) ClockSet(d time.Duration, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	by, at := int64(d), instant.Of(now)
	e.ahead += by
	e.sources.Move(by, at)
	for _, rs := range e.rules {
		e.guard(rs, at, func() { rs.move(by) })
		rs.newest = min(rs.newest, at)
	}
	e.sources.Rearm(e.safeDue)
	e.deletedPods.move(by)
	e.departed.move(by)
	e.journal.move(by)
}

func (ep *episode) move(by int64) {
	ep.starts += by
	ep.moved += by
	ep.newest += by
	ep.from += by
	ep.written += by
	ep.times.Move(by)
	ep.earlier.Move(by)
	ep.recent.Move(by)
	if ep.since != 0 {
		ep.since += by
	}
}

func (l *lapse) move(by int64) {
	l.ep.move(by)
	l.times.Move(by)
	l.end += by
}

// move adds by to every time of a rule.
func (rs *ruleState) move(by int64) {
	for _, ep := range rs.open {
		ep.move(by)
		if ep.window != nil {
			ep.window.Move(by)
		}
	}
	for _, x := range rs.windows.Items {
		x.Value.Move(by)
	}
	for _, x := range rs.clear.lines.Items {
		x.Value = x.Value.Move(by)
	}
	for _, l := range rs.lapses {
		l.move(by)
	}
	rs.displaced.move(by)
	if rs.armed != nil {
		for _, x := range rs.armed.Items {
			x.Value.last.T += by
		}
	}
	for _, x := range rs.unless.lines.Items {
		moved := make([]int64, len(x.Value)) // a copy: a snapshot may share it
		for i, t := range x.Value {
			moved[i] = t + by
		}
		x.Value = moved
	}
	rs.over.move(by)
}
