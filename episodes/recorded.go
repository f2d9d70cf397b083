package episodes

import (
	"time"

	"crowsnest/episodes/internal/instant"
	"crowsnest/matcher"
)

// TakeRecorded accepts hits whose times are the clock, which shows now, and that of the named
// source. For each hit whose time t is later than the clock it does what AdvanceWatermark and
// Evaluate just before t, Take at t and Evaluate at t do, while Evaluate would neither conclude
// nor return anything. It stops where that ends, and returns the number of hits that it
// accepted, and the clock. The caller calls Evaluate with that time. If neither has moved,
// something may be due before the next hit, and the caller moves the clock itself. The hits
// remain the caller's, as with Take.
func (e *Engine) TakeRecorded(source string, hits []matcher.Hit, now time.Time) (n int, clock time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.in.DropReferences()
	at := instant.FromTime(now)
	for n < len(hits) {
		if t := hits[n].Time; t.After(now) {
			before := t.Add(-1)
			if before.After(now) {
				if e.sources.NextBy(e.safeDue, instant.FromTime(before)) {
					return n, now
				}
				e.sources.Advance(source, instant.FromTime(before))
				if now = before; !e.evaluateIdle(instant.FromTime(now)) {
					return n, now
				}
			}
			now = t
			at = instant.FromTime(now)
		}
		if e.acceptSome(hits[n:n+1], at); !e.evaluateIdle(at) {
			return n + 1, now
		}
		n++
	}
	return n, now
}

// evaluateIdle does the work of Evaluate if there is nothing to conclude and nothing to return,
// and reports whether that is so. Otherwise the caller must call Evaluate.
func (e *Engine) evaluateIdle(t int64) bool {
	since := t - e.journal.updated
	if e.warm || e.unsettled || len(e.journal.changes) > 0 || since < 0 || since >= int64(e.cfg.UpdateEvery) ||
		e.deletedPods.Len() > 0 || e.departed.Len() > 0 || !e.sources.IsIdle(e.safeDue, t) {
		return false
	}
	e.limits.losses.Now = t
	e.journal.dropOld(t)
	return true
}
