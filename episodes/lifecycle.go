package episodes

import (
	"fmt"
	"slices"

	"crowsnest/matcher"
)

// episode is one open failure.
type episode struct {
	rs     *ruleState
	key    string
	values []string // of `by`
	labels map[string]string
	print  Fingerprint
	state  State
	// namespace of the stream whose line opened it, as the source states it.
	namespace string

	starts  int64 // trigger time that opened it
	moved   int64 // how far starts was moved since, with the clock
	newest  int64 // newest trigger
	from    int64 // the window that opened it begins after this time
	fired   int64 // clock; 0 while pending
	written int64 // event time of the line that completed the condition
	lines   int64
	lastID  uint64 // line that was counted last
	chain   hits   // of the newest trigger
	line    text   // of the newest trigger
	first   text   // of the trigger that opened it
	window  *window
	dirty   bool
	due     deadline
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

// takeStep counts a line and opens or extends the episode of its key.
func (e *Engine) takeStep(rs *ruleState, m *matcher.Hit, t, now int64) {
	r := rs.rule
	h := &hit{t: t, id: m.ID, values: m.Values, wants: m.Rule.Wants, line: e.keepable(m.Line)}
	if r.Distinct != "" && h.value(r.Distinct) == "" {
		return
	}
	values, missing := keyOf(rs, m)
	if missing {
		rs.stats.MissingBy++
	}
	if r.Clear != nil && t <= rs.clearedAt(values) {
		return // what it announces was over already
	}
	key := join(values)
	ep := rs.open[key]
	if ep != nil && t > ep.from && ep.lastID != h.id {
		ep.lines++
		ep.lastID = h.id
		e.touch(ep)
	}
	trig, ok := e.count(rs, ep, values, int(m.Part), h)
	trig.namespace = m.Labels["namespace"]
	switch {
	case !ok:
	case ep != nil:
		e.extend(rs, ep, trig)
	default:
		e.open(rs, values, trig, now)
	}
}

// count puts the hit into the window of its key and looks for a trigger.
func (e *Engine) count(rs *ruleState, ep *episode, values []string, step int, h *hit) (trigger, bool) {
	if !rs.windowed() {
		return trigger{t: h.t, from: h.t - 1, chain: hits{h}, lines: 1, line: h}, true
	}
	w := e.windowOf(rs, ep, values)
	before := w.size()
	w.drop(e.horizon(rs, values))
	trig, ok := w.add(rs.rule, step, h)
	if ep == nil {
		e.hits += w.size() - before
		e.bound(rs)
	}
	return trig, ok
}

// horizon is the time up to which the lines of a key count no longer.
func (e *Engine) horizon(rs *ruleState, values []string) int64 {
	t := rs.watermark() - int64(rs.rule.Within)
	if rs.rule.Clear != nil {
		t = max(t, rs.clearedAt(values))
	}
	return t
}

// windowOf returns the window of a key, that of its episode if there is one.
func (e *Engine) windowOf(rs *ruleState, ep *episode, values []string) *window {
	if ep != nil {
		if ep.window == nil {
			ep.window = newWindow(rs.rule, values)
		}
		return ep.window
	}
	key := join(values)
	if w, ok := rs.windows.Get(key); ok {
		return w
	}
	w := newWindow(rs.rule, values)
	e.keep(rs, key, w)
	return w
}

// keep puts a window into the LRU of its rule, within the bounds.
func (e *Engine) keep(rs *ruleState, key string, w *window) {
	e.keys++
	e.hits += w.size()
	if rs.windows.Add(key, w) {
		rs.stats.Evicted++
	}
	e.bound(rs)
}

// bound drops windows of the rule that needs room until all rules together are
// within their bounds. The newest window stays.
func (e *Engine) bound(rs *ruleState) {
	for (e.keys > e.cfg.MaxKeys || e.hits > e.cfg.MaxHits) && rs.windows.Len() > 1 {
		rs.windows.RemoveOldest()
		rs.stats.Evicted++
	}
}

// open opens the episode of a key unless the trigger is over, muted or beyond a
// limit.
func (e *Engine) open(rs *ruleState, values []string, trig trigger, now int64) {
	if trig.t+rs.quiet() <= rs.watermark() {
		return // read so late that it is over already
	}
	if rs.isMuted(values, trig.t) {
		return
	}
	if why := e.full(rs, trig.namespace); why != "" {
		e.refuse(rs, values, trig, why, now)
		return
	}
	key := join(values)
	ep := &episode{
		rs: rs, key: key, values: values, namespace: trig.namespace, state: StatePending,
		newest: trig.t, chain: trig.chain, line: sample(trig.chain),
	}
	ep.begin(trig)
	e.identify(ep)
	if w, ok := rs.windows.Peek(key); ok {
		ep.window = w
		rs.windows.Remove(key)
	}
	e.add(ep)
	if rs.waits() {
		e.changes = append(e.changes, e.export(ep, now))
	} else {
		e.fire(ep, now)
	}
	ep.due.arm()
}

// full tells why no episode can be opened, "" if one can.
func (e *Engine) full(rs *ruleState, namespace string) string {
	switch {
	case len(rs.open) >= rs.rule.Limit:
		return fmt.Sprintf("the limit of the rule is %d", rs.rule.Limit)
	case e.active >= e.cfg.MaxActive:
		return fmt.Sprintf("the limit of all rules together (limits.active_alerts) is %d", e.cfg.MaxActive)
	case namespace != "" && e.within[namespace] >= e.cfg.MaxPerNamespace:
		return fmt.Sprintf("the limit of namespace %s (limits.alerts_per_namespace) is %d", namespace, e.cfg.MaxPerNamespace)
	}
	return ""
}

// add makes an episode one of the open ones.
func (e *Engine) add(ep *episode) {
	rs := ep.rs
	ep.due.rs, ep.due.ep = rs, ep
	rs.open[ep.key] = ep
	rs.byClear.add(rs, rs.rule.Clear, ep)
	rs.byMute.add(rs, rs.rule.Unless, ep)
	e.active++
	if ep.namespace != "" {
		e.within[ep.namespace]++
	}
}

// remove is the inverse of add.
func (e *Engine) remove(ep *episode) {
	rs := ep.rs
	ep.due.disarm()
	delete(rs.open, ep.key)
	rs.byClear.remove(rs, rs.rule.Clear, ep)
	rs.byMute.remove(rs, rs.rule.Unless, ep)
	e.active--
	if ep.namespace == "" {
		return
	}
	if e.within[ep.namespace]--; e.within[ep.namespace] <= 0 {
		delete(e.within, ep.namespace)
	}
}

// begin lets the age of the episode count from a trigger.
func (ep *episode) begin(trig trigger) {
	ep.starts, ep.moved, ep.from, ep.lines = trig.t, 0, trig.from, trig.lines
	ep.lastID, ep.written = trig.line.id, trig.line.t
	ep.first = sample(trig.chain)
}

// sample is the line that stands for a trigger: the newest that is still known.
func sample(chain hits) text {
	for i := len(chain) - 1; i >= 0; i-- {
		if chain[i].line.s != "" {
			return chain[i].line
		}
	}
	return text{}
}

// extend takes a trigger of an open episode.
func (e *Engine) extend(rs *ruleState, ep *episode, trig trigger) {
	if trig.t < ep.newest {
		return
	}
	if ep.state == StatePending && trig.t-ep.newest > rs.quiet() {
		// It was quiet for too long, though that was not proved in time.
		ep.begin(trig)
	}
	ep.newest, ep.chain = trig.t, trig.chain
	if line := sample(trig.chain); line.s != "" {
		ep.line = line
	}
	e.touch(ep)
}

// fire makes a pending episode a firing one.
func (e *Engine) fire(ep *episode, now int64) {
	ep.state, ep.fired = StateFiring, now
	e.changes = append(e.changes, e.export(ep, now))
}

// close ends an episode and keeps its window.
func (e *Engine) close(ep *episode, reason Reason, end, now int64) {
	rs := ep.rs
	state := StateResolved
	if ep.state == StatePending {
		state = StateDropped
	}
	x := e.export(ep, now)
	x.State, x.Reason, x.Held = state, reason, false
	x.EndsAt, x.Concluded = instant(max(end, ep.starts, ep.starts-ep.moved)), instant(now)
	e.changes = append(e.changes, x)
	if state == StateResolved {
		e.closed = append(e.closed, x)
	}
	ep.state, ep.dirty = state, false
	e.remove(ep)
	if ep.window != nil && ep.window.size() > 0 {
		e.keep(rs, ep.key, ep.window)
	}
}

// takeClear takes a clear line: it ends the episodes that are not newer and
// empties the windows of every key that it shares `same` with.
func (e *Engine) takeClear(rs *ruleState, m *matcher.Hit, t, now int64) {
	if rs.rule.Clear == nil {
		return
	}
	values, _ := keyOf(rs, m)
	key, missing := rs.shared(rs.rule.Clear, values)
	if missing {
		rs.stats.MissingSame++
		return
	}
	if old, ok := rs.cleared.Get(key); !ok || t > old {
		rs.cleared.Add(key, t)
	}
	e.emptied(rs, key, t)
	for _, ep := range rs.sharing(rs.byClear, key) {
		if ep.window != nil {
			ep.window.drop(t)
		}
		if t >= ep.newest {
			e.close(ep, ReasonClear, t, now)
		}
	}
}

// clearedAt is the time of the newest clear line that concerns a key.
func (rs *ruleState) clearedAt(values []string) int64 {
	key, missing := rs.shared(rs.rule.Clear, values)
	if missing {
		return noTime // no clear line lacks a value
	}
	if t, ok := rs.cleared.Peek(key); ok {
		return t
	}
	return noTime
}

// takeUnless takes a muting line: it ends the pending episodes that it mutes.
func (e *Engine) takeUnless(rs *ruleState, m *matcher.Hit, t, now int64) {
	u := rs.rule.Unless
	if u == nil {
		return
	}
	values, _ := keyOf(rs, m)
	key, missing := rs.shared(u, values)
	if missing {
		rs.stats.MissingSame++
		return
	}
	times, _ := rs.muted.Get(key)
	rs.muted.Add(key, insertTime(times, t))
	for _, ep := range rs.sharing(rs.byMute, key) {
		if ep.state == StatePending && t > ep.starts-int64(u.Within) {
			e.close(ep, ReasonMuted, t, now)
		}
	}
}

// maxMutes is how many muting lines are kept per key, the newest ones.
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

// isMuted tells whether a known muting line prevents an episode of a trigger at
// t. Behind the watermark a muting line counts only if it could have come while
// the episode was pending.
func (rs *ruleState) isMuted(values []string, t int64) bool {
	u := rs.rule.Unless
	if u == nil {
		return false
	}
	key, missing := rs.shared(u, values)
	if missing {
		return false
	}
	late := t < rs.watermark()
	times, _ := rs.muted.Peek(key)
	for _, m := range times {
		if m > t-int64(u.Within) && (!late || m <= t+int64(rs.rule.For)+rs.group.lateness) {
			return true
		}
	}
	return false
}
