package episodes

import (
	"slices"

	"crowsnest/episodes/internal/watermark"
	"crowsnest/episodes/internal/window"
	"crowsnest/internal/quota"
	"crowsnest/redact"
)

// A lapse is a failure whose end was read before the watermark showed that it lasted for
// `for`. It is decided when the watermark reaches its end: if it lasted long enough, it is
// notified as firing and immediately as resolved, as if all lines had been read in order of
// time. Until then late lines may extend it, divide it or show that it was too short.
type lapse struct {
	ep    *episode     // not among the open ones
	times window.Times // its triggers
	end   int64
	why   Reason // reason of the end
	shown bool   // reports whether the lapse was reported as pending
	due   watermark.Deadline
}

// undecided reports whether the triggers of a pending episode are remembered one by
// one: a clear or unless line that is read late may come between them.
func (ep *episode) undecided() bool {
	return ep.state == StatePending && (ep.rs.rule.Clear != nil || ep.rs.mutesElsewhere)
}

// lapsed accepts a trigger whose failure had ended before the trigger was read: with the
// clear line at g.Hi, or with the quiet time.
func (rs *ruleState) lapsed(values []redact.Text, trig *window.Trigger, g window.Gap, now int64) {
	found := window.Times{trig.T}
	if w := rs.windowFor(string(rs.in.Key)); w != nil && g.Hi != window.Forever && rs.rule.Clear != nil {
		found = w.Ends(rs.rule, g.Lo, g.Hi)
	}
	if len(found) == 0 || g.Hi <= found[0]+int64(rs.rule.For) {
		return // the lapse was too short, and the earlier line counts by itself
	}
	for _, l := range rs.lapses {
		if l.ep.key == string(rs.in.Key) && l.joins(trig.T, g) {
			for _, t := range found {
				l.times.AddTrigger(t)
			}
			if l.ep.lastID != trig.Line.ID {
				l.ep.lines, l.ep.lastID = l.ep.lines+1, trig.Line.ID
			}
			if trig.T >= l.ep.newest {
				l.ep.newest = trig.T
				l.ep.show(trig)
			} else if trig.T == l.times[0] {
				l.ep.first = rs.in.Text(trig.Sample())
			}
			l.ep.logs.Note(&rs.in.Origin)
			l.rearm()
			return
		}
	}
	if !rs.placeLapse(trig.Party, now) {
		rs.over.refuse(string(rs.in.Key), trig.T, limit{of: ofRule, n: rs.rule.Limit}, now)
		return
	}
	ep := rs.newEpisode(values, trig)
	ep.share()
	ep.noteOpened(trig, now)
	(&lapse{ep: ep, times: found}).add()
}

// placeLapse makes a place for one more lapse of a party, and reports whether there is one.
// Infrastructure and all others have as many places each, and the party with the most gives
// one to a party with fewer.
func (rs *ruleState) placeLapse(party string, now int64) bool {
	if len(rs.lapses) < rs.rule.Limit {
		return true
	}
	counts, n := map[string]int{}, 0
	var oldest *lapse
	side := rs.infrastructure(party)
	for _, l := range rs.lapses {
		if rs.infrastructure(l.ep.party) == side {
			counts[l.ep.party]++
			n++
		}
	}
	if n < rs.rule.Limit {
		return true
	}
	for _, l := range rs.lapses {
		if have := counts[l.ep.party]; have > counts[party]+1 && (oldest == nil || have > counts[oldest.ep.party]) {
			oldest = l
		}
	}
	if oldest == nil {
		return false
	}
	oldest.due.Disarm()
	oldest.drop(now)
	rs.over.refuse(oldest.ep.key, oldest.times[0], limit{of: ofShare, namespace: oldest.ep.party}, now)
	return true
}

// add adds the lapse to its rule.
func (l *lapse) add() {
	l.due.Of = l
	l.ep.rs.lapses = append(l.ep.rs.lapses, l)
	l.end = window.Forever
	l.rearm()
}

// joins reports whether a trigger at t belongs to the lapse: they are not separated by a
// clear line or, without clear lines, by a quiet time that would end the failure.
func (l *lapse) joins(t int64, g window.Gap) bool {
	if l.ep.rs.rule.Clear != nil {
		return g.Lo < l.times[0] && l.times[0] < g.Hi
	}
	quiet := l.ep.rs.quiet() + l.ep.rs.groups.steps.Lateness
	return l.times[0]-t <= quiet && t-l.times[len(l.times)-1] <= quiet
}

// rearm computes the start and the end of the lapse from the lines read so far, and arms
// it.
func (l *lapse) rearm() {
	rs := l.ep.rs
	l.ep.starts = l.times[0]
	if end := l.times[len(l.times)-1] + rs.quiet(); rs.rule.Clear == nil {
		l.end, l.why = end, ReasonQuiet
	} else {
		if x := rs.clear.lines.Items[l.ep.clears]; x != nil {
			if g, alive := x.Value.Gap(l.times[0]); alive && g.Hi < window.Forever {
				l.end, l.why = g.Hi, ReasonClear
			}
		}
		if l.end == window.Forever || end <= seenAt(rs.groups.steps.Group, l.end) {
			l.end, l.why = end, ReasonExpired
		}
	}
	l.due.Arm(l.awaits().Group)
}

// recover applies a clear line at t to a pending episode. The triggers before it become a
// failure of their own, which has ended.
func (ep *episode) recover(known window.Clears, t, now int64, line window.Text) {
	before, rest := ep.rs.divided(ep.window, ep.times, known, t, window.Forever)
	rest = ep.unmuted(rest)
	lasted := len(before) > 0 && before[0]+int64(ep.rs.rule.For) < t
	switch {
	case len(before) == 0 && slices.Equal(rest, ep.times):
	case !lasted && len(rest) == 0:
		ep.close(ReasonClear, t, now, line)
	case !lasted:
		ep.restart(rest)
	case len(rest) == 0:
		ep.detach()
		ep.times = nil
		(&lapse{ep: ep, times: before, shown: true}).add()
	default:
		over := ep.part()
		over.lines, over.last.Line = int64(len(before)), over.first
		(&lapse{ep: over, times: before}).add()
		ep.restart(rest)
	}
}

// divided returns the triggers before and after a clear line at t; hi is the next clear
// line. Triggers ahead of the watermark are searched again in the window, because they may
// have counted lines of the other side.
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

// undone reports whether a clear line at t, older than the newest trigger, leaves no
// trigger after it: those after it counted lines before it.
func (ep *episode) undone(t int64) bool {
	rs := ep.rs
	return t >= ep.starts && rs.windowed() && ep.window != nil && t > rs.watermark() && len(ep.window.Ends(rs.rule, t, window.Forever)) == 0
}

// part returns a copy of an episode for a part of its time.
func (ep *episode) part() *episode {
	ep.rs.in.Copy(&ep.last)
	out := *ep
	out.due, out.slot, out.window, out.times, out.last = watermark.Deadline{}, quota.Entry{}, nil, nil, ep.last.Unlisted()
	out.logs = ep.logs.Clone()
	out.symptom = symptom{}
	out.history.events = slices.Clone(ep.history.events)
	if !ep.rs.rule.Sequence {
		out.sequence = window.Hits{&out.last}
	}
	return &out
}

// seenAt returns the watermark of a group when a line at t would be read if all lines were
// read in order of time.
func seenAt(g *watermark.Group, t int64) int64 { return t - 1 - g.Lateness }

// beginsAgain reports whether a pending episode, whose quiet time ended before a trigger at
// t, starts again with it. The earlier part becomes a lapse if it lasted long enough. The
// episode continues if reading in order of time would have fired and not ended it.
func (ep *episode) beginsAgain(t int64) bool {
	rs := ep.rs
	if !ep.fires() || ep.Due() > seenAt(rs.groups.firing.Group, t) {
		return true
	}
	if ep.end() > seenAt(rs.groups.steps.Group, t) {
		return false
	}
	(&lapse{ep: ep.part(), times: slices.Compact(window.Times{ep.starts, ep.newest})}).add()
	return true
}

// restart moves the start of a pending episode to the first remaining trigger, whose line
// is no longer known.
func (ep *episode) restart(rest window.Times) {
	ep.times = rest
	ep.starts, ep.moved, ep.from = rest[0], 0, rest[0]-1
	ep.reset(nil)
	ep.lines, ep.first = int64(len(rest)), window.Text{}
	if len(rest) == 1 {
		ep.first = ep.rs.in.Text(ep.last.Line)
	}
	ep.rs.journal.touch(ep)
	ep.arm()
}

// divide applies a clear line at t to the lapses that share key with it.
func (rs *ruleState) divide(key string, known window.Clears, t, now int64) {
	for _, l := range slices.Clone(rs.lapses) {
		if l.ep.clears != key || l.ep.noClear || !rs.windowed() && l.times[0] > t || l.end <= t || known.Before(l.times[0]) > t {
			continue
		}
		before, later := rs.divided(rs.windowFor(l.ep.key), l.times, known, t, l.end)
		switch {
		case len(before) == 0 && len(later) == 0: // the clear line has the time of the trigger
			l.due.Disarm()
			l.drop(now)
			continue
		case len(before) == 0:
			l.times = later
		case len(later) > 0:
			x := l.ep.part()
			x.lines, x.first = int64(len(later)), window.Text{}
			(&lapse{ep: x, times: slices.Clone(later)}).add()
			l.ep.lines, l.ep.last.Line = int64(len(before)), l.ep.first
			fallthrough
		default:
			l.times = slices.Clone(before)
		}
		l.rearm()
	}
}

// Due is when it is certain that the failure is over.
func (l *lapse) Due() int64 { return l.end }

// conclude notifies a lapse that lasted long enough, unless something already notified
// contains it.
func (l *lapse) conclude(now int64) {
	ep, rs := l.ep, l.ep.rs
	ep.starts, ep.newest = l.times[0], l.times[len(l.times)-1]
	ep.identify()
	left := rs.unmuted(ep, l.times, l.end)
	if len(left) > 0 {
		ep.starts = left[0]
	}
	if len(left) == 0 || ep.starts+int64(rs.rule.For) >= l.end || rs.journal.notified(ep, l.end) {
		l.drop(now)
		return
	}
	l.remove()
	rs.journal.nameEarlier(ep.report(now), ep.starts, now)
	rs.journal.nameEarlier(ep.finish(l.why, l.end, now, window.Text{}), ep.starts, now)
	if cur := rs.open[ep.key]; cur != nil && cur.state == StateFiring {
		rs.journal.add(cur.transition(now)) // the newest report must be the current state
	}
}

// drop ends a lapse that is not notified.
func (l *lapse) drop(now int64) {
	l.remove()
	if l.shown {
		l.ep.finish(l.why, l.end, now, window.Text{})
	}
}

// remove is the inverse of add.
func (l *lapse) remove() {
	rs := l.ep.rs
	rs.lapses = slices.DeleteFunc(rs.lapses, func(o *lapse) bool { return o == l })
}

// unmuted drops leading triggers for as long as an unless line keeps them from opening an
// episode that lasts until it fires, or until end.
func (rs *ruleState) unmuted(ep *episode, ts window.Times, end int64) window.Times {
	u := rs.rule.Unless
	x := rs.unless.lines.Items[ep.mutes]
	if u == nil || x == nil {
		return ts
	}
	for _, m := range x.Value {
		for len(ts) > 0 && m > ts[0]-int64(u.Within) && m <= min(end, ts[0]+int64(rs.rule.For)+rs.groups.firing.Lateness) {
			ts = ts[1:]
		}
	}
	return ts
}
