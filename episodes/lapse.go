package episodes

import (
	"slices"

	"crowsnest/episodes/internal/fair"
	"crowsnest/episodes/internal/window"
)

// A lapse is a failure that was over when it became known, or before the watermark
// showed that it lasted for `for`. It is decided when the watermark reaches its end: if
// it lasted, it is notified as firing and at once as resolved, as reading all lines in
// order of time would have done. Until then late lines may extend it, divide it or show
// that it was too short.
type lapse struct {
	ep    *episode     // not among the open ones
	times window.Times // its triggers
	end   int64
	why   Reason // it ended
	shown bool   // it was reported as pending
	due   deadline
}

// undecided reports whether the triggers of a pending episode are remembered one by
// one: a clear line that is read late may come between them.
func (ep *episode) undecided() bool { return ep.state == StatePending && ep.rs.rule.Clear != nil }

// lapsed takes a trigger that was read when its failure was over: at g.Hi there is a
// clear line, or it was quiet for too long.
func (e *Engine) lapsed(rs *ruleState, values []string, trig *window.Trigger, g window.Gap, now int64) {
	found := window.Times{trig.T}
	if w := rs.windowFor(string(e.in.key)); w != nil && g.Hi != window.Forever && rs.rule.Clear != nil {
		found = w.Ends(rs.rule, g.Lo, g.Hi)
	}
	if len(found) == 0 || g.Hi <= found[0]+int64(rs.rule.For) {
		return // it was too short; an earlier line was handled on its own
	}
	for _, l := range rs.lapses {
		if l.ep.key == string(e.in.key) && l.joins(trig.T, g) {
			for _, t := range found {
				l.times.AddTrigger(t)
			}
			if l.ep.lastID != trig.Line.ID {
				l.ep.lines, l.ep.lastID = l.ep.lines+1, trig.Line.ID
			}
			if trig.T >= l.ep.newest {
				l.ep.newest = trig.T
				l.ep.show(trig, &e.in.Copier)
			} else if trig.T == l.times[0] {
				l.ep.first = e.in.Text(trig.Sample())
			}
			l.ep.logs.note(&e.in.origin)
			l.rearm()
			return
		}
	}
	if len(rs.lapses) >= rs.rule.Limit {
		e.refuse(rs, string(e.in.key), trig.T, limit{of: ofRule, n: rs.rule.Limit}, now)
		return
	}
	ep := e.newEpisode(rs, values, trig)
	ep.share()
	ep.noteOpened(trig, now)
	(&lapse{ep: ep, times: found}).add()
}

// add makes the lapse one of its rule.
func (l *lapse) add() {
	l.due.rs, l.due.lapse = l.ep.rs, l
	l.ep.rs.lapses = append(l.ep.rs.lapses, l)
	l.end = window.Forever
	l.rearm()
}

// joins reports whether a trigger at t belongs to the lapse: no clear line is
// between them, or it was never quiet for too long.
func (l *lapse) joins(t int64, g window.Gap) bool {
	if l.ep.rs.rule.Clear != nil {
		return g.Lo < l.times[0] && l.times[0] < g.Hi
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
		if x := rs.cleared.Items[l.ep.clears]; x != nil {
			if g, alive := x.Value.Gap(l.times[0]); alive && g.Hi < window.Forever {
				l.end, l.why = g.Hi, ReasonClear
			}
		}
		if l.end == window.Forever || end <= rs.seenAt(l.end) {
			l.end, l.why = end, ReasonExpired
		}
	}
	l.due.arm()
}

// recover applies a clear line at t to a pending episode: the triggers before it are a
// separate failure, which is over.
func (e *Engine) recover(ep *episode, known window.Clears, t, now int64, line window.Text) {
	before, rest := ep.rs.divided(ep.window, ep.times, known, t, window.Forever)
	lasted := len(before) > 0 && before[0]+int64(ep.rs.rule.For) < t
	switch {
	case len(before) == 0 && slices.Equal(rest, ep.times):
	case !lasted && len(rest) == 0:
		e.close(ep, ReasonClear, t, now, line)
	case !lasted:
		e.restart(ep, rest)
	case len(rest) == 0:
		ep.detach()
		ep.times = nil
		(&lapse{ep: ep, times: before, shown: true}).add()
	default:
		over := ep.part(&e.in.Copier)
		over.lines, over.last.Line = int64(len(before)), over.first
		(&lapse{ep: over, times: before}).add()
		e.restart(ep, rest)
	}
}

// divided returns the triggers before and after a clear line at t; hi is the next clear
// line. Triggers behind which the watermark is not yet are searched again in the window:
// they may have counted lines from the other side.
func (rs *ruleState) divided(w *keyWindow, ts window.Times, known window.Clears, t, hi int64) (before, after window.Times) {
	before, after = slices.Clone(ts[:ts.Since(t-1)]), slices.Clone(ts[ts.Since(t):])
	if w == nil || !rs.windowed() {
		return before, after
	}
	after = after[:after.Since(rs.watermark())]
	for _, end := range w.Ends(rs.rule, known.Before(t), t) {
		before.AddTrigger(end)
	}
	for _, end := range w.Ends(rs.rule, t, hi) {
		after.AddTrigger(end)
	}
	return before, after
}

// undone reports whether a clear line at t, which is older than the newest trigger,
// leaves no trigger: those behind it counted lines before it.
func (ep *episode) undone(t int64) bool {
	rs := ep.rs
	return t >= ep.starts && rs.windowed() && ep.window != nil && t > rs.watermark() && len(ep.window.Ends(rs.rule, t, window.Forever)) == 0
}

// part returns a copy of an episode for a part of its time.
func (ep *episode) part(c *window.Copier) *episode {
	c.Copy(&ep.last)
	out := *ep
	out.due, out.slot, out.window, out.times, out.last = deadline{}, fair.Entry{}, nil, nil, ep.last.Unlisted()
	out.logs.known = slices.Clone(ep.logs.known)
	out.history.events = slices.Clone(ep.history.events)
	if !ep.rs.rule.Sequence {
		out.sequence = window.Hits{&out.last}
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
	(&lapse{ep: ep.part(&e.in.Copier), times: slices.Compact(window.Times{ep.starts, ep.newest})}).add()
	return true
}

// restart makes a pending episode start with the remaining triggers. The line of the
// first one is no longer known.
func (e *Engine) restart(ep *episode, rest window.Times) {
	ep.times = rest
	ep.starts, ep.moved, ep.from = rest[0], 0, rest[0]-1
	ep.lines, ep.first = int64(len(rest)), window.Text{Clean: true}
	if len(rest) == 1 {
		ep.first = e.in.Text(ep.last.Line)
	}
	e.journal.touch(ep)
	ep.due.arm()
}

// divide applies a clear line at t to the lapses that share key with it.
func (e *Engine) divide(rs *ruleState, key string, known window.Clears, t, now int64) {
	for _, l := range slices.Clone(rs.lapses) {
		if l.ep.clears != key || l.ep.noClear || !rs.windowed() && l.times[0] > t || l.end <= t || known.Before(l.times[0]) > t {
			continue
		}
		before, later := rs.divided(rs.windowFor(l.ep.key), l.times, known, t, l.end)
		switch {
		case len(before) == 0 && len(later) == 0: // the line has the time of the trigger
			l.due.disarm()
			e.dropLapse(l, now)
			continue
		case len(before) == 0:
			l.times = later
		case len(later) > 0:
			x := l.ep.part(&e.in.Copier)
			x.lines, x.first = int64(len(later)), window.Text{Clean: true}
			(&lapse{ep: x, times: slices.Clone(later)}).add()
			l.ep.lines, l.ep.last.Line = int64(len(before)), l.ep.first
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
	ep.starts, ep.newest = l.times[0], l.times[len(l.times)-1]
	e.identify(ep)
	left := rs.unmuted(ep, l.times, l.end)
	if len(left) > 0 {
		ep.starts = left[0]
	}
	if len(left) == 0 || ep.starts+int64(rs.rule.For) >= l.end || e.journal.notified(ep, l.end) {
		e.dropLapse(l, now)
		return
	}
	l.remove()
	e.journal.nameEarlier(e.report(ep, now), ep.starts, now)
	e.journal.nameEarlier(e.finish(ep, l.why, l.end, now, window.Text{}), ep.starts, now)
	if cur := rs.open[ep.key]; cur != nil && cur.state == StateFiring {
		e.journal.add(cur.transition(now, &e.in.Copier)) // it is what is true now
	}
}

// dropLapse ends a lapse that is not notified.
func (e *Engine) dropLapse(l *lapse, now int64) {
	l.remove()
	if l.shown {
		e.finish(l.ep, l.why, l.end, now, window.Text{})
	}
}

// remove is the inverse of add.
func (l *lapse) remove() {
	rs := l.ep.rs
	rs.lapses = slices.DeleteFunc(rs.lapses, func(o *lapse) bool { return o == l })
}

// unmuted returns the triggers from the first on that no unless line prevents from
// opening an episode that lasts until it fires, or until end.
func (rs *ruleState) unmuted(ep *episode, ts window.Times, end int64) window.Times {
	u := rs.rule.Unless
	x := rs.muted.Items[ep.mutes]
	if u == nil || x == nil {
		return ts
	}
	for _, m := range x.Value {
		for len(ts) > 0 && m > ts[0]-int64(u.Within) && m <= min(end, ts[0]+int64(rs.rule.For)+rs.group.lateness) {
			ts = ts[1:]
		}
	}
	return ts
}
