package episodes

import (
	"slices"
	"sort"

	"crowsnest/rules"
)

// hit is a line that was counted.
type hit struct {
	t      int64
	id     uint64
	values []string // of names
	names  []string // names, shared by the hits of one version of a rule
	line   text     // kept for the newest few hits only
	// borrowed means that values are memory of the caller of Take; copied are the values
	// that were copied last: nearly always they are the same again.
	borrowed bool
	copied   []string
	listed   bool // in the list of the batch
	// several means that the line also serves another step.
	several bool
}

// value returns the value of a name, "" if there is none.
func (h *hit) value(name string) string {
	if i := slices.Index(h.names, name); i >= 0 && i < len(h.values) {
		return h.values[i]
	}
	return ""
}

// valueAt is value for a name that is likely to be the one at i.
func (h *hit) valueAt(i int, name string) string {
	if i >= 0 && i < len(h.names) && i < len(h.values) && h.names[i] == name {
		return h.values[i]
	}
	return h.value(name)
}

// keepLines is how many hits of a list keep their line: nothing looks at older
// ones.
const keepLines = 2

// hits is a list in order of time; equal times are in order of arrival.
type hits []*hit

// extra is what the hit counts for in a room besides being a line: its values may
// take much more memory.
func (h *hit) extra() int {
	n := 0
	for _, v := range h.values {
		n += len(v)
	}
	return n / extraBytes
}

// extraBytes is how many bytes of values count as much as a line.
const extraBytes = 256

func (hs hits) extra() int {
	n := 0
	for _, h := range hs {
		n += h.extra()
	}
	return n
}

// insert adds h and returns its index, or -1 if it is older than the newest
// rules.MaxHits, which are kept, and by how much extra grew.
func (hs *hits) insert(h *hit) (at, extra int) {
	i := len(*hs)
	for i > 0 && (*hs)[i-1].t > h.t {
		i--
	}
	*hs, extra = slices.Insert(*hs, i, h), h.extra()
	if n := len(*hs); n > keepLines {
		(*hs)[n-keepLines-1].line = text{}
	}
	if len(*hs) > rules.MaxHits {
		extra -= (*hs)[0].extra()
		*hs = slices.Delete(*hs, 0, 1)
		i--
	}
	return i, extra
}

// after drops the hits that are not newer than t and returns their extra.
func (hs *hits) after(t int64) int { return hs.dropFirst(hs.since(t)) }

func (hs *hits) dropFirst(n int) int {
	extra := (*hs)[:n].extra()
	*hs = slices.Delete(*hs, 0, n)
	return extra
}

// since returns the index of the first hit newer than t.
func (hs hits) since(t int64) int {
	switch n := len(hs); {
	case n == 0 || hs[0].t > t:
		return 0
	case hs[n-1].t <= t:
		return n
	}
	return sort.Search(len(hs), func(i int) bool { return hs[i].t > t })
}

// between returns the indexes of the hits between two times, both exclusive.
func (hs hits) between(lo, hi int64) (from, to int) {
	if hi == forever {
		return hs.since(lo), len(hs)
	}
	return hs.since(lo), hs.since(hi - 1)
}

// times is a sorted list of the times of lines that are merely counted: a window
// of hundreds of lines costs some bytes a line.
type times []int64

// insert adds t and returns its index, or -1 if it is older than the newest
// rules.MaxHits, which are kept.
func (ts *times) insert(t int64) int {
	i := ts.since(t)
	if len(*ts) < rules.MaxHits {
		*ts = slices.Insert(*ts, i, t)
		return i
	}
	i--
	if i >= 0 {
		copy((*ts)[:i], (*ts)[1:i+1])
		(*ts)[i] = t
	}
	return i
}

// after drops the times that are not newer than t.
func (ts *times) after(t int64) { *ts = slices.Delete(*ts, 0, ts.since(t)) }

// since returns the index of the first time newer than t. Nearly always it is an
// end of the list.
func (ts times) since(t int64) int {
	switch n := len(ts); {
	case n == 0 || ts[0] > t:
		return 0
	case ts[n-1] <= t:
		return n
	}
	return sort.Search(len(ts), func(i int) bool { return ts[i] > t })
}

// between is that of hits.
func (ts times) between(lo, hi int64) (from, to int) {
	if hi == forever {
		return ts.since(lo), len(ts)
	}
	return ts.since(lo), ts.since(hi - 1)
}

// window holds what was counted for one key.
type window struct {
	key    []string // values of `by`
	who    *identity
	loose  bool   // as restored.loose
	clears string // the key that a clear line shares with it
	// steps holds the hits of each step of a sequence; several means that a line is among
	// them more than once.
	steps   []hits
	several bool
	// lines are the times of the lines that count, unless it is a sequence;
	// newest is the newest of these lines.
	lines  times
	newest *hit
	// values holds, with distinct, the newest hit of each value.
	values hits
	extra  int // of the hits in values and steps
}

// trigger is a condition that became true: the lines that made it so.
type trigger struct {
	t        int64  // of the newest counted line, or of the last step
	from     int64  // the window begins after it
	sequence hits   // the line of each step of a sequence
	shown    *hit   // else the newest counted line; it is valid until the next one
	lines    int64  // in the window
	line     *hit   // that was read, valid as long
	party    string // of the stream of that line
}

// newWindow makes a window of a key. The values are kept.
func (rs *ruleState) newWindow(values []string, who *identity) *window {
	w := &window{key: values, who: who}
	if rs.byClear != nil {
		w.clears, _ = rs.shared(rs.clearAt, values, who)
	}
	if rs.rule.Sequence {
		w.steps = make([]hits, len(rs.rule.Steps))
	}
	return w
}

// drop forgets the lines that are not newer than t.
func (w *window) drop(t int64) {
	for i := range w.steps {
		w.extra -= w.steps[i].after(t)
	}
	w.extra -= w.values.after(t)
	w.lines.after(t)
	if w.newest != nil && w.newest.t <= t {
		w.newest = nil
	}
}

// size is what the window counts for in a room: the lines that are kept, and
// their values.
func (w *window) size() int {
	n := len(w.values) + len(w.lines) + w.extra
	for _, hs := range w.steps {
		n += len(hs)
	}
	return n
}

// add counts the hit of a batch for one step and returns the trigger that it
// completes with lines between lo and hi, the times of clear lines.
func (w *window) add(r *rules.Rule, step int, b *batch, lo, hi int64) (trigger, bool) {
	h := &b.hit
	if r.Sequence {
		h = &hit{}
		b.borrow(h, &b.hit)
		for _, hs := range w.steps {
			w.several = markSeveral(hs, h) || w.several
		}
		at, extra := w.steps[step].insert(h)
		if w.extra += extra; at < 0 {
			return trigger{}, false
		}
		trig, ok := w.findSequence(r, step, h, lo, hi)
		if !ok && step < len(w.steps)-1 {
			h.line = text{} // only the line of a last step is shown
		}
		return trig, ok
	}
	i := w.lines.insert(h.t)
	if r.Distinct != "" {
		return w.addDistinct(r, b, lo, hi)
	}
	if i < 0 {
		return trigger{}, false
	}
	if w.newest == nil {
		w.newest = &hit{t: h.t}
	}
	if h.t >= w.newest.t {
		b.borrow(w.newest, h)
	}
	from, to := w.lines.between(lo, hi)
	end, lines := counted(r, w.lines[from:to], i-from)
	if lines == 0 {
		return trigger{}, false
	}
	shown := w.newest
	if shown.t != end {
		shown = h // a late line: what the newest one of its window said is not kept
	}
	return reached(r, end, lines, shown, h), true
}

// markSeveral marks h and the same line in a list, if it is there: as another
// step, or read twice.
func markSeveral(hs hits, h *hit) (found bool) {
	for i := len(hs) - 1; i >= 0 && hs[i].t >= h.t; i-- {
		if hs[i].id == h.id {
			hs[i].several, h.several, found = true, true, true
		}
	}
	return found
}

// addDistinct keeps the newest hit of each value and counts values.
func (w *window) addDistinct(r *rules.Rule, b *batch, lo, hi int64) (trigger, bool) {
	name := slices.Index(b.hit.names, r.Distinct)
	v := b.hit.valueAt(name, r.Distinct)
	var h *hit
	for i, old := range w.values {
		if old.t <= lo || old.t >= hi || old.valueAt(name, r.Distinct) != v {
			continue
		}
		if old.t >= b.hit.t {
			return trigger{}, false // a newer line of this value is counted
		}
		h = old // nothing else refers to it
		w.extra -= old.extra()
		w.values = slices.Delete(w.values, i, i+1)
		break
	}
	if h == nil {
		h = &hit{}
	}
	b.borrow(h, &b.hit)
	i, extra := w.values.insert(h)
	if w.extra += extra; i < 0 {
		return trigger{}, false
	}
	each := b.each[:0]
	from, to := w.values.between(lo, hi)
	for _, v := range w.values[from:to] {
		each = append(each, v.t)
	}
	b.each = each
	end, n := counted(r, each, i-from)
	if n == 0 {
		return trigger{}, false
	}
	lines := w.lines.since(end) - w.lines.since(max(end-int64(r.Within), lo))
	return reached(r, end, lines, w.values[from+each.since(end)-1], h), true
}

// reached is the trigger of the window of some lines that ends at end, shown by
// one of them and found when h was read.
func reached(r *rules.Rule, end int64, lines int, shown, h *hit) trigger {
	return trigger{t: end, from: end - int64(r.Within), shown: shown, lines: int64(lines), line: h}
}

// counted looks for the newest window (end-within, end] that holds the time at
// index i and at least count times, and returns how many; 0: there is none.
func counted(r *rules.Rule, ts times, i int) (end int64, n int) {
	within := int64(r.Within)
	for e := len(ts) - 1; e >= i; e-- {
		if ts[e]-within >= ts[i] {
			continue // the window of this end begins after the line
		}
		// Of several that are equal, e is the last one.
		if n = e - ts.since(ts[e]-within) + 1; n >= r.Count {
			return ts[e], n
		}
	}
	return 0, 0
}

// ends returns the times of all triggers between lo and hi, the times of clear lines.
// With distinct, those are missing that only older lines of a value complete.
func (w *window) ends(r *rules.Rule, lo, hi int64) times {
	var out times
	if r.Sequence {
		return w.sequenceEnds(r, lo, hi)
	}
	from, to := w.lines.between(lo, hi)
	ts := w.lines[from:to]
	if r.Distinct != "" {
		from, to = w.values.between(lo, hi)
		ts = nil
		for _, h := range w.values[from:to] {
			ts = append(ts, h.t)
		}
	}
	for i, t := range ts {
		if i+1-ts.since(t-int64(r.Within)) >= r.Count && (len(out) == 0 || out[len(out)-1] != t) {
			out = append(out, t)
		}
	}
	return out
}
