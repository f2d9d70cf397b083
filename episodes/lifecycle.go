package episodes

import (
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"crowsnest/episodes/internal/instant"
	"crowsnest/episodes/internal/intake"
	"crowsnest/episodes/internal/watermark"
	"crowsnest/episodes/internal/window"
	"crowsnest/episodes/render"
	"crowsnest/internal/quota"
	"crowsnest/internal/text"
	"crowsnest/redact"
	"crowsnest/rules"
)

type episode struct {
	rs     *ruleState
	key    string
	values []redact.Text // values of `by`
	who    *intake.Identity
	// clears is the key of the clear lines that apply to the episode, and mutes the key of the unless lines. noClear is
	// set if the episode lacks a value of `same`. Then no clear line applies to it.
	clears, mutes string
	noClear       bool
	restored
	symptom
	labels map[string]string
	print  Fingerprint
	state  State
	// namespace is the namespace of the stream whose line opened the episode, as the source states it.
	namespace    string
	openedTenant string // tenant of the episode while the episode has no slot in the quota; see the method tenant

	starts      int64 // time of the trigger that opened the episode
	clockShift  int64 // total of the clock changes that starts was corrected for
	newest      int64 // time of the newest trigger
	windowStart int64 // start of the window that opened the episode, exclusive
	firedAt     int64 // time by the clock when it fired; zero while pending
	completedAt int64 // event time of the line that completed the condition
	lines       int64
	lastID      uint64 // ID of the line that was counted last
	// sequence holds the hits of the newest trigger of a sequence. For other rules it holds only the hit last. The line
	// of last is the line of the newest trigger.
	sequence window.Hits
	last     window.Hit
	times    window.Times // times of the triggers while isUndecided returns true
	first    window.Text  // line of the trigger that opened the episode
	logs     intake.Logs
	window   *keyWindow
	dirty    bool
	due      watermark.Deadline
	slot     quota.Entry // entry of the episode in the quota of open episodes

	history history
	texts   *render.Texts // texts of the last transition that was rendered
}

// endTime returns the time when the episode ends if no further trigger follows.
func (ep *episode) endTime() int64 { return ep.newest + ep.rs.quietTime() }

// Due returns the time when the engine can conclude something without a further line.
func (ep *episode) Due() int64 {
	if ep.isFiringNext() {
		return ep.starts + int64(ep.rs.rule.For)
	}
	return ep.endTime()
}

// isFiringNext reports whether the next conclusion is that the episode fires. A pending episode that fires before its
// end must not end without that conclusion. This holds however long its sources are unreachable, because nothing shows
// that the failure is over.
func (ep *episode) isFiringNext() bool {
	return ep.state == StatePending && ep.starts+int64(ep.rs.rule.For) < ep.endTime()
}

func (ep *episode) armDeadline() { ep.due.Arm(ep.awaits().Group) }

// countsLine reports whether a line at t belongs to the failure. It belongs if it is not older than the window that
// opened the failure. If the rule has no window, it may be older than the first line by less than the quiet time.
func (ep *episode) countsLine(t int64) bool {
	return t > ep.windowStart || !ep.rs.needsWindow() && t > ep.windowStart-ep.rs.quietTime()
}

func (ep *episode) ownWindow() *keyWindow {
	if ep.window == nil {
		ep.window = ep.rs.newWindow(window.New(ep.rs.rule), ep.values, ep.who)
	}
	return ep.window
}

func (ep *episode) dropLines(t int64) {
	if ep.window != nil {
		ep.window.DropUpTo(t)
		ep.rs.slots.Resize(&ep.slot, ep.window.Size())
	}
}

// openEpisode opens an episode for the key of the hit, unless the failure is already over, an unless line mutes it, or
// a limit is reached.
func (rs *ruleState) openEpisode(values []redact.Text, trig *window.Trigger, now int64) {
	if over := trig.T + rs.quietTime(); over <= rs.groups.steps.readUpTo(values, rs.in.StreamIdentity, false) { // the line was read so late that the failure is already over
		rs.acceptLapsed(values, trig, window.Gap{Lo: window.NoTime, Hi: over}, now)
		return
	}
	if rs.isMuted(values, trig.T) {
		return
	}
	key := string(rs.in.Key)
	if l, full := rs.findPlace(trig.Tenant, now); full {
		rs.overflow.countRefused(key, trig.T, l, now)
		return
	}
	ep := rs.newEpisode(values, trig)
	ep.computeLabels()
	if x := rs.windows.Items[key]; x != nil {
		ep.window = x.Value
		rs.windows.Delete(key)
	}
	ep.noteTrigger(trig)
	ep.noteOpened(trig, now)
	ep.add(trig.Tenant)
	if rs.mustBePending() {
		rs.journal.add(ep.transition(now))
	} else {
		ep.fire(now)
	}
	ep.armDeadline()
}

func (rs *ruleState) newEpisode(values []redact.Text, trig *window.Trigger) *episode {
	in := &rs.in
	ep := &episode{
		rs: rs, key: string(in.Key), values: in.Copier.CopyValues(values), who: in.StreamIdentity,
		namespace: strings.Clone(in.Labels["namespace"]), openedTenant: strings.Clone(trig.Tenant), state: StatePending, newest: trig.T,
	}
	ep.startAt(trig)
	ep.showTrigger(trig)
	return ep
}

// computeSharedKeys computes the keys of the clear and unless lines that apply to the episode.
func (ep *episode) computeSharedKeys() {
	rs := ep.rs
	ep.clears, ep.noClear = rs.clearLines.joinKey(ep.values, ep.who)
	ep.mutes, _ = rs.unlessLines.joinKey(ep.values, ep.who)
}

func (ep *episode) add(party string) {
	rs := ep.rs
	ep.due.Subject = ep
	rs.open[ep.key] = ep
	ep.computeSharedKeys()
	rs.forgetDisplaced(ep)
	ep.slot.Key = ep.key
	if ep.window != nil {
		ep.slot.Size = ep.window.Size()
	}
	rs.slots.Put(&ep.slot, party)
	if ep.partialIdentity {
		rs.partialEpisodes++
	}
	if ep.state == StatePending {
		rs.pending++
	}
	rs.markUnsettled()
}

// tenant returns the tenant that is charged for the episode. The tenant may change while the episode is open.
func (ep *episode) tenant() string {
	if ep.slot.IsPlaced() {
		return ep.slot.Tenant()
	}
	return ep.openedTenant
}

func (ep *episode) remove() {
	rs := ep.rs
	ep.due.Disarm()
	delete(rs.open, ep.key)
	if rs.lastOpen == ep {
		rs.lastOpen = nil
	}
	ep.openedTenant = ep.slot.Tenant()
	rs.slots.Remove(&ep.slot)
	if ep.partialIdentity {
		rs.partialEpisodes--
	}
	if ep.state == StatePending {
		rs.pending--
	}
	rs.markUnsettled()
}

func (ep *episode) startAt(trig *window.Trigger) {
	in := &ep.rs.in
	ep.starts, ep.clockShift, ep.windowStart, ep.lines = trig.T, 0, trig.WindowStart, trig.Lines
	if name := in.Labels["namespace"]; name != ep.namespace {
		ep.namespace = strings.Clone(name)
	}
	ep.resetTriggers(window.Times{trig.T})
	if trig.T == in.Hit.T {
		ep.clockShift = in.ClockShift // makes Episode.StartsAt the time that the line states
	}
	ep.lastID, ep.completedAt = trig.Line.ID, trig.Line.T
	ep.first = in.CopyText(trig.SampleLine())
	ep.logs = intake.Logs{}
	ep.logs.CountLog(&in.Origin)
	if ep.isUndecided() && ep.rs.mustBePending() {
		ep.times = window.Times{trig.T}
	}
}

// showTrigger sets the trigger whose lines the alert shows. If lines of every namespace match the rule, the text of one
// namespace never replaces the text of another.
func (ep *episode) showTrigger(trig *window.Trigger) {
	if !ep.rs.rule.Infrastructure && ep.rs.in.Labels["namespace"] != ep.namespace && !ep.last.Line.Empty() {
		return
	}
	c := &ep.rs.in.Copier
	line := trig.SampleLine()
	if line.Empty() {
		line = ep.last.Line
	}
	if trig.Sequence != nil {
		ep.sequence = trig.Sequence
		c.Record(&ep.last)
	} else {
		if len(ep.sequence) != 1 || ep.sequence[0] != &ep.last {
			ep.sequence = window.Hits{&ep.last}
		}
		c.Borrow(&ep.last, trig.ShownHit)
	}
	ep.last.Line = line
}

func (ep *episode) applyTrigger(trig *window.Trigger) {
	ep.noteTrigger(trig)
	if ep.isUndecided() {
		ep.times.AddTrigger(trig.T)
	}
	if trig.T < ep.newest {
		return
	}
	if ep.state == StatePending && trig.T-ep.newest > ep.rs.quietTime() && ep.beginsAgain(trig.T) {
		// The quiet time had ended the failure, but the watermark has not shown it yet.
		ep.startAt(trig)
		ep.history.addEvent(Event{Time: instant.ToTime(trig.T), Kind: EventOpened})
		ep.newest = trig.T
		ep.armDeadline() // the episode may now wait for other sources than before
	}
	ep.newest = trig.T
	ep.showTrigger(trig)
	ep.rs.journal.markContinued(ep)
}

func (ep *episode) fire(now int64) {
	ep.rs.pending--
	if len(ep.times) > 0 && ep.rs.participates {
		ep.recent = ep.times
	}
	ep.times = nil
	ep.firingTransition(now)
}

func (ep *episode) firingTransition(now int64) *transition {
	ep.state, ep.firedAt = StateFiring, now
	ep.rs.markUnsettled()
	ep.history.addEvent(Event{Time: instant.ToTime(now), Kind: EventFired})
	ep.noteOnHold(now)
	t := ep.transition(now)
	ep.rs.journal.add(t)
	return t
}

// applyUnless applies an unless line, which is already remembered, to a pending episode. If unless lines have streams
// of their own, the episode starts again with the first trigger that the line does not mute.
func (ep *episode) applyUnless(h *window.Hit, now int64) {
	rest := ep.dropMuted(ep.times)
	switch {
	case !ep.rs.mutesElsewhere || len(rest) == 0:
		ep.close(ReasonMuted, h.T, now, h.Line)
	case len(rest) < len(ep.times):
		ep.restartAt(slices.Clone(rest))
		ep.history.addEvent(Event{Time: instant.ToTime(ep.starts), Kind: EventOpened})
	}
}

func (ep *episode) dropMuted(ts window.Times) window.Times {
	rs := ep.rs
	for rs.rule.Unless != nil && len(ts) > 0 && rs.isKeyMuted(ep.mutes, ep.values, ts[0]) {
		ts = ts[1:]
	}
	return ts
}

// close ends an open episode and keeps the window of its key. line is the line that ended the episode, or empty.
func (ep *episode) close(reason Reason, end, now int64, line window.Text) {
	ep.detach()
	ep.reportEnd(reason, end, now, line)
}

func (ep *episode) reportEnd(reason Reason, end, now int64, line window.Text) *transition {
	x := ep.transition(now)
	ep.rs.journal.endEpisode(ep, x, reason, end, now)
	ep.rs.journal.noteEnded(ep, x, ep.rs.in.CopyText(line))
	return x
}

// detach removes an episode from the open ones and keeps the window of its key.
func (ep *episode) detach() {
	party := ep.slot.Tenant()
	ep.remove()
	if ep.window != nil && ep.window.Size() > 0 {
		ep.rs.windows.Add(ep.key, party, ep.window, ep.window.Size())
	}
	if ep.rs.armed != nil {
		ep.rs.armed.keepDisarmed(ep, party)
	}
	ep.window = nil
}

func (ep *episode) computeLabels() {
	r, names := ep.rs.rule, ep.rs.cfg.Identity
	by := map[string]string{}
	for i, name := range r.By {
		by[name] = string(ep.values[i])
	}
	ep.labels = ep.rs.renderLabels(r, by)
	if !ep.nameless {
		ep.who.AddTo(ep.labels, names)
	}
	ep.print = FingerprintOf(ep.labels)
	ep.setApart(names)
}

func (c *common) renderLabels(r *rules.Rule, key map[string]string) map[string]string {
	labels := maps.Clone(key)
	for _, l := range r.Labels {
		value := c.renderer.RenderLabel(l.Template, rules.TemplateData{Labels: key})
		if r.Namespace != "" {
			value = redact.DefuseLinks(redact.Sanitise(value))
		}
		labels[l.Name] = text.Truncate(value, intake.MaxValue)
	}
	if r.Namespace != "" {
		labels["namespace"] = r.Namespace
	}
	labels["alertname"] = r.Alert
	labels["severity"] = string(r.Severity)
	labels["resolves"] = r.Resolves()
	maps.DeleteFunc(labels, func(_, v string) bool { return v == "" })
	return labels
}

// FingerprintOf returns the fingerprint of an alert with these labels.
func FingerprintOf(labels map[string]string) Fingerprint {
	h := fnv.New64a()
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		h.Write([]byte(name))
		h.Write([]byte{0xff})
		h.Write([]byte(labels[name]))
		h.Write([]byte{0xff})
	}
	return Fingerprint(h.Sum64())
}

// setApart adds labels to an episode if another open episode of its rule has the same labels and a different key. This
// happens if one episode takes the value of an identity label from a capture in `by`, and the other episode takes it
// from its stream.
func (ep *episode) setApart(names []string) {
	same := func(o *episode) bool { return o != ep && o.print == ep.print }
	if !ep.rs.ambiguous || !slices.ContainsFunc(slices.Collect(maps.Values(ep.rs.open)), same) {
		return
	}
	for i, name := range names {
		if ep.labels[name] == "" {
			continue
		}
		ep.labels["stream_"+name] = "none"
		if values := ep.who.Values(); values != nil && values[i] != "" {
			ep.labels["stream_"+name] = values[i]
		}
	}
	ep.print = FingerprintOf(ep.labels)
}
