package episodes

import (
	"slices"

	"crowsnest/episodes/internal/watermark"
	"crowsnest/episodes/internal/window"
	"crowsnest/internal/quota"
	"crowsnest/redact"
)

// briefFailure is a failure whose end was read before the watermark showed that the failure lasted for `for`. The engine
// decides about it when the watermark reaches the end. If the failure lasted long enough, it is notified as firing and
// immediately as resolved, as if all lines had been read in order of their times. Until then, late lines may extend the
// brief failure, divide it or show that it was too short.
type briefFailure struct {
	ep     *episode     // episode of the failure; it is not among the open episodes
	times  window.Times // times of the triggers
	end    int64
	reason Reason // reason of the end
	shown  bool   // whether the brief failure was reported as pending
	due    watermark.Deadline
}

// isUndecided reports whether the triggers of a pending episode are remembered individually, because a clear or unless
// line that is read late may lie between two of them.
func (ep *episode) isUndecided() bool {
	return ep.state == StatePending && (ep.rs.rule.Clear != nil || ep.rs.mutesElsewhere)
}

// acceptLapsed accepts a late trigger of a failure that has already ended. Either the clear line at g.Hi or the quiet
// time ended the failure.
func (rs *ruleState) acceptLapsed(values []redact.Text, trig *window.Trigger, g window.Gap, now int64) {
	found := window.Times{trig.T}
	if w := rs.windowFor(string(rs.in.Key)); w != nil && g.Hi != window.Forever && rs.rule.Clear != nil {
		found = w.TriggersBetween(rs.rule, g.Lo, g.Hi)
	}
	if len(found) == 0 || g.Hi <= found[0]+int64(rs.rule.For) {
		return // the brief failure would be too short to fire
	}
	for _, l := range rs.briefFailures {
		if l.ep.key == string(rs.in.Key) && l.isJoinedBy(trig.T, g) {
			for _, t := range found {
				l.times.AddTrigger(t)
			}
			if l.ep.lastID != trig.Line.ID {
				l.ep.lines, l.ep.lastID = l.ep.lines+1, trig.Line.ID
			}
			if trig.T >= l.ep.newest {
				l.ep.newest = trig.T
				l.ep.showTrigger(trig)
			} else if trig.T == l.times[0] {
				l.ep.first = rs.in.CopyText(trig.SampleLine())
			}
			l.ep.logs.CountLog(&rs.in.Origin)
			l.recompute()
			return
		}
	}
	if !rs.placeLapse(trig.Tenant, now) {
		rs.overflow.countRefused(string(rs.in.Key), trig.T, limit{kind: ofRule, n: rs.rule.Limit}, now)
		return
	}
	ep := rs.newEpisode(values, trig)
	ep.computeSharedKeys()
	ep.noteOpened(trig, now)
	(&briefFailure{ep: ep, times: found}).add()
}

// placeLapse makes room for one more brief failure of a tenant. It returns false if there is no room. Infrastructure
// namespaces and all other tenants have the same number of places. If no place is free, the tenant with the most brief
// failures loses one to a tenant with fewer.
func (rs *ruleState) placeLapse(party string, now int64) bool {
	if len(rs.briefFailures) < rs.rule.Limit {
		return true
	}
	counts, n := map[string]int{}, 0
	var oldest *briefFailure
	side := rs.isInfrastructure(party)
	for _, l := range rs.briefFailures {
		if rs.isInfrastructure(l.ep.openedTenant) == side {
			counts[l.ep.openedTenant]++
			n++
		}
	}
	if n < rs.rule.Limit {
		return true
	}
	for _, l := range rs.briefFailures {
		if have := counts[l.ep.openedTenant]; have > counts[party]+1 && (oldest == nil || have > counts[oldest.ep.openedTenant]) {
			oldest = l
		}
	}
	if oldest == nil {
		return false
	}
	oldest.due.Disarm()
	oldest.drop(now)
	rs.overflow.countRefused(oldest.ep.key, oldest.times[0], limit{kind: ofShare, namespace: oldest.ep.openedTenant}, now)
	return true
}

func (l *briefFailure) add() {
	l.due.Subject = l
	l.ep.rs.briefFailures = append(l.ep.rs.briefFailures, l)
	l.end = window.Forever
	l.recompute()
}

// isJoinedBy reports whether a trigger at t belongs to the brief failure. It does not belong if a clear line lies
// between the trigger and the failure. Without clear lines, it does not belong if at least the quiet time lies between
// them.
func (l *briefFailure) isJoinedBy(t int64, g window.Gap) bool {
	if l.ep.rs.rule.Clear != nil {
		return g.Lo < l.times[0] && l.times[0] < g.Hi
	}
	quiet := l.ep.rs.quietTime() + l.ep.rs.groups.steps.Lateness
	return l.times[0]-t <= quiet && t-l.times[len(l.times)-1] <= quiet
}

// recompute computes the start and the end of the brief failure from the lines read so far, and arms its deadline.
func (l *briefFailure) recompute() {
	rs := l.ep.rs
	l.ep.starts = l.times[0]
	if end := l.times[len(l.times)-1] + rs.quietTime(); rs.rule.Clear == nil {
		l.end, l.reason = end, ReasonQuiet
	} else {
		if x := rs.clearLines.lines.Items[l.ep.clears]; x != nil {
			if g, alive := x.Value.GapAround(l.times[0]); alive && g.Hi < window.Forever {
				l.end, l.reason = g.Hi, ReasonClear
			}
		}
		if l.end == window.Forever || end <= watermarkAfter(rs.groups.steps.Group, l.end) {
			l.end, l.reason = end, ReasonExpired
		}
	}
	l.due.Arm(l.awaits().Group)
}

// applyClear applies a clear line at t to a pending episode. If the triggers before the line lasted long enough to
// fire, they become a brief failure.
func (ep *episode) applyClear(known window.Clears, t, now int64, line window.Text) {
	before, rest := ep.rs.splitTriggers(ep.window, ep.times, known, t, window.Forever)
	rest = ep.dropMuted(rest)
	lasted := len(before) > 0 && before[0]+int64(ep.rs.rule.For) < t
	switch {
	case len(before) == 0 && slices.Equal(rest, ep.times):
	case !lasted && len(rest) == 0:
		ep.close(ReasonClear, t, now, line)
	case !lasted:
		ep.restartAt(rest)
	case len(rest) == 0:
		ep.detach()
		ep.times = nil
		(&briefFailure{ep: ep, times: before, shown: true}).add()
	default:
		over := ep.copyPart()
		over.lines, over.last.Line = int64(len(before)), over.first
		(&briefFailure{ep: over, times: before}).add()
		ep.restartAt(rest)
	}
}

// splitTriggers divides triggers into those before and those after a clear line at t. hi is the time of the next clear
// line. The window of a trigger may have lines on both sides of the clear line at t. Therefore triggers ahead of the
// watermark are computed again from the window.
func (rs *ruleState) splitTriggers(w *keyWindow, ts window.Times, known window.Clears, t, hi int64) (before, after window.Times) {
	before, after = slices.Clone(ts[:ts.IndexAfter(t-1)]), slices.Clone(ts[ts.IndexAfter(t):])
	if w == nil || !rs.needsWindow() {
		return before, after
	}
	after = after[:after.IndexAfter(rs.watermarkOf(w.key, w.who, w.partialIdentity))]
	for _, end := range w.TriggersBetween(rs.rule, known.NewestBefore(t), t) {
		before.AddTrigger(end)
	}
	for _, end := range w.TriggersBetween(rs.rule, t, hi) {
		after.AddTrigger(end)
	}
	return before, after
}

// clearsAll reports whether a clear line at t ends the episode although its newest trigger is later than t. This is so
// if the later triggers needed lines from before t.
func (ep *episode) clearsAll(t int64) bool {
	rs := ep.rs
	return t >= ep.starts && rs.needsWindow() && ep.window != nil && t > rs.watermarkOf(ep.values, ep.who, ep.partialIdentity) && len(ep.window.TriggersBetween(rs.rule, t, window.Forever)) == 0
}

// copyPart returns a copy of the episode, for one part of an episode that is divided in time.
func (ep *episode) copyPart() *episode {
	ep.rs.in.Copy(&ep.last)
	out := *ep
	out.due, out.slot, out.window, out.times, out.last = watermark.Deadline{}, quota.Entry{}, nil, nil, ep.last.WithoutRecord()
	out.logs = ep.logs.Clone()
	out.symptom = symptom{}
	out.history.events = slices.Clone(ep.history.events)
	if !ep.rs.rule.Sequence {
		out.sequence = window.Hits{&out.last}
	}
	return &out
}

// watermarkAfter returns the watermark that a group would have when a line at t is read, if all lines were read in
// order of their times.
func watermarkAfter(g *watermark.Group, t int64) int64 { return t - 1 - g.Lateness }

// beginsAgain reports whether a trigger at t starts a pending episode again, because the quiet time before it had ended
// the episode. If the earlier part lasted long enough to fire, it becomes a brief failure. beginsAgain returns false if, with
// all lines read in order of their times, the episode would have fired and not ended before t.
func (ep *episode) beginsAgain(t int64) bool {
	rs := ep.rs
	if !ep.isFiringNext() || ep.Due() > watermarkAfter(rs.groups.firing.Group, t) {
		return true
	}
	if ep.endTime() > watermarkAfter(rs.groups.steps.Group, t) {
		return false
	}
	(&briefFailure{ep: ep.copyPart(), times: slices.Compact(window.Times{ep.starts, ep.newest})}).add()
	return true
}

// restartAt moves the start of a pending episode to the first of its remaining triggers. The engine no longer has the
// line of that trigger, unless it is the only one.
func (ep *episode) restartAt(rest window.Times) {
	ep.times = rest
	ep.starts, ep.clockShift, ep.windowStart = rest[0], 0, rest[0]-1
	ep.resetTriggers(nil)
	ep.lines, ep.first = int64(len(rest)), window.Text{}
	if len(rest) == 1 {
		ep.first = ep.rs.in.CopyText(ep.last.Line)
	}
	ep.rs.journal.markContinued(ep)
	ep.armDeadline()
}

func (rs *ruleState) splitLapses(key string, known window.Clears, t, now int64) {
	for _, l := range slices.Clone(rs.briefFailures) {
		if l.ep.clears != key || l.ep.noClear || !rs.needsWindow() && l.times[0] > t || l.end <= t || known.NewestBefore(l.times[0]) > t {
			continue
		}
		before, later := rs.splitTriggers(rs.windowFor(l.ep.key), l.times, known, t, l.end)
		switch {
		case len(before) == 0 && len(later) == 0: // the clear line and the trigger have the same time
			l.due.Disarm()
			l.drop(now)
			continue
		case len(before) == 0:
			l.times = later
		case len(later) > 0:
			x := l.ep.copyPart()
			x.lines, x.first = int64(len(later)), window.Text{}
			(&briefFailure{ep: x, times: slices.Clone(later)}).add()
			l.ep.lines, l.ep.last.Line = int64(len(before)), l.ep.first
			fallthrough
		default:
			l.times = slices.Clone(before)
		}
		l.recompute()
	}
}

// Due returns the time when it is certain that the failure is over.
func (l *briefFailure) Due() int64 { return l.end }

// conclude notifies a brief failure that lasted long enough, unless the alert was already notified for a part of that time.
func (l *briefFailure) conclude(now int64) {
	ep, rs := l.ep, l.ep.rs
	ep.starts, ep.newest = l.times[0], l.times[len(l.times)-1]
	ep.computeLabels()
	left := rs.dropMuted(ep, l.times, l.end)
	if len(left) > 0 {
		ep.starts = left[0]
	}
	if len(left) == 0 || ep.starts+int64(rs.rule.For) >= l.end || rs.journal.wasNotified(ep, l.end) {
		l.drop(now)
		return
	}
	l.remove()
	rs.journal.nameEarlier(ep.firingTransition(now), ep.starts, now)
	rs.journal.nameEarlier(ep.reportEnd(l.reason, l.end, now, window.Text{}), ep.starts, now)
	if cur := rs.open[ep.key]; cur != nil && cur.state == StateFiring {
		rs.journal.add(cur.transition(now)) // the last report must describe the current state
	}
}

func (l *briefFailure) drop(now int64) {
	l.remove()
	if l.shown {
		l.ep.reportEnd(l.reason, l.end, now, window.Text{})
	}
}

func (l *briefFailure) remove() {
	rs := l.ep.rs
	rs.briefFailures = slices.DeleteFunc(rs.briefFailures, func(o *briefFailure) bool { return o == l })
}

// dropMuted drops triggers from the start of ts that an unless line mutes. If the first trigger had opened an episode,
// such an unless line would have ended the episode before it fired. Only unless lines up to end count.
func (rs *ruleState) dropMuted(ep *episode, ts window.Times, end int64) window.Times {
	u := rs.rule.Unless
	x := rs.unlessLines.lines.Items[ep.mutes]
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
