package episodes

import (
	"strings"

	"crowsnest/episodes/internal/fair"
	"crowsnest/episodes/internal/window"
	"crowsnest/episodes/render"
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
	sequence window.Hits
	last     window.Hit
	times    window.Times // triggers, while it is undecided
	first    window.Text  // of the trigger that opened it
	logs     logs
	window   *keyWindow
	dirty    bool
	due      deadline
	slot     fair.Entry // its place in the limits

	history history
	texts   *render.Texts // of the newest transition that was shown
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

// counts reports whether a line is one of the failure: of the window that opened it
// or newer, or an older one that was read later.
func (ep *episode) counts(t int64) bool {
	return t > ep.from || !ep.rs.windowed() && t > ep.from-ep.rs.quiet()
}

// ownWindow returns the window of an episode.
func (ep *episode) ownWindow() *keyWindow {
	if ep.window == nil {
		ep.window = ep.rs.newWindow(window.New(ep.rs.rule), ep.values, ep.who)
	}
	return ep.window
}

// drop drops the lines up to t from its window.
func (ep *episode) drop(t int64) {
	if ep.window != nil {
		ep.window.Drop(t)
		ep.rs.slots.Resize(&ep.slot, ep.window.Size())
	}
}

// open opens the episode of a key unless the trigger is over, muted or beyond a
// limit.
func (e *Engine) open(rs *ruleState, values []string, trig *window.Trigger, now int64) {
	if over := trig.T + rs.quiet(); over <= rs.watermark() { // read so late that it is over already
		e.lapsed(rs, values, trig, window.Gap{Lo: window.NoTime, Hi: over}, now)
		return
	}
	if rs.isMuted(values, e.in.who, trig.T) {
		return
	}
	key := string(e.in.key)
	if l, full := e.place(rs, trig.Party, now); full {
		e.refuse(rs, key, trig.T, l, now)
		return
	}
	ep := e.newEpisode(rs, values, trig)
	e.identify(ep)
	if x := rs.windows.Items[key]; x != nil {
		ep.window = x.Value
		rs.windows.Delete(key)
	}
	ep.noteOpened(trig, now)
	ep.add(trig.Party)
	if rs.waits() {
		e.journal.add(ep.transition(now, &e.in.Copier))
	} else {
		e.fire(ep, now)
	}
	ep.due.arm()
}

// newEpisode returns the episode that a trigger of the key of the hit begins.
func (e *Engine) newEpisode(rs *ruleState, values []string, trig *window.Trigger) *episode {
	ep := &episode{
		rs: rs, key: string(e.in.key), values: e.in.Copier.Values(values), who: e.in.who,
		namespace: strings.Clone(e.in.labels["namespace"]), party: strings.Clone(trig.Party), state: StatePending, newest: trig.T,
	}
	ep.begin(trig, &e.in)
	ep.show(trig, &e.in.Copier)
	return ep
}

// share computes the keys that clear and unless lines share with the episode.
func (ep *episode) share() {
	rs := ep.rs
	ep.clears, ep.noClear = rs.shared(rs.clearAt, ep.values, ep.who)
	ep.mutes, _ = rs.shared(rs.muteAt, ep.values, ep.who)
}

// add makes the episode one of the open ones.
func (ep *episode) add(party string) {
	rs := ep.rs
	ep.due.rs, ep.due.ep = rs, ep
	rs.open[ep.key] = ep
	ep.share()
	rs.byClear.add(ep.clears, ep)
	rs.byMute.add(ep.mutes, ep)
	ep.slot.Key = ep.key
	if ep.window != nil {
		ep.slot.Lines = ep.window.Size()
	}
	rs.slots.Put(&ep.slot, party)
	if ep.loose {
		rs.loose++
	}
	if ep.state == StatePending {
		rs.pending++
	}
}

// charged is the party of the episode, which may change while it is open.
func (ep *episode) charged() string {
	if ep.slot.Placed() {
		return ep.slot.Party()
	}
	return ep.party
}

// remove is the inverse of add.
func (ep *episode) remove() {
	rs := ep.rs
	ep.due.disarm()
	delete(rs.open, ep.key)
	rs.last.forget(ep)
	rs.byClear.remove(ep.clears, ep)
	rs.byMute.remove(ep.mutes, ep)
	ep.party = ep.slot.Party()
	rs.slots.Remove(&ep.slot)
	if ep.loose {
		rs.loose--
	}
	if ep.state == StatePending {
		rs.pending--
	}
}

// begin starts the episode at a trigger.
func (ep *episode) begin(trig *window.Trigger, in *intake) {
	ep.starts, ep.moved, ep.from, ep.lines = trig.T, 0, trig.From, trig.Lines
	if trig.T == in.hit.T {
		ep.moved = in.moved // startsAt is what the line says, as before
	}
	ep.lastID, ep.written = trig.Line.ID, trig.Line.T
	ep.first = in.Text(trig.Sample())
	ep.logs = logs{}
	ep.logs.note(&in.origin)
	if ep.undecided() && ep.rs.waits() {
		ep.times = window.Times{trig.T}
	}
}

// show makes a trigger the one that the episode shows.
func (ep *episode) show(trig *window.Trigger, c *window.Copier) {
	line := trig.Sample()
	if line.S == "" {
		line = ep.last.Line
	}
	if trig.Sequence != nil {
		ep.sequence = trig.Sequence
		c.List(&ep.last)
	} else {
		if len(ep.sequence) != 1 || ep.sequence[0] != &ep.last {
			ep.sequence = window.Hits{&ep.last}
		}
		c.Borrow(&ep.last, trig.Shown)
	}
	ep.last.Line = line
}

// extend applies a trigger to an open episode.
func (e *Engine) extend(ep *episode, trig *window.Trigger) {
	if ep.undecided() {
		ep.times.AddTrigger(trig.T)
	}
	if trig.T < ep.newest {
		return
	}
	if ep.state == StatePending && trig.T-ep.newest > ep.rs.quiet() && e.beginsAgain(ep, trig.T) {
		// It was quiet for too long, though the watermark did not show it in time.
		ep.begin(trig, &e.in)
		ep.history.note(Event{At: instant(trig.T), Kind: EventOpened})
	}
	ep.newest = trig.T
	ep.show(trig, &e.in.Copier)
	e.journal.touch(ep)
}

// fire makes a pending episode a firing one.
func (e *Engine) fire(ep *episode, now int64) {
	ep.rs.pending--
	ep.times = nil
	e.report(ep, now)
}

// report reports an episode as firing.
func (e *Engine) report(ep *episode, now int64) *transition {
	ep.state, ep.fired = StateFiring, now
	ep.history.note(Event{At: instant(now), Kind: EventFired})
	t := ep.transition(now, &e.in.Copier)
	e.journal.add(t)
	return t
}

// close ends an episode, because of a line if there is one, and keeps its window.
func (e *Engine) close(ep *episode, reason Reason, end, now int64, line window.Text) {
	ep.detach()
	e.finish(ep, reason, end, now, line)
}

// finish reports the end of an episode that is no longer open.
func (e *Engine) finish(ep *episode, reason Reason, end, now int64, line window.Text) *transition {
	x := ep.transition(now, &e.in.Copier)
	e.journal.finish(ep, x, reason, end, now)
	e.journal.noteEnded(ep, x, e.in.Copier.Text(line))
	return x
}

// detach takes an episode out of the open ones and keeps its window.
func (ep *episode) detach() {
	party := ep.slot.Party()
	ep.remove()
	if ep.window != nil && ep.window.Size() > 0 {
		ep.rs.windows.Add(ep.key, party, ep.window, ep.window.Size())
	}
	ep.window = nil
}
