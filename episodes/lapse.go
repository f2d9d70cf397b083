package episodes

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// A lapse is a failure that was over when it became known, or before the watermark
// showed that it lasted for `for`. It is decided when the watermark reaches its end: if
// it lasted, it is notified as firing and at once as resolved, as reading all lines in
// order of time would have done. Until then late lines may extend it, divide it or show
// that it was too short.
type lapse struct {
	ep    *episode // not among the open ones
	times times    // its triggers, at most maxTimes
	end   int64
	why   Reason // it ended
	shown bool   // it was reported as pending
	due   deadline
}

// maxTimes is how many triggers are remembered until an episode is decided. Of
// more, those in between are dropped.
const maxTimes = 64

// addTime adds a trigger to the ones that are not decided yet.
func (ts *times) addTime(t int64) {
	i := ts.since(t)
	if i > 0 && (*ts)[i-1] == t {
		return
	}
	*ts = slices.Insert(*ts, i, t)
	if len(*ts) <= maxTimes {
		return
	}
	kept := (*ts)[:1]
	for k := 2; k < len(*ts)-1; k += 2 {
		kept = append(kept, (*ts)[k])
	}
	*ts = append(kept, (*ts)[len(*ts)-1])
}

// undecided reports whether the triggers of a pending episode are remembered one by
// one: a clear line that is read late may come between them.
func (ep *episode) undecided() bool { return ep.state == StatePending && ep.rs.rule.Clear != nil }

// lapsed takes a trigger that was read when its failure was over: at g.hi there is a
// clear line, or it was quiet for too long.
func (e *Engine) lapsed(rs *ruleState, values []string, trig *trigger, g gap, now int64) {
	found := times{trig.t}
	if w := rs.windowFor(string(e.batch.key)); w != nil && g.hi != forever && rs.rule.Clear != nil {
		found = w.ends(rs.rule, g.lo, g.hi)
	}
	if len(found) == 0 || g.hi <= found[0]+int64(rs.rule.For) {
		return // it was too short; an earlier line was handled on its own
	}
	for _, l := range rs.lapses {
		if l.ep.key == string(e.batch.key) && l.joins(trig.t, g) {
			for _, t := range found {
				l.times.addTime(t)
			}
			if l.ep.lastID != trig.line.id {
				l.ep.lines, l.ep.lastID = l.ep.lines+1, trig.line.id
			}
			if trig.t >= l.ep.newest {
				l.ep.newest = trig.t
				e.show(l.ep, trig)
			} else if trig.t == l.times[0] {
				l.ep.first = e.copied(trig.sample())
			}
			l.ep.logs.note(&e.batch.origin)
			l.rearm()
			return
		}
	}
	if len(rs.lapses) >= rs.rule.Limit {
		e.refuse(rs, string(e.batch.key), trig.t, limit{of: ofRule, n: rs.rule.Limit}, now)
		return
	}
	ep := e.newEpisode(rs, values, trig)
	ep.clears, ep.noClear = rs.shared(rs.clearAt, ep.values, ep.who)
	ep.mutes, _ = rs.shared(rs.muteAt, ep.values, ep.who)
	ep.noteOpened(trig, now)
	e.addLapse(&lapse{ep: ep, times: found})
}

func (e *Engine) addLapse(l *lapse) {
	l.due.rs, l.due.lapse = l.ep.rs, l
	l.ep.rs.lapses = append(l.ep.rs.lapses, l)
	l.end = forever
	l.rearm()
}

// joins reports whether a trigger at t belongs to the lapse: no clear line is
// between them, or it was never quiet for too long.
func (l *lapse) joins(t int64, g gap) bool {
	if l.ep.rs.rule.Clear != nil {
		return g.lo < l.times[0] && l.times[0] < g.hi
	}
	quiet := l.ep.rs.quiet() + l.ep.rs.group.lateness
	return l.times[0]-t <= quiet && t-l.times[len(l.times)-1] <= quiet
}

// rearm computes the start of the lapse, and its end as far as that is known, and
// arms it.
func (l *lapse) rearm() {
	rs := l.ep.rs
	l.ep.starts = l.times[0]
	if end := l.times[len(l.times)-1] + rs.quiet(); rs.rule.Clear == nil {
		l.end, l.why = end, ReasonQuiet
	} else {
		if x := rs.cleared.items[l.ep.clears]; x != nil {
			if g, alive := x.value.gap(l.times[0]); alive && g.hi < forever {
				l.end, l.why = g.hi, ReasonClear
			}
		}
		if l.end == forever || end <= rs.seenAt(l.end) {
			l.end, l.why = end, ReasonExpired
		}
	}
	l.due.arm()
}

// recover applies a clear line at t to a pending episode: the triggers before it are a
// separate failure, which is over.
func (e *Engine) recover(ep *episode, known clears, t, now int64, line text) {
	before, rest := ep.rs.divided(ep.window, ep.times, known, t, forever)
	lasted := len(before) > 0 && before[0]+int64(ep.rs.rule.For) < t
	switch {
	case len(before) == 0 && slices.Equal(rest, ep.times):
	case !lasted && len(rest) == 0:
		e.closeBy(ep, ReasonClear, t, now, line)
	case !lasted:
		e.restart(ep, rest)
	case len(rest) == 0:
		e.detach(ep)
		ep.times = nil
		e.addLapse(&lapse{ep: ep, times: before, shown: true})
	default:
		over := e.part(ep)
		over.lines, over.last.line = int64(len(before)), over.first
		e.addLapse(&lapse{ep: over, times: before})
		e.restart(ep, rest)
	}
}

// divided returns the triggers before and after a clear line at t; hi is the next clear
// line. Triggers behind which the watermark is not yet are searched again in the window:
// they may have counted lines from the other side.
func (rs *ruleState) divided(w *window, ts times, known clears, t, hi int64) (before, after times) {
	before, after = slices.Clone(ts[:ts.since(t-1)]), slices.Clone(ts[ts.since(t):])
	if w == nil || !rs.windowed() {
		return before, after
	}
	after = after[:after.since(rs.watermark())]
	for _, end := range w.ends(rs.rule, known.before(t), t) {
		before.addTime(end)
	}
	for _, end := range w.ends(rs.rule, t, hi) {
		after.addTime(end)
	}
	return before, after
}

// undone reports whether a clear line at t, which is older than the newest trigger,
// leaves no trigger: those behind it counted lines before it.
func (rs *ruleState) undone(ep *episode, t int64) bool {
	return t >= ep.starts && rs.windowed() && ep.window != nil && t > rs.watermark() && len(ep.window.ends(rs.rule, t, forever)) == 0
}

// part returns a copy of an episode for a part of its time.
func (e *Engine) part(ep *episode) *episode {
	e.copyHit(&ep.last)
	out := *ep
	out.due, out.slot, out.window, out.times, out.last.listed = deadline{}, entry{}, nil, nil, false
	out.logs.known = slices.Clone(ep.logs.known)
	out.history.events = slices.Clone(ep.history.events)
	if !ep.rs.rule.Sequence {
		out.sequence = hits{&out.last}
	}
	return &out
}

// seenAt is the watermark that reading in order of time would have when it reads a
// line at t.
func (rs *ruleState) seenAt(t int64) int64 { return t - 1 - rs.group.lateness }

// beginsAgain reports whether a pending episode that was quiet for too long starts over
// with a trigger at t. The earlier part becomes a lapse if it lasted long enough. If
// reading in order would have fired it and not ended it, it continues.
func (e *Engine) beginsAgain(ep *episode, t int64) bool {
	rs := ep.rs
	fires, end, seen := ep.starts+int64(rs.rule.For), ep.end(rs), rs.seenAt(t)
	if fires >= end || fires > seen {
		return true
	}
	if end > seen {
		return false
	}
	e.addLapse(&lapse{ep: e.part(ep), times: slices.Compact(times{ep.starts, ep.newest})})
	return true
}

// restart makes a pending episode start with the remaining triggers. The line of the
// first one is no longer known.
func (e *Engine) restart(ep *episode, rest times) {
	ep.times = rest
	ep.starts, ep.moved, ep.from = rest[0], 0, rest[0]-1
	ep.lines, ep.first = int64(len(rest)), text{clean: true}
	if len(rest) == 1 {
		ep.first = e.copied(ep.last.line)
	}
	e.touch(ep)
	ep.due.arm()
}

// divide applies a clear line at t to the lapses that share key with it.
func (rs *ruleState) divide(e *Engine, key string, known clears, t, now int64) {
	for _, l := range slices.Clone(rs.lapses) {
		if l.ep.clears != key || l.ep.noClear || !rs.windowed() && l.times[0] > t || l.end <= t || known.before(l.times[0]) > t {
			continue
		}
		before, later := rs.divided(rs.windowFor(l.ep.key), l.times, known, t, l.end)
		switch {
		case len(before) == 0 && len(later) == 0: // the line has the time of the trigger
			l.due.disarm()
			rs.lapses = slices.DeleteFunc(rs.lapses, func(o *lapse) bool { return o == l })
			e.dropLapse(l, now)
			continue
		case len(before) == 0:
			l.times = later
		case len(later) > 0:
			x := e.part(l.ep)
			x.lines, x.first = int64(len(later)), text{clean: true}
			e.addLapse(&lapse{ep: x, times: slices.Clone(later)})
			l.ep.lines, l.ep.last.line = int64(len(before)), l.ep.first
			fallthrough
		default:
			l.times = slices.Clone(before)
		}
		l.rearm()
	}
}

// decideLapse notifies of a lapse if it lasted long enough and nothing that was
// notified contains it.
func (e *Engine) decideLapse(l *lapse, now int64) {
	ep, rs := l.ep, l.ep.rs
	rs.lapses = slices.DeleteFunc(rs.lapses, func(o *lapse) bool { return o == l })
	ep.starts, ep.newest = l.times[0], l.times[len(l.times)-1]
	e.identify(ep)
	left := rs.unmuted(ep, l.times, l.end)
	if len(left) > 0 {
		ep.starts = left[0]
	}
	if len(left) == 0 || ep.starts+int64(rs.rule.For) >= l.end || e.notified(ep, l.end) {
		e.dropLapse(l, now)
		return
	}
	ep.state, ep.fired = StateFiring, now
	ep.history.note(transition{at: now, kind: didFire})
	began := e.export(ep, now)
	began.Annotations = maps.Clone(began.Annotations)
	e.earlier(ep, began.Annotations, now)
	e.changes = append(e.changes, began)
	x := e.finish(ep, l.why, l.end, now, text{})
	e.earlier(ep, x.Annotations, now)
	if cur := rs.open[ep.key]; cur != nil && cur.state == StateFiring {
		e.changes = append(e.changes, e.export(cur, now)) // it is what is true now
	}
}

func (e *Engine) dropLapse(l *lapse, now int64) {
	if l.shown {
		e.finish(l.ep, l.why, l.end, now, text{})
	}
}

// unmuted returns the triggers from the first on that no unless line prevents from
// opening an episode that lasts until it fires, or until end.
func (rs *ruleState) unmuted(ep *episode, ts times, end int64) times {
	u := rs.rule.Unless
	x := rs.muted.items[ep.mutes]
	if u == nil || x == nil {
		return ts
	}
	for _, m := range x.value {
		for len(ts) > 0 && m > ts[0]-int64(u.Within) && m <= min(end, ts[0]+int64(rs.rule.For)+rs.group.lateness) {
			ts = ts[1:]
		}
	}
	return ts
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
func (e *Engine) notified(ep *episode, end int64) bool {
	if cur := ep.rs.open[ep.key]; cur != nil && cur.state == StateFiring && cur.starts < end {
		return true
	}
	spans, _ := e.spans.Get(ep.print)
	return slices.ContainsFunc(spans, func(s span) bool { return s.from < end && ep.starts < s.to })
}

func (e *Engine) noteSpan(print Fingerprint, s span) {
	spans, _ := e.spans.Get(print)
	if len(spans) >= maxSpans {
		spans = slices.Delete(spans, 0, 1)
	}
	e.spans.Add(print, append(spans, s))
}

// moveSpans adds by to the times for which alerts were notified.
func (e *Engine) moveSpans(by int64) {
	for _, print := range e.spans.Keys() { // from the oldest: the order of use stays
		spans, _ := e.spans.Get(print)
		for i := range spans {
			spans[i].from += by
			spans[i].to += by
		}
	}
}

// earlier names in the annotations the lapses of the same alert that were notified
// at the same time: a receiver that keeps one state per alert sees the last one.
func (e *Engine) earlier(ep *episode, annotations map[string]string, now int64) {
	var out []string
	spans, _ := e.spans.Get(ep.print)
	for _, s := range spans {
		if s.at == now && s.to <= ep.starts {
			out = append(out, instant(s.from).Format(time.RFC3339)+" to "+instant(s.to).Format(time.RFC3339))
		}
	}
	if len(out) > 0 {
		annotations["earlier"] = "also from " + strings.Join(out, ", ")
	}
}
