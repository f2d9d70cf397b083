package episodes

import (
	"slices"
	"strings"

	"crowsnest/episodes/internal/instant"
	"crowsnest/episodes/internal/intake"
	"crowsnest/episodes/internal/watermark"
	"crowsnest/episodes/internal/window"
	"crowsnest/episodes/render"
	"crowsnest/internal/quota"
	"crowsnest/redact"
)

// episode is one open failure.
type episode struct {
	rs     *ruleState
	key    string
	values []redact.Text // values of `by`
	who    *intake.Identity
	// clears and mutes are the keys of the clear and unless lines that apply to it.
	// noClear: it lacks a value, so no clear line applies.
	clears, mutes string
	noClear       bool
	restored
	symptom
	labels map[string]string
	print  Fingerprint
	state  State
	// namespace of the stream whose line opened it, as the source states it.
	namespace string
	party     string // tenant that was charged; see charged

	starts  int64 // trigger time that opened it
	moved   int64 // how far clock changes have moved starts
	newest  int64 // newest trigger
	from    int64 // the window that opened it begins after this time
	fired   int64 // clock; 0 while pending
	written int64 // event time of the line that completed the condition
	lines   int64
	lastID  uint64 // line that was counted last
	// sequence holds the hits of the newest trigger of a sequence; for other rules it
	// holds only last. The line of last is that of the newest trigger.
	sequence window.Hits
	last     window.Hit
	times    window.Times // triggers, while it is undecided
	first    window.Text  // line of the trigger that opened the episode
	logs     intake.Logs
	window   *keyWindow
	dirty    bool
	due      watermark.Deadline
	slot     quota.Entry // its place in the limits

	history history
	texts   *render.Texts // texts of the newest transition that was shown
}

// end is when it ends without a further trigger.
func (ep *episode) end() int64 { return ep.newest + ep.rs.quiet() }

// Due is when something is concluded without a further line.
func (ep *episode) Due() int64 {
	if ep.fires() {
		return ep.starts + int64(ep.rs.rule.For)
	}
	return ep.end()
}

// fires reports whether the next conclusion is that the episode fires. A pending episode
// that would fire before its end does not end without that conclusion, even if the sources
// that it waits for are away for longer: nothing shows that the failure is over.
func (ep *episode) fires() bool {
	return ep.state == StatePending && ep.starts+int64(ep.rs.rule.For) < ep.end()
}

func (ep *episode) arm() { ep.due.Arm(ep.awaits().Group) }

// counts reports whether a line at t belongs to the failure: it is in the window that opened
// it or newer, or, without a window, older by less than the quiet time.
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

// drop removes the lines up to t from its window.
func (ep *episode) drop(t int64) {
	if ep.window != nil {
		ep.window.Drop(t)
		ep.rs.slots.Resize(&ep.slot, ep.window.Size())
	}
}

// openEpisode opens the episode of the key of the hit unless the failure is over, muted or
// beyond a limit.
func (rs *ruleState) openEpisode(values []redact.Text, trig *window.Trigger, now int64) {
	if over := trig.T + rs.quiet(); over <= rs.groups.steps.readUpTo(values, rs.in.Who, false) { // read so late that it is over already
		rs.lapsed(values, trig, window.Gap{Lo: window.NoTime, Hi: over}, now)
		return
	}
	if rs.isMuted(values, trig.T) {
		return
	}
	key := string(rs.in.Key)
	if l, full := rs.place(trig.Party, now); full {
		rs.over.refuse(key, trig.T, l, now)
		return
	}
	ep := rs.newEpisode(values, trig)
	ep.identify()
	if x := rs.windows.Items[key]; x != nil {
		ep.window = x.Value
		rs.windows.Delete(key)
	}
	ep.noteTrigger(trig)
	ep.noteOpened(trig, now)
	ep.add(trig.Party)
	if rs.waits() {
		rs.journal.add(ep.transition(now))
	} else {
		ep.fire(now)
	}
	ep.arm()
}

// newEpisode returns the episode that a trigger of the key of the hit begins.
func (rs *ruleState) newEpisode(values []redact.Text, trig *window.Trigger) *episode {
	in := &rs.in
	ep := &episode{
		rs: rs, key: string(in.Key), values: in.Copier.Values(values), who: in.Who,
		namespace: strings.Clone(in.Labels["namespace"]), party: strings.Clone(trig.Party), state: StatePending, newest: trig.T,
	}
	ep.begin(trig)
	ep.show(trig)
	return ep
}

// share computes the keys of the clear and unless lines that apply to the episode.
func (ep *episode) share() {
	rs := ep.rs
	ep.clears, ep.noClear = rs.clear.key(ep.values, ep.who)
	ep.mutes, _ = rs.unless.key(ep.values, ep.who)
}

// add adds the episode to the open ones.
func (ep *episode) add(party string) {
	rs := ep.rs
	ep.due.Of = ep
	rs.open[ep.key] = ep
	ep.share()
	rs.forgetDisplaced(ep)
	rs.clear.add(ep.clears, ep)
	rs.unless.add(ep.mutes, ep)
	ep.slot.Key = ep.key
	if ep.window != nil {
		ep.slot.Size = ep.window.Size()
	}
	rs.slots.Put(&ep.slot, party)
	if ep.loose {
		rs.loose++
	}
	if ep.state == StatePending {
		rs.pending++
	}
	rs.unsettle()
}

// charged is the party of the episode, which may change while it is open.
func (ep *episode) charged() string {
	if ep.slot.Placed() {
		return ep.slot.Tenant()
	}
	return ep.party
}

// remove is the inverse of add.
func (ep *episode) remove() {
	rs := ep.rs
	ep.due.Disarm()
	delete(rs.open, ep.key)
	if rs.lastOpen == ep {
		rs.lastOpen = nil
	}
	rs.clear.remove(ep.clears, ep)
	rs.unless.remove(ep.mutes, ep)
	ep.party = ep.slot.Tenant()
	rs.slots.Remove(&ep.slot)
	if ep.loose {
		rs.loose--
	}
	if ep.state == StatePending {
		rs.pending--
	}
	rs.unsettle()
}

// begin starts the episode at a trigger.
func (ep *episode) begin(trig *window.Trigger) {
	in := &ep.rs.in
	ep.starts, ep.moved, ep.from, ep.lines = trig.T, 0, trig.From, trig.Lines
	if name := in.Labels["namespace"]; name != ep.namespace {
		ep.namespace = strings.Clone(name)
	}
	ep.reset(window.Times{trig.T})
	if trig.T == in.Hit.T {
		ep.moved = in.Moved // startsAt is what the line says, as before
	}
	ep.lastID, ep.written = trig.Line.ID, trig.Line.T
	ep.first = in.Text(trig.Sample())
	ep.logs = intake.Logs{}
	ep.logs.Note(&in.Origin)
	if ep.undecided() && ep.rs.waits() {
		ep.times = window.Times{trig.T}
	}
}

// show sets the trigger that the episode shows. The text of one namespace never replaces that
// of another, if every namespace may write lines of the rule.
func (ep *episode) show(trig *window.Trigger) {
	if !ep.rs.rule.Infrastructure && ep.rs.in.Labels["namespace"] != ep.namespace && !ep.last.Line.Empty() {
		return
	}
	c := &ep.rs.in.Copier
	line := trig.Sample()
	if line.Empty() {
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
func (ep *episode) extend(trig *window.Trigger) {
	ep.noteTrigger(trig)
	if ep.undecided() {
		ep.times.AddTrigger(trig.T)
	}
	if trig.T < ep.newest {
		return
	}
	if ep.state == StatePending && trig.T-ep.newest > ep.rs.quiet() && ep.beginsAgain(trig.T) {
		// The quiet time ended before the watermark showed it.
		ep.begin(trig)
		ep.history.note(Event{At: instant.Time(trig.T), Kind: EventOpened})
		ep.newest = trig.T
		ep.arm() // the episode may wait for other sources now
	}
	ep.newest = trig.T
	ep.show(trig)
	ep.rs.journal.touch(ep)
}

// fire makes a pending episode a firing one.
func (ep *episode) fire(now int64) {
	ep.rs.pending--
	if len(ep.times) > 0 && ep.rs.participates {
		ep.recent = ep.times
	}
	ep.times = nil
	ep.report(now)
}

// report reports an episode as firing.
func (ep *episode) report(now int64) *transition {
	ep.state, ep.fired = StateFiring, now
	ep.rs.unsettle()
	ep.history.note(Event{At: instant.Time(now), Kind: EventFired})
	ep.noteOnHold(now)
	t := ep.transition(now)
	ep.rs.journal.add(t)
	return t
}

// mute applies an unless line, which is known now, to a pending episode. If unless lines have
// streams of their own, triggers that it does not mute open the episode again.
func (ep *episode) mute(h *window.Hit, now int64) {
	rest := ep.unmuted(ep.times)
	switch {
	case !ep.rs.mutesElsewhere || len(rest) == 0:
		ep.close(ReasonMuted, h.T, now, h.Line)
	case len(rest) < len(ep.times):
		ep.restart(slices.Clone(rest))
		ep.history.note(Event{At: instant.Time(ep.starts), Kind: EventOpened})
	}
}

// unmuted drops the leading triggers that a known unless line mutes.
func (ep *episode) unmuted(ts window.Times) window.Times {
	rs := ep.rs
	for rs.rule.Unless != nil && len(ts) > 0 && rs.mutedBy(ep.mutes, ep.values, ts[0]) {
		ts = ts[1:]
	}
	return ts
}

// close ends an open episode and keeps its window. line is the line that ended it, if any.
func (ep *episode) close(reason Reason, end, now int64, line window.Text) {
	ep.detach()
	ep.finish(reason, end, now, line)
}

// finish reports the end of an episode that is no longer open.
func (ep *episode) finish(reason Reason, end, now int64, line window.Text) *transition {
	x := ep.transition(now)
	ep.rs.journal.finish(ep, x, reason, end, now)
	ep.rs.journal.noteEnded(ep, x, ep.rs.in.Text(line))
	return x
}

// detach removes an episode from the open ones and keeps its window.
func (ep *episode) detach() {
	party := ep.slot.Tenant()
	ep.remove()
	if ep.window != nil && ep.window.Size() > 0 {
		ep.rs.windows.Add(ep.key, party, ep.window, ep.window.Size())
	}
	if ep.rs.armed != nil {
		ep.rs.armed.rest(ep, party)
	}
	ep.window = nil
}
