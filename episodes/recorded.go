package episodes

import (
	"time"

	"crowsnest/episodes/internal/instant"
	"crowsnest/matcher"
)

// TakeRecorded accepts hits whose times are the clock, which shows now, and that of the named
// source. For each hit whose time t is later than the clock it does what AdvanceWatermark and
// Evaluate just before t, Take at t and Evaluate at t do, while Evaluate would neither conclude
// nor return anything. It stops where that ends, and returns how many hits it accepted, and
// the clock. The caller calls Evaluate with that time. If neither has moved, something may be
// due before the next hit: the caller moves the clock itself. The hits remain the caller's, as
// with Take.
func (e *Engine) TakeRecorded(source string, hits []matcher.Hit, now time.Time) (n int, clock time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.in.End()
	at := instant.Of(now)
	for n < len(hits) {
		if t := hits[n].Time; t.After(now) {
			before := t.Add(-1)
			if before.After(now) {
				if e.sources.NextBy(e.safeDue, instant.Of(before)) {
					return n, now
				}
				e.sources.Advance(source, instant.Of(before))
				if now = before; !e.idle(instant.Of(now)) {
					return n, now
				}
			}
			now = t
			at = instant.Of(now)
		}
		if e.acceptSome(hits[n:n+1], at); !e.idle(at) {
			return n + 1, now
		}
		n++
	}
	return n, now
}

// idle does what Evaluate does if there is nothing to conclude and to return, and reports
// whether that is so. If it is not, Evaluate must follow.
func (e *Engine) idle(at int64) bool {
	since := at - e.journal.updated
	if e.warm || e.unsettled || len(e.journal.changes) > 0 || since < 0 || since >= int64(e.cfg.UpdateEvery) ||
		e.deletedPods.Len() > 0 || e.departed.Len() > 0 || !e.sources.Idle(e.safeDue, at) {
		return false
	}
	e.limits.losses.Now = at
	e.journal.forget(at)
	return true
}
