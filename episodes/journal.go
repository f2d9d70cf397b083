package episodes

import (
	"math"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes/internal/instant"
	"crowsnest/episodes/internal/notified"
	"crowsnest/episodes/internal/window"
	"crowsnest/internal/quota"
)

// journal holds the transitions that Evaluate has yet to return, and the episodes that
// ended recently.
type journal struct {
	changes []*transition  // transitions that Evaluate has not returned yet
	dirty   []*episode     // firing episodes that continued since the last update
	flooded []*overflow    // firing overflows that continued since the last update
	updated int64          // time of the last update
	closed  []*transition  // episodes resolved within keepResolved, the oldest first
	ended   []*pastEpisode // episodes that ended within keepResolved, including those that never fired, with their history
	// nothingToDropUntil is the clock's time up to which dropOld has nothing to drop. Zero means that this time is not
	// known.
	nothingToDropUntil int64
	spans              notified.Spans
	infra              func(party string) bool // infra reports whether a tenant is an infrastructure namespace
}

func newJournal(infra func(party string) bool) journal {
	return journal{spans: notified.New(), infra: infra}
}

func (j *journal) add(t *transition) {
	t.opens = t.State != StateResolved
	j.changes = append(j.changes, t)
}

// resolve adds a transition that ends an alert, and lists the alert as resolved.
func (j *journal) resolve(t *transition) {
	j.add(t)
	j.closed, j.nothingToDropUntil = append(j.closed, t), 0
}

// markContinued schedules a continuing episode for the next update.
func (j *journal) markContinued(ep *episode) {
	if ep.dirty {
		return
	}
	if n := len(j.dirty); n == cap(j.dirty) {
		// Episodes that have ended need no update. Without this, a scan of recorded logs, which makes no updates, would
		// let the list grow.
		j.dirty = slices.DeleteFunc(j.dirty, func(o *episode) bool { return !o.dirty })
		j.dirty = slices.Grow(j.dirty, max(len(j.dirty), 16))
	}
	ep.dirty = true
	j.dirty = append(j.dirty, ep)
}

func (j *journal) touchOverflow(o *overflow) {
	if !o.dirty {
		o.dirty = true
		j.flooded = append(j.flooded, o)
	}
}

// touchAll schedules every firing episode of the rules for the next update.
func (j *journal) touchAll(order []*ruleState) {
	for _, rs := range order {
		for _, ep := range rs.sortedEpisodes() {
			j.markContinued(ep)
		}
		if rs.overflow.active {
			j.touchOverflow(&rs.overflow)
		}
	}
}

func (j *journal) takeChanges() []*transition {
	out := j.changes
	j.changes = nil
	return out
}

// endEpisode reports the end of an episode that was already removed from the open ones. x is its last transition.
func (j *journal) endEpisode(ep *episode, x *transition, reason Reason, end, now int64) {
	state := StateResolved
	if ep.state == StatePending {
		state = StateDropped
	}
	x.setEnd(state, reason, max(end, ep.starts, ep.starts-ep.clockShift), now)
	x.OnHold, x.WaitsFor, x.AwaitedParts, x.Inhibit = false, nil, nil, false
	if x.cause == nil {
		x.cause = ep.had
	}
	if reason == ReasonDisplaced {
		x.moreAnnotations = map[string]string{"ended": "crowsnest no longer follows this alert, because other alerts needed its place: nobody knows whether the failure is over. The alert with overflow=\"true\" of the same rule counts such failures."}
	}
	if state == StateResolved {
		j.resolve(x)
		j.spans.Add(uint64(ep.print), notified.Span{From: ep.starts, To: end, Concluded: now})
	} else {
		j.add(x)
	}
	ep.state, ep.dirty = state, false
}

// noteEnded keeps the history of an ended episode. x is its last transition, and line is the line that ended it.
func (j *journal) noteEnded(ep *episode, x *transition, line window.Text) {
	ended := Event{Time: x.EndsAt, Kind: EventEnded, Reason: x.Reason}
	if !line.Empty() {
		ended.Log = ep.rs.in.Describe()
	}
	ep.history.addEvent(ended)
	if len(j.ended) >= maxEnded {
		j.ended = slices.Delete(j.ended, 0, 1)
	}
	j.ended, j.nothingToDropUntil = append(j.ended, &pastEpisode{x, ep.history, line}), 0
}

func (j *journal) dropOld(now int64) {
	if now <= j.nothingToDropUntil {
		return
	}
	old := instant.ToTime(now - int64(keepResolved))
	n := 0
	for n < len(j.ended) && j.ended[n].ConcludedAt.Before(old) {
		n++
	}
	j.ended = slices.Delete(j.ended, 0, n)
	j.closed = quota.KeepNewest(j.closed, maxClosed, func(x *transition) string { return x.Tenant }, j.infra)
	n = 0
	for n < len(j.closed) && j.closed[n].ConcludedAt.Before(old) {
		n++
	}
	clear(j.closed[:n]) // frees the memory of the dropped transitions when the slice grows next
	j.closed = j.closed[n:]
	j.nothingToDropUntil = math.MaxInt64
	if len(j.ended) > 0 {
		j.nothingToDropUntil = instant.FromTime(j.ended[0].ConcludedAt) + int64(keepResolved)
	}
	if len(j.closed) > 0 {
		j.nothingToDropUntil = min(j.nothingToDropUntil, instant.FromTime(j.closed[0].ConcludedAt)+int64(keepResolved))
	}
}

// moveTimes adds delta to the times of ended episodes, so that each stays listed for the intended time after the clock
// was set.
func (j *journal) moveTimes(delta int64) {
	moved := func(t *transition) *transition {
		out := *t // copies the transition, because a caller may still report the old times
		out.ConcludedAt = t.ConcludedAt.Add(time.Duration(delta))
		out.clockShift += delta
		return &out
	}
	for _, p := range j.ended {
		p.transition = moved(p.transition)
	}
	for i, t := range j.closed {
		j.closed[i] = moved(t)
	}
	j.nothingToDropUntil = 0
	j.spans.Move(delta)
}

// wasNotified reports whether somebody was already notified of the alert for a part of the episode's duration. The
// episode ended at end. A failure that was notified is not notified again.
func (j *journal) wasNotified(ep *episode, end int64) bool {
	if cur := ep.rs.open[ep.key]; cur != nil && cur.state == StateFiring && cur.starts < end {
		return true
	}
	return j.spans.Overlap(uint64(ep.print), ep.starts, end)
}

// nameEarlier adds an annotation to a brief failure that lists the earlier brief failures of the same alert in the same notification. A
// receiver that keeps one state per alert shows only the last of them.
func (j *journal) nameEarlier(t *transition, starts, now int64) {
	var out []string
	for _, x := range j.spans.ConcludedAt(uint64(t.Fingerprint), now, starts) {
		out = append(out, instant.ToTime(x.From).Format(time.RFC3339)+" to "+instant.ToTime(x.To).Format(time.RFC3339))
	}
	if len(out) > 0 {
		t.moreAnnotations = map[string]string{"earlier": "also from " + strings.Join(out, ", ")}
	}
}
