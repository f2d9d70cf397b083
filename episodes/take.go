package episodes

import (
	"strings"
	"time"
	"unicode/utf8"

	"crowsnest/matcher"
)

// batch is what Take remembers while it takes hits, and memory that it uses
// again for each.
type batch struct {
	hit hit      // that is counted
	by  []string // its values of `by`
	key []byte   // the key of these
	// hits may refer to memory of the caller; copy is that of source, the line
	// that was copied last.
	hits   []*hit
	source string
	copy   text
	each   times    // of a window with distinct
	values []string // that were copied last
}

// Take takes hits in order of reading. now is the time of arrival. The hits are
// not changed. Their lines and values are the caller's again when Take returns:
// what is kept of them, at most a sample of a line and a bounded value each, is
// copied. Their rules and labels are shared and must not change.
func (e *Engine) Take(hits []matcher.Hit, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := nanos(now)
	for i := range hits {
		e.take(&hits[i], at)
	}
	e.ownAll()
}

func (e *Engine) take(m *matcher.Hit, now int64) {
	rs := e.recent
	if rs == nil || rs.rule != m.Rule {
		if rs = e.rules[m.Rule.Alert]; rs == nil {
			return // a reload removed the rule after the line was matched
		}
		e.recent = rs
	}
	// A repeat is a line that played this part for this rule before.
	if e.seen.add(mix(m.ID, rs.seed+uint64(m.Part+3))) {
		rs.stats.Repeats++
		return
	}
	t := e.stamped(nanos(m.Time), now)
	if t > now+int64(MaxFuture) {
		e.total.Future++
		t = now
	}
	if t < rs.watermark() && m.ID != e.lastLate {
		e.lastLate = m.ID
		e.total.Late++
	}
	h := &e.batch.hit
	h.t, h.id, h.values, h.wants = t, m.ID, e.clean(rs, m), m.Rule.Wants
	h.line, h.lent = text{s: m.Line, lent: true}, true
	switch m.Part {
	case matcher.PartClear:
		e.takeClear(rs, h, now)
	case matcher.PartUnless:
		e.takeUnless(rs, h, now)
	default:
		rs.stats.Matches++
		rs.newest = max(rs.newest, t)
		e.takeStep(rs, m, h, now)
	}
}

// takeStep counts a line and opens or extends the episode of its key.
func (e *Engine) takeStep(rs *ruleState, m *matcher.Hit, h *hit, now int64) {
	r := rs.rule
	if r.Distinct != "" && h.value(r.Distinct) == "" {
		return
	}
	values, missing := e.keyOf(rs, h.values)
	if missing {
		rs.stats.MissingBy++
	}
	ep := rs.open[string(e.batch.key)]
	cleared := e.clearedAt(rs, ep, values)
	if r.Clear != nil && h.t <= cleared {
		return // what it announces was over already
	}
	if ep != nil && h.t > ep.from && ep.lastID != h.id {
		ep.lines++
		ep.lastID = h.id
		e.touch(ep)
	}
	trig := trigger{t: h.t, from: h.t - 1, shown: h, lines: 1, line: h}
	if rs.windowed() {
		var ok bool
		if trig, ok = e.count(rs, ep, int(m.Part), cleared); !ok {
			return
		}
	}
	if ep != nil {
		e.extend(ep, &trig)
		return
	}
	trig.namespace = m.Labels["namespace"]
	e.open(rs, values, &trig, now)
}

// keyOf returns the values of `by`, cut, and whether one is missing. They and
// their key are valid until the next call.
func (e *Engine) keyOf(rs *ruleState, wanted []string) (values []string, missing bool) {
	values = e.batch.by[:0]
	for i := range rs.rule.By {
		v := ""
		if i < len(wanted) {
			v = wanted[i]
			if !utf8.ValidString(v) {
				v = strings.ToValidUTF8(v, "\uFFFD") // values become labels
			}
			v = cut(v, maxValue)
		}
		missing = missing || v == ""
		values = append(values, v)
	}
	e.batch.by, e.batch.key = values, appendKey(e.batch.key[:0], values, nil)
	return values, missing
}

// count puts the hit of the batch into the window of its key and looks for a
// trigger.
func (e *Engine) count(rs *ruleState, ep *episode, step int, cleared int64) (trigger, bool) {
	w := e.windowOf(rs, ep)
	before := w.size()
	w.drop(max(rs.watermark()-int64(rs.rule.Within), cleared))
	trig, ok := w.add(rs.rule, step, &e.batch)
	if ep == nil {
		e.hits += w.size() - before
		e.bound(rs)
	}
	return trig, ok
}

// windowOf returns the window of the key of the batch, that of its episode if
// there is one.
func (e *Engine) windowOf(rs *ruleState, ep *episode) *window {
	if ep != nil {
		if ep.window == nil {
			ep.window = rs.newWindow(ep.values)
		}
		return ep.window
	}
	key := string(e.batch.key)
	if w, ok := rs.windows.Get(key); ok {
		return w
	}
	w := rs.newWindow(e.batch.cloned(e.batch.by))
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

// clearedAt is the time of the newest clear line that concerns a key.
func (e *Engine) clearedAt(rs *ruleState, ep *episode, values []string) int64 {
	if rs.cleared.Len() == 0 {
		return noTime
	}
	key, missing := "", false
	if ep != nil {
		key, missing = ep.clears, ep.noClear
	} else {
		key, missing = rs.shared(rs.clearAt, values)
	}
	if missing {
		return noTime // no clear line lacks a value
	}
	if t, ok := rs.cleared.Peek(key); ok {
		return t
	}
	return noTime
}
