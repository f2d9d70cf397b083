package episodes

import "time"

// step is the last time that the clock was set.
type step struct {
	old int64 // what it showed before
	by  int64 // how far it was set, ahead or back
	// slack is how far ahead of the clock a line may be and yet be a new one, of a
	// node whose clock is ahead.
	slack int64
}

// ClockSet reports that the clock was set by d, ahead or back, and now shows now. All
// remembered times move by d, so that an event of two minutes ago stays two minutes
// ago. Otherwise a clock that was set back would make every line of the next hour late,
// and one that was set ahead would end open episodes and decide those that wait for a
// recovery. The reported start of an open episode does not change.
func (e *Engine) ClockSet(d time.Duration, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.setClock(int64(d), nanos(now))
}

func (e *Engine) setClock(by, at int64) {
	e.step = step{old: at - by, by: by}
	e.marks.move(by, at)
	for _, rs := range e.rules {
		e.guard(rs, at, func() { rs.move(by) })
		rs.newest = min(rs.newest, at)
	}
	for _, g := range e.marks.groups {
		g.rearm(e.safeDue)
	}
	for _, pod := range e.deletedPods.Keys() { // from the oldest: their order stays
		if t, ok := e.deletedPods.Peek(pod); ok {
			e.deletedPods.Add(pod, t+by)
		}
	}
	e.journal.move(by)
}

// maxAfterSave is how long after a snapshot lines may have been written or read before
// the clock was set.
const maxAfterSave = int64(time.Minute)

// ClockSetBack is ClockSet for a clock that was set back between a snapshot, at saved,
// and its restore: it shows an earlier time, now, than it did then. Lines written before
// are up to that much ahead of the clock; without a correction they would be newer than
// every line that could end their episodes.
func (e *Engine) ClockSetBack(saved, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	by := nanos(now) - nanos(saved)
	e.setClock(by, nanos(now))
	e.step.old, e.step.slack = nanos(saved)+maxAfterSave, -by/2
}

// stamped turns the time of a line into one of the clock as it is now: a line
// may have been written before the clock was set and be read after.
func (s *step) stamped(t, now int64) int64 {
	switch {
	case s.by > 0 && t <= s.old:
		return t + s.by
	case s.by < 0 && t <= s.old && t > now+s.slack: // the clock did not get there since
		return min(t+s.by, now)
	}
	return t
}

func (ep *episode) move(by int64) {
	ep.starts += by
	ep.moved += by
	ep.newest += by
	ep.from += by
	ep.written += by
	ep.times.Move(by)
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
	for _, x := range rs.cleared.Items {
		x.Value = x.Value.Move(by)
	}
	for _, l := range rs.lapses {
		l.move(by)
	}
	for _, x := range rs.muted.Items {
		moved := make([]int64, len(x.Value)) // a copy: a snapshot may share it
		for i, t := range x.Value {
			moved[i] = t + by
		}
		x.Value = moved
	}
	if o := &rs.over; o.active {
		o.starts += by
		o.moved += by
		o.newest += by
	}
}
