package episodes

import (
	"maps"
	"slices"
	"strings"
)

// episode is one open failure.
type episode struct {
	rs     *ruleState
	key    string
	values []string // of `by`
	who    *identity
	// clears and mutes are the keys that clear and unless lines share with it;
	// noClear: it lacks a value, so that no clear line does.
	clears, mutes string
	noClear       bool
	restored
	labels map[string]string
	print  Fingerprint
	state  State
	// namespace of the stream whose line opened it, as the source states it.
	namespace string
	party     string // that was charged; see charged

	starts  int64 // trigger time that opened it
	moved   int64 // how far starts was moved since, with the clock
	newest  int64 // newest trigger
	from    int64 // the window that opened it begins after this time
	fired   int64 // clock; 0 while pending
	written int64 // event time of the line that completed the condition
	lines   int64
	lastID  uint64 // line that was counted last
	// sequence is the match of the newest trigger of a sequence; else it is last alone.
	// The line of last is the newest trigger's.
	sequence hits
	last     hit
	times    times // triggers, while it is undecided
	first    text  // of the trigger that opened it
	logs     logs
	window   *window
	dirty    bool
	due      deadline
	slot     entry // its place in the limits

	history history
	texts   texts
}

// end is when it ends without a further trigger.
func (ep *episode) end(rs *ruleState) int64 { return ep.newest + rs.quiet() }

// deadline is when something is concluded without a further line.
func (ep *episode) deadline(rs *ruleState) int64 {
	if ep.state == StatePending {
		return min(ep.starts+int64(rs.rule.For), ep.end(rs))
	}
	return ep.end(rs)
}

// open opens the episode of a key unless the trigger is over, muted or beyond a
// limit.
func (e *Engine) open(rs *ruleState, values []string, trig *trigger, now int64) {
	if over := trig.t + rs.quiet(); over <= rs.watermark() { // read so late that it is over already
		e.lapsed(rs, values, trig, gap{noTime, over}, now)
		return
	}
	if e.isMuted(rs, values, trig.t) {
		return
	}
	key := string(e.batch.key)
	if l, full := e.place(rs, trig.party, now); full {
		e.refuse(rs, key, trig.t, l, now)
		return
	}
	ep := e.newEpisode(rs, values, trig)
	e.identify(ep)
	if x := rs.windows.items[key]; x != nil {
		ep.window = x.value
		rs.windows.delete(key)
	}
	ep.noteOpened(trig, now)
	e.add(ep, trig.party)
	if rs.waits() {
		e.changes = append(e.changes, e.export(ep, now))
	} else {
		e.fire(ep, now)
	}
	ep.due.arm()
}

// newEpisode returns the episode that a trigger of the key of the batch begins.
func (e *Engine) newEpisode(rs *ruleState, values []string, trig *trigger) *episode {
	ep := &episode{
		rs: rs, key: string(e.batch.key), values: e.batch.cloned(values), who: e.batch.who,
		namespace: strings.Clone(e.batch.labels["namespace"]), party: strings.Clone(trig.party), state: StatePending, newest: trig.t,
	}
	e.begin(ep, trig)
	e.show(ep, trig)
	return ep
}

// add makes an episode one of the open ones.
func (e *Engine) add(ep *episode, party string) {
	rs := ep.rs
	ep.due.rs, ep.due.ep = rs, ep
	rs.open[ep.key] = ep
	ep.clears, ep.noClear = rs.shared(rs.clearAt, ep.values, ep.who)
	ep.mutes, _ = rs.shared(rs.muteAt, ep.values, ep.who)
	rs.byClear.add(ep.clears, ep)
	rs.byMute.add(ep.mutes, ep)
	ep.slot.key = ep.key
	if ep.window != nil {
		ep.slot.lines = ep.window.size()
	}
	rs.slots.put(&ep.slot, party)
	if ep.loose {
		rs.loose++
	}
	if ep.state == StatePending {
		rs.pending++
	}
}

// charged is the party of the episode, which may change while it is open.
func (ep *episode) charged() string {
	if c := ep.slot.cell; c != nil {
		return c.party
	}
	return ep.party
}

// remove is the inverse of add.
func (e *Engine) remove(ep *episode) {
	rs := ep.rs
	ep.due.disarm()
	delete(rs.open, ep.key)
	rs.last.forget(ep)
	rs.byClear.remove(ep.clears, ep)
	rs.byMute.remove(ep.mutes, ep)
	ep.party = ep.slot.cell.party
	rs.slots.remove(&ep.slot)
	if ep.loose {
		rs.loose--
	}
	if ep.state == StatePending {
		rs.pending--
	}
}

// begin starts the episode at a trigger.
func (e *Engine) begin(ep *episode, trig *trigger) {
	ep.starts, ep.moved, ep.from, ep.lines = trig.t, 0, trig.from, trig.lines
	if trig.t == e.batch.hit.t {
		ep.moved = e.batch.moved // startsAt is what the line says, as before
	}
	ep.lastID, ep.written = trig.line.id, trig.line.t
	ep.first = e.copied(trig.sample())
	ep.logs = logs{}
	ep.logs.note(&e.batch.origin)
	if ep.undecided() && ep.rs.waits() {
		ep.times = times{trig.t}
	}
}

// show makes a trigger the one that the episode shows.
func (e *Engine) show(ep *episode, trig *trigger) {
	line := trig.sample()
	if line.s == "" {
		line = ep.last.line
	}
	if trig.sequence != nil {
		ep.sequence = trig.sequence
		e.batch.list(&ep.last)
	} else {
		if len(ep.sequence) != 1 || ep.sequence[0] != &ep.last {
			ep.sequence = hits{&ep.last}
		}
		e.batch.borrow(&ep.last, trig.shown)
	}
	ep.last.line = line
}

// sample is the line that stands for a trigger: the newest that is still known.
func (trig *trigger) sample() text {
	if trig.sequence == nil {
		return trig.shown.line
	}
	for _, h := range slices.Backward(trig.sequence) {
		if h.line.s != "" {
			return h.line
		}
	}
	return text{}
}

// extend applies a trigger to an open episode.
func (e *Engine) extend(ep *episode, trig *trigger) {
	if ep.undecided() {
		ep.times.addTime(trig.t)
	}
	if trig.t < ep.newest {
		return
	}
	if ep.state == StatePending && trig.t-ep.newest > ep.rs.quiet() && e.beginsAgain(ep, trig.t) {
		// It was quiet for too long, though the watermark did not show it in time.
		e.begin(ep, trig)
		ep.history.note(transition{at: trig.t, kind: didOpen})
	}
	ep.newest = trig.t
	e.show(ep, trig)
	e.touch(ep)
}

// fire makes a pending episode a firing one.
func (e *Engine) fire(ep *episode, now int64) {
	ep.rs.pending--
	ep.state, ep.fired, ep.times = StateFiring, now, nil
	ep.history.note(transition{at: now, kind: didFire})
	e.changes = append(e.changes, e.export(ep, now))
}

// close ends an episode and keeps its window.
func (e *Engine) close(ep *episode, reason Reason, end, now int64) {
	e.closeBy(ep, reason, end, now, text{})
}

// closeBy is close because of a line.
func (e *Engine) closeBy(ep *episode, reason Reason, end, now int64, line text) {
	e.detach(ep)
	e.finish(ep, reason, end, now, line)
}

// detach takes an episode out of the open ones and keeps its window.
func (e *Engine) detach(ep *episode) {
	party := ep.slot.cell.party
	e.remove(ep)
	if ep.window != nil && ep.window.size() > 0 {
		ep.rs.windows.add(ep.key, party, ep.window, ep.window.size())
	}
	ep.window = nil
}

// finish reports the end of an episode that is no longer open.
func (e *Engine) finish(ep *episode, reason Reason, end, now int64, line text) Episode {
	state := StateResolved
	if ep.state == StatePending {
		state = StateDropped
	}
	x := e.export(ep, now)
	x.Annotations = maps.Clone(x.Annotations) // more may be said of the end
	x.State, x.Reason, x.OnHold = state, reason, false
	x.EndsAt, x.Concluded = instant(max(end, ep.starts, ep.starts-ep.moved)), instant(now)
	if reason == ReasonDisplaced {
		x.Annotations["ended"] = "Its place was needed. Whether the failure is over is not known; the alert with overflow=\"true\" of the same rule stands for it."
	}
	e.changes = append(e.changes, x)
	if state == StateResolved {
		e.closed = append(e.closed, x)
		e.noteSpan(ep.print, span{ep.starts, end, now})
	}
	e.noteEnded(ep, x, line)
	ep.state, ep.dirty = state, false
	return x
}

// acceptClear applies a clear line: it ends the episodes that are not newer and empties
// the windows of every key that it shares `same` with.
func (e *Engine) acceptClear(rs *ruleState, h *hit, now int64) {
	if rs.rule.Clear == nil {
		return
	}
	t := h.t
	values, _ := e.keyOf(rs, h.values)
	key, missing := rs.shared(rs.clearAt, values, e.batch.who)
	if missing {
		rs.stats.MissingSame++
		return
	}
	known := noClears()
	if old := rs.cleared.items[key]; old != nil {
		known = old.value
	}
	watermark := rs.watermark()
	known = known.with(t, int64(rs.rule.For), watermark-int64(rememberClears))
	rs.cleared.add(key, e.batch.party, known, 1)
	old := t
	if t > watermark {
		old = watermark - int64(rs.rule.Within) // the others may still count for an earlier time
	}
	rs.emptied(key, old)
	for _, ep := range e.concerned(rs, rs.byClear, rs.clearAt, key, values) {
		if ep.window != nil {
			ep.window.drop(old)
			rs.slots.resize(&ep.slot, ep.window.size())
		}
		switch {
		case t < known.newest: // it began after a newer clear line
		case ep.times != nil:
			e.recover(ep, known, t, now, h.line)
		case t >= ep.newest, rs.undone(ep, t):
			e.closeBy(ep, ReasonClear, t, now, h.line)
		}
	}
	rs.divide(e, key, known, t, now)
}

// acceptUnless applies an unless line: it ends the pending episodes that it mutes.
func (e *Engine) acceptUnless(rs *ruleState, h *hit, now int64) {
	u := rs.rule.Unless
	if u == nil {
		return
	}
	t := h.t
	values, _ := e.keyOf(rs, h.values)
	key, missing := rs.shared(rs.muteAt, values, e.batch.who)
	if missing {
		rs.stats.MissingSame++
		return
	}
	var times []int64
	if old := rs.muted.items[key]; old != nil {
		times = old.value
	}
	times = insertTime(times, t)
	rs.muted.add(key, e.batch.party, times, len(times))
	for _, ep := range e.concerned(rs, rs.byMute, rs.muteAt, key, values) {
		if ep.state == StatePending && t > ep.starts-int64(u.Within) {
			e.closeBy(ep, ReasonMuted, t, now, h.line)
		}
	}
}

// maxMutes bounds the unless lines kept per key, the newest ones.
const maxMutes = 256

// insertTime puts t into a sorted list of bounded length.
func insertTime(times []int64, t int64) []int64 {
	i, found := slices.BinarySearch(times, t)
	if found {
		return times
	}
	times = slices.Insert(times, i, t)
	if len(times) > maxMutes {
		times = slices.Delete(times, 0, 1)
	}
	return times
}

// isMuted reports whether a known unless line mutes an episode of a trigger at t.
// Behind the watermark an unless line counts only if it could have arrived while the
// episode was pending.
func (e *Engine) isMuted(rs *ruleState, values []string, t int64) bool {
	u := rs.rule.Unless
	if u == nil {
		return false
	}
	key, missing := rs.shared(rs.muteAt, values, e.batch.who)
	if missing {
		return false
	}
	late := t < rs.watermark()
	var times []int64
	if x := rs.muted.items[key]; x != nil {
		times = x.value
	} else if rs.older != nil {
		key, _ = rs.shared(rs.muteAt, values, nil)
		times = rs.older.muted[key]
	}
	for _, m := range times {
		if m > t-int64(u.Within) && (!late || m <= t+int64(rs.rule.For)+rs.group.lateness) {
			return true
		}
	}
	return false
}
