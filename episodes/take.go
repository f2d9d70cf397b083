package episodes

import (
	"slices"
	"time"

	"crowsnest/episodes/internal/instant"
	"crowsnest/episodes/internal/intake"
	"crowsnest/episodes/internal/window"
	"crowsnest/internal/quota"
	"crowsnest/matcher"
	"crowsnest/redact"
)

// NoteFuture counts a line whose time was too far ahead of the clock and was corrected before Take.
func (e *Engine) NoteFuture() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.total.Future++
}

// Take accepts hits in the order in which they were read. now is the time of arrival. Take does not change the hits. It
// copies the data that it keeps, at most a sample of a line and a bounded part of each value, so the caller may reuse
// lines and values when Take returns. Rules and labels of the hits are shared and must not change.
func (e *Engine) Take(hits []matcher.Hit, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := instant.FromTime(now)
	for n := 0; n < len(hits); {
		n += e.acceptSome(hits[n:], at)
	}
	e.in.DropReferences()
}

// acceptSome accepts hits until the rule of a hit panics, and returns the number of processed hits. It quarantines the
// rule that panics.
func (e *Engine) acceptSome(hits []matcher.Hit, now int64) (n int) {
	defer func() {
		if p := recover(); p != nil {
			e.quarantineRule(e.recent, now)
			n++
		}
	}()
	for ; n < len(hits); n++ {
		e.acceptHit(&hits[n], now)
	}
	return n
}

// fingerprint identifies a line together with the part of the rule that it matches.
func (rs *ruleState) fingerprint(m *matcher.Hit) uint64 {
	return intake.MixHash(m.ID, rs.last.Seed+uint64(m.Part+3))
}

func (e *Engine) acceptHit(m *matcher.Hit, now int64) {
	rs := e.recent
	if rs == nil || rs.rule != m.Rule {
		if rs = e.rules[m.Rule.Alert]; rs == nil {
			return // a reload removed the rule after the line was matched
		}
		e.recent = rs
	}
	if rs.quarantined {
		return
	}
	e.in.SetOrigin(m.Labels)
	// A hit is a repeat if the same line already matched the same part of the rule.
	if e.seen.Add(rs.fingerprint(m), e.in.Tenant) {
		rs.stats.Repeats++
		return
	}
	t := instant.FromTime(m.Time)
	e.in.ClockShift = min(int64(m.ClockShift), 0)
	if t > now+int64(MaxFuture) {
		e.total.Future++
		t = e.keepOrder(m.Part, now)
	}
	if t < rs.groups.ofPart(m.Part).readUpToForAll() && m.ID != e.lastLate {
		e.lastLate = m.ID
		e.total.Late++
	}
	h := &e.in.Hit
	h.T, h.ID, h.Values, h.Names = t, m.ID, e.in.CleanValues(&rs.last, m), m.Rule.CapturedNames
	h.Line, h.Borrowed = window.Text{Raw: m.Line, Borrowed: true}, true
	switch m.Part {
	case matcher.PartClear:
		rs.acceptClear(h, now)
	case matcher.PartUnless:
		rs.acceptUnless(h, now)
	default:
		rs.stats.Matches++
		rs.newest = max(rs.newest, t)
		rs.acceptStep(int(m.Part), h, now)
	}
}

// keepOrder returns the time for a line that is too far ahead of the clock. This is now or later. The time is not
// before the time of the previous line that was too far ahead, and it is later if one of the two is a clear line.
func (e *Engine) keepOrder(part matcher.Part, now int64) int64 {
	t := max(now, e.ahead)
	if e.aheadCleared || part == matcher.PartClear && t == e.ahead {
		t = max(now, e.ahead+1)
	}
	e.ahead, e.aheadCleared = t, part == matcher.PartClear
	return t
}

func (rs *ruleState) acceptStep(step int, h *window.Hit, now int64) {
	if rs.armed != nil {
		rs.armed.accept(h, now)
		return
	}
	r := rs.rule
	if name := r.DistinctName(); name != "" && h.Value(name) == "" {
		return
	}
	values, missing := rs.in.KeyOf(&rs.last, h.Values)
	if missing {
		rs.stats.MissingBy++
	}
	ep := rs.find()
	known, between := window.NoClears(), window.Gap{Lo: window.NoTime, Hi: window.Forever}
	if r.Clear != nil {
		var alive bool
		known = rs.hitClears(ep, values)
		if between, alive = known.GapAround(h.T); !alive {
			return // a clear line at the same time, or one that was dropped, ended the failure
		}
	}
	if ep != nil && between.Hi == window.Forever && ep.countsLine(h.T) && ep.lastID != h.ID && ep.lastID != ^h.ID {
		ep.lines++
		ep.lastID = h.ID
		ep.logs.CountLog(&rs.in.Origin)
		rs.journal.markContinued(ep)
	}
	trig := window.Trigger{T: h.T, WindowStart: h.T - 1, ShownHit: h, Lines: 1, Line: h}
	if rs.needsWindow() {
		var ok bool
		if trig, ok = rs.countHit(ep, values, step, known, between); !ok {
			return
		}
	}
	trig.Tenant = rs.in.Tenant
	over := trig.T + rs.quietTime()
	switch {
	case between.Hi < window.Forever:
		rs.acceptLapsed(values, &trig, between, now)
	case ep == nil:
		rs.openEpisode(values, &trig, now)
	case r.Clear == nil && over < ep.starts:
		rs.acceptLapsed(values, &trig, window.Gap{Lo: window.NoTime, Hi: over}, now)
	default:
		rs.slots.Touch(&ep.slot, rs.in.Tenant)
		ep.applyTrigger(&trig)
	}
}

// countHit adds the hit to the window of its key and looks for a trigger in the gap between two clear lines.
func (rs *ruleState) countHit(ep *episode, values []redact.Text, step int, known window.Clears, between window.Gap) (window.Trigger, bool) {
	var kept *quota.Item[*keyWindow]
	var w *keyWindow
	if ep != nil {
		w = ep.ownWindow()
	} else {
		kept = rs.hitWindow(values)
		w = kept.Value
	}
	watermark := rs.watermarkOf(values, rs.in.StreamIdentity, false)
	old := watermark - int64(rs.rule.Within)
	if known.Newest <= watermark {
		old = max(old, known.Newest)
	}
	w.DropUpTo(old)
	trig, ok := w.Add(rs.rule, step, &rs.in.Hit, &rs.in.Copier, between)
	trig.WindowStart = max(trig.WindowStart, between.Lo)
	if kept != nil {
		if n := w.Size(); n != kept.Size {
			rs.windows.Resize(&kept.Entry, n)
			rs.windows.EvictExcess(&kept.Entry)
		}
	} else {
		rs.slots.Resize(&ep.slot, w.Size())
		rs.limits.shrinkWindows()
	}
	return trig, ok
}

// acceptClear applies a clear line. It ends the episodes that are not newer than the line, and empties the windows of
// every key with the same values of `same`.
func (rs *ruleState) acceptClear(h *window.Hit, now int64) {
	if rs.rule.Clear == nil {
		return
	}
	t := h.T
	values, _ := rs.in.KeyOf(&rs.last, h.Values)
	key, missing := rs.clearLines.joinKey(values, rs.in.StreamIdentity)
	if missing {
		rs.stats.MissingSame++
		return
	}
	known := window.NoClears()
	if old := rs.clearLines.lines.Items[key]; old != nil {
		known = old.Value
	}
	known = known.Add(t, rs.rule.For, rs.watermark())
	rs.clearLines.lines.Add(key, rs.in.Tenant, known, 1)
	rs.dropCleared(key, func(w *keyWindow) int64 { return rs.clearedUpTo(t, w.key, w.who, w.partialIdentity) })
	for _, ep := range rs.clearLines.concernedEpisodes(rs, key, values) {
		ep.dropLines(rs.clearedUpTo(t, ep.values, ep.who, ep.partialIdentity))
		ep.noteClear(t)
		switch {
		case t < known.Newest: // the failure began after a newer clear line
		case ep.times != nil:
			ep.applyClear(known, t, now, h.Line)
		case t >= ep.newest, ep.clearsAll(t):
			ep.close(ReasonClear, t, now, h.Line)
		}
	}
	rs.clearDisplaced(key, t, now)
	rs.splitLapses(key, known, t, now)
}

// acceptUnless applies an unless line. It ends the pending episodes that it mutes.
func (rs *ruleState) acceptUnless(h *window.Hit, now int64) {
	u := rs.rule.Unless
	if u == nil {
		return
	}
	values, _ := rs.in.KeyOf(&rs.last, h.Values)
	key, missing := rs.unlessLines.joinKey(values, rs.in.StreamIdentity)
	if missing {
		rs.stats.MissingSame++
		return
	}
	var times []int64
	if old := rs.unlessLines.lines.Items[key]; old != nil {
		times = old.Value
	}
	times = insertTime(times, h.T)
	rs.unlessLines.lines.Add(key, rs.in.Tenant, times, len(times))
	if rs.armed != nil {
		rs.armed.applyUnless(key, values, h.T)
	}
	// An episode can be pending for longer than `for`, because it waits for a log that is not read. An unless line
	// after `for` does not mute such an episode, because the episode would already be firing if all logs had been read.
	// The time of a line may also be ahead of the clock, so the clock limits it.
	last, read := int64(rs.rule.For)+rs.groups.firing.Lateness, min(h.T, now)
	for _, ep := range rs.unlessLines.concernedEpisodes(rs, key, values) {
		if ep.state == StatePending && h.T > ep.starts-int64(u.Within) && read <= ep.starts+last {
			ep.applyUnless(h, now)
		}
	}
}

// maxMutes is the maximum number of unless lines that are kept per key. The oldest one is dropped first.
const maxMutes = 256

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

// TakeRecorded accepts recorded hits of the named source. The times of the hits move the clock, which shows now before
// the call. A hit at a time t after now has the same effect as AdvanceWatermark and Evaluate just before t, followed by
// Take and Evaluate at t. TakeRecorded stops before the first hit for which one of these Evaluate calls would decide or
// return something. It returns the number of accepted hits and the new time of the clock, for which the caller must
// call Evaluate. If no hit was accepted and the clock did not move, something may be due before the next hit, and the
// caller must move the clock. The caller keeps the ownership of the hits, as with Take.
func (e *Engine) TakeRecorded(source string, hits []matcher.Hit, now time.Time) (n int, clock time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.in.DropReferences()
	at := instant.FromTime(now)
	for n < len(hits) {
		if t := hits[n].Time; t.After(now) {
			before := t.Add(-1)
			if before.After(now) {
				if e.sources.NextBy(e.safeDue, instant.FromTime(before)) {
					return n, now
				}
				e.sources.Advance(source, instant.FromTime(before))
				if now = before; !e.evaluateIdle(instant.FromTime(now)) {
					return n, now
				}
			}
			now = t
			at = instant.FromTime(now)
		}
		if e.acceptSome(hits[n:n+1], at); !e.evaluateIdle(at) {
			return n + 1, now
		}
		n++
	}
	return n, now
}

// evaluateIdle does the work of Evaluate if there is nothing to conclude and nothing to return. It returns false if
// there is something. Then the caller must call Evaluate.
func (e *Engine) evaluateIdle(t int64) bool {
	since := t - e.journal.updated
	if e.warm || e.unsettled || len(e.journal.changes) > 0 || since < 0 || since >= int64(e.cfg.UpdateEvery) ||
		e.deletedPods.Len() > 0 || e.departed.Len() > 0 || !e.sources.IsIdle(e.safeDue, t) {
		return false
	}
	e.limits.losses.Now = t
	e.journal.dropOld(t)
	return true
}
