package episodes

import (
	"strings"
	"time"
	"unicode/utf8"

	"crowsnest/matcher"
)

// batch is the state of one call of Take, and memory that it reuses for each hit.
type batch struct {
	hit hit // that is counted
	// moved is how far its time was moved back because the clock was.
	moved  int64
	by     []string // its values of `by`
	key    []byte   // the key of these and the identity
	origin          // of its stream
	// hits may refer to memory of the caller; copy is that of source, the line
	// that was copied last.
	hits   []*hit
	source string
	copy   text
	each   times    // of a window with distinct
	values []string // that were copied last
}

// Take accepts hits in order of reading. now is the time of arrival. The hits are not
// changed. Their lines and values belong to the caller again when Take returns: Take
// copies the parts that it keeps, at most a sample of a line and a bounded part of each
// value. Their rules and labels are shared and must not change.
func (e *Engine) Take(hits []matcher.Hit, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := nanos(now)
	for n := 0; n < len(hits); {
		n += e.acceptSome(hits[n:], at)
	}
	e.copyAll()
}

// acceptSome accepts hits up to the first whose rule panics, and returns their number.
// It quarantines that rule.
func (e *Engine) acceptSome(hits []matcher.Hit, now int64) (n int) {
	defer func() {
		if p := recover(); p != nil {
			e.quarantine(e.recent, now)
			n++
		}
	}()
	for ; n < len(hits); n++ {
		e.accept(&hits[n], now)
	}
	return n
}

func (e *Engine) accept(m *matcher.Hit, now int64) {
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
	e.from(m.Labels)
	// A repeat is a line that played this part for this rule before.
	if e.seen.add(mix(m.ID, rs.seed+uint64(m.Part+3)), e.batch.party) {
		rs.stats.Repeats++
		return
	}
	written := nanos(m.Time)
	t := e.stamped(written, now)
	e.batch.moved = min(t-written, 0)
	if t > now+int64(MaxFuture) {
		e.total.Future++
		t = now
	}
	if t < rs.watermark() && m.ID != e.lastLate {
		e.lastLate = m.ID
		e.total.Late++
	}
	h := &e.batch.hit
	h.t, h.id, h.values, h.names = t, m.ID, e.clean(rs, m), m.Rule.CapturedNames
	h.line, h.borrowed = text{s: m.Line, borrowed: true}, true
	switch m.Part {
	case matcher.PartClear:
		e.acceptClear(rs, h, now)
	case matcher.PartUnless:
		e.acceptUnless(rs, h, now)
	default:
		rs.stats.Matches++
		rs.newest = max(rs.newest, t)
		e.acceptStep(rs, m, h, now)
	}
}

// acceptStep counts a line and opens or extends the episode of its key.
func (e *Engine) acceptStep(rs *ruleState, m *matcher.Hit, h *hit, now int64) {
	r := rs.rule
	if r.Distinct != "" && h.value(r.Distinct) == "" {
		return
	}
	values, missing := e.keyOf(rs, h.values)
	if missing {
		rs.stats.MissingBy++
	}
	ep := e.openEpisode(rs)
	known, between := noClears(), gap{noTime, forever}
	if r.Clear != nil {
		var alive bool
		known = e.clearsOf(rs, ep, values)
		if between, alive = known.gap(h.t); !alive {
			return // a clear line of the same time, or one that is forgotten, ended it
		}
	}
	if ep != nil && between.hi == forever && ep.counts(h.t) && ep.lastID != h.id {
		ep.lines++
		ep.lastID = h.id
		ep.logs.note(&e.batch.origin)
		e.touch(ep)
	}
	trig := trigger{t: h.t, from: h.t - 1, shown: h, lines: 1, line: h}
	if rs.windowed() {
		var ok bool
		if trig, ok = e.count(rs, ep, int(m.Part), known, between); !ok {
			return
		}
	}
	trig.party = e.batch.party
	if between.hi < forever {
		e.lapsed(rs, values, &trig, between, now)
		return
	}
	if over := trig.t + rs.quiet(); ep != nil && r.Clear == nil && over < ep.starts {
		e.lapsed(rs, values, &trig, gap{noTime, over}, now)
		return
	}
	if ep != nil {
		rs.slots.use(&ep.slot, e.batch.party)
		e.extend(ep, &trig)
		return
	}
	e.open(rs, values, &trig, now)
}

// keyOf returns the values of `by`, truncated, and whether one is missing. They and
// their key are valid until the next call.
func (e *Engine) keyOf(rs *ruleState, wanted []string) (values []string, missing bool) {
	values = e.batch.by[:0]
	if r := &rs.last; r.keyed {
		e.batch.by = append(values, r.values[:len(rs.rule.By)]...)
		e.batch.key = append(e.batch.key[:0], r.key...)
		return e.batch.by, r.missing
	}
	for i := range rs.rule.By {
		v := ""
		if i < len(wanted) {
			v = wanted[i]
			if !utf8.ValidString(v) {
				v = strings.ToValidUTF8(v, "\uFFFD") // values become labels
			}
			v = truncate(v, maxValue)
		}
		missing = missing || v == ""
		values = append(values, v)
	}
	e.batch.by = values
	e.batch.key = append(appendKey(e.batch.key[:0], values, nil), e.batch.who.suffix()...)
	rs.last.join(&e.batch, missing)
	return values, missing
}

// openEpisode returns the episode of the key of the batch; nil: none is open.
func (e *Engine) openEpisode(rs *ruleState) *episode {
	if ep := rs.last.episode; ep != nil {
		return ep
	}
	ep := rs.open[string(e.batch.key)]
	if ep == nil {
		ep = e.adopt(rs)
	}
	if rs.last.keyed {
		rs.last.episode = ep
	}
	return ep
}

// count puts the hit of the batch into the window of its key and looks for a
// trigger between two clear lines.
func (e *Engine) count(rs *ruleState, ep *episode, step int, known clears, between gap) (trigger, bool) {
	var kept *item[*window]
	var w *window
	if ep != nil {
		w = ep.ownWindow()
	} else {
		kept = e.windowOf(rs, e.batch.party)
		w = kept.value
	}
	watermark := rs.watermark()
	old := watermark - int64(rs.rule.Within)
	if known.newest <= watermark {
		old = max(old, known.newest)
	}
	w.drop(old)
	trig, ok := w.add(rs.rule, step, &e.batch, between.lo, between.hi)
	trig.from = max(trig.from, between.lo)
	if kept != nil {
		if n := w.size(); n != kept.lines {
			rs.windows.resize(&kept.entry, n)
			rs.windows.squeeze(&kept.entry)
		}
	} else {
		rs.slots.resize(&ep.slot, w.size())
		e.thin()
	}
	return trig, ok
}

// ownWindow returns the window of an episode.
func (ep *episode) ownWindow() *window {
	if ep.window == nil {
		ep.window = ep.rs.newWindow(ep.values, ep.who)
	}
	return ep.window
}

// windowOf returns the window of the key of the batch, which has no episode.
func (e *Engine) windowOf(rs *ruleState, party string) *item[*window] {
	if x := rs.windows.items[string(e.batch.key)]; x != nil {
		rs.windows.use(&x.entry, party)
		return x
	}
	if x := e.adoptWindow(rs); x != nil {
		return x
	}
	return rs.windows.add(string(e.batch.key), party, rs.newWindow(e.batch.cloned(e.batch.by), e.batch.who), 0)
}

// counts reports whether a line is one of the failure: of the window that opened it
// or newer, or an older one that was read later.
func (ep *episode) counts(t int64) bool {
	return t > ep.from || !ep.rs.windowed() && t > ep.from-ep.rs.quiet()
}

// windowFor returns the window of a key, nil if there is none.
func (rs *ruleState) windowFor(key string) *window {
	if ep := rs.open[key]; ep != nil {
		return ep.window
	}
	if x := rs.windows.items[key]; x != nil {
		return x.value
	}
	return nil
}
