package episodes

import (
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"crowsnest/episodes/internal/fair"
	"crowsnest/episodes/internal/window"
)

// journal is what the engine has concluded: what Evaluate has yet to return, and what
// ended lately.
type journal struct {
	changes []*transition  // not returned by Evaluate yet
	dirty   []*episode     // firing, continued since the last update
	flooded []*ruleState   // the same of their overflows
	updated int64          // when that was
	closed  []*transition  // resolved in the last KeepResolved, oldest first
	ended   []*pastEpisode // ended in that time, fired or not, with their history
	spans   *simplelru.LRU[Fingerprint, []span]
}

// add adds a transition to the changes.
func (j *journal) add(t *transition) {
	t.opens = t.State != StateResolved
	j.changes = append(j.changes, t)
}

// resolve adds a transition that ends an alert.
func (j *journal) resolve(t *transition) {
	j.add(t)
	j.closed = append(j.closed, t)
}

// touch marks an episode that continued for the next update.
func (j *journal) touch(ep *episode) {
	if !ep.dirty {
		ep.dirty = true
		j.dirty = append(j.dirty, ep)
	}
}

// touchOverflow marks the overflow of a rule for the next update.
func (j *journal) touchOverflow(rs *ruleState) {
	if !rs.over.dirty {
		rs.over.dirty = true
		j.flooded = append(j.flooded, rs)
	}
}

// touchAll marks every firing episode of some rules.
func (j *journal) touchAll(order []*ruleState) {
	for _, rs := range order {
		for _, ep := range rs.sorted() {
			j.touch(ep)
		}
		if rs.over.active {
			j.touchOverflow(rs)
		}
	}
}

// take returns the changes and forgets them.
func (j *journal) take() []*transition {
	out := j.changes
	j.changes = nil
	return out
}

// finish reports the end of an episode that is no longer open as x, its last transition.
func (j *journal) finish(ep *episode, x *transition, reason Reason, end, now int64) {
	state := StateResolved
	if ep.state == StatePending {
		state = StateDropped
	}
	x.ended(state, reason, max(end, ep.starts, ep.starts-ep.moved), now)
	x.OnHold = false
	if reason == ReasonDisplaced {
		x.also = map[string]string{"ended": "Its place was needed. Whether the failure is over is not known; the alert with overflow=\"true\" of the same rule stands for it."}
	}
	if state == StateResolved {
		j.resolve(x)
		j.noteSpan(ep.print, span{ep.starts, end, now})
	} else {
		j.add(x)
	}
	ep.state, ep.dirty = state, false
}

// noteEnded keeps the history of an episode that ended as x, and the line that ended it.
func (j *journal) noteEnded(ep *episode, x *transition, line window.Text) {
	ep.history.note(Event{At: x.EndsAt, Kind: EventEnded, Reason: x.Reason})
	if len(j.ended) >= maxEnded {
		j.ended = slices.Delete(j.ended, 0, 1)
	}
	j.ended = append(j.ended, &pastEpisode{x, ep.history, line})
}

// forget drops what was concluded more than KeepResolved ago.
func (j *journal) forget(now int64) {
	old := instant(now - int64(KeepResolved))
	n := 0
	for n < len(j.ended) && j.ended[n].Concluded.Before(old) {
		n++
	}
	j.ended = slices.Delete(j.ended, 0, n)
	j.closed = fair.Keep(j.closed, maxClosed, func(x *transition) string { return x.Party })
	n = 0
	for n < len(j.closed) && j.closed[n].EndsAt.Before(old) && j.closed[n].Concluded.Before(old) {
		n++
	}
	clear(j.closed[:n]) // the next growth frees the memory
	j.closed = j.closed[n:]
}

// move adds by to the times of what ended: it stays listed for as long.
func (j *journal) move(by int64) {
	moved := func(t *transition) *transition {
		out := *t // it may be reported with the time of before
		out.Concluded = t.Concluded.Add(time.Duration(by))
		return &out
	}
	for _, p := range j.ended {
		p.transition = moved(p.transition)
	}
	for i, t := range j.closed {
		j.closed[i] = moved(t)
	}
	for _, print := range j.spans.Keys() { // from the oldest: the order of use stays
		spans, _ := j.spans.Get(print)
		for i := range spans {
			spans[i].from += by
			spans[i].to += by
		}
	}
}

// span is a time for which an alert was notified, and when its end was concluded.
type span struct{ from, to, at int64 }

// Bounds of the spans that are remembered.
const (
	maxSpans    = 8 // per alert
	maxNotified = 4096
)

// notified reports whether an alert that was notified overlaps an episode that
// ended at end: a failure that is known in part is not notified twice.
func (j *journal) notified(ep *episode, end int64) bool {
	if cur := ep.rs.open[ep.key]; cur != nil && cur.state == StateFiring && cur.starts < end {
		return true
	}
	spans, _ := j.spans.Get(ep.print)
	return slices.ContainsFunc(spans, func(s span) bool { return s.from < end && ep.starts < s.to })
}

func (j *journal) noteSpan(print Fingerprint, s span) {
	spans, _ := j.spans.Get(print)
	if len(spans) >= maxSpans {
		spans = slices.Delete(spans, 0, 1)
	}
	j.spans.Add(print, append(spans, s))
}

// nameEarlier names in the annotations of a lapse those of the same alert that were
// notified at the same time: a receiver that keeps one state per alert sees the last one.
func (j *journal) nameEarlier(t *transition, starts, now int64) {
	var out []string
	spans, _ := j.spans.Get(t.Fingerprint)
	for _, s := range spans {
		if s.at == now && s.to <= starts {
			out = append(out, instant(s.from).Format(time.RFC3339)+" to "+instant(s.to).Format(time.RFC3339))
		}
	}
	if len(out) > 0 {
		t.also = map[string]string{"earlier": "also from " + strings.Join(out, ", ")}
	}
}
