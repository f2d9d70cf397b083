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
	values []string // of wants
	wants  []string // names, shared by the hits of one version of a rule
	line   text     // kept for the newest few hits only
	// lent tells that values are memory of the caller of Take; owned are the
	// values that were copied last: nearly always they are the same again.
	lent   bool
	owned  []string
	listed bool // in the list of the batch
	// several tells that the line also serves another step.
	several bool
}

// value returns the value of a name, "" if there is none.
func (h *hit) value(name string) string {
	if i := slices.Index(h.wants, name); i >= 0 && i < len(h.values) {
		return h.values[i]
	}
	return ""
}

// keepLines is how many hits of a list keep their line: nothing looks at older
// ones.
const keepLines = 2

// hits is a list in order of time; equal times are in order of arrival.
type hits []*hit

// insert adds h and returns its index, or -1 if it is older than the newest
// rules.MaxHits, which are kept.
func (hs *hits) insert(h *hit) int {
	i := len(*hs)
	for i > 0 && (*hs)[i-1].t > h.t {
		i--
	}
	*hs = slices.Insert(*hs, i, h)
	if n := len(*hs); n > keepLines {
		(*hs)[n-keepLines-1].line = text{}
	}
	if len(*hs) > rules.MaxHits {
		*hs = slices.Delete(*hs, 0, 1)
		i--
	}
	return i
}

// after drops the hits that are not newer than t.
func (hs *hits) after(t int64) { *hs = slices.Delete(*hs, 0, hs.since(t)) }

// since returns the index of the first hit newer than t.
func (hs hits) since(t int64) int {
	return sort.Search(len(hs), func(i int) bool { return hs[i].t > t })
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

// since returns the index of the first time newer than t.
func (ts times) since(t int64) int {
	return sort.Search(len(ts), func(i int) bool { return ts[i] > t })
}

// window holds what was counted for one key.
type window struct {
	key    []string // values of `by`
	clears string   // the key that a clear line shares with it
	// steps holds the hits of each step of a sequence.
	steps []hits
	// lines are the times of the lines that count, unless it is a sequence;
	// newest is the newest of these lines.
	lines  times
	newest *hit
	// values holds, with distinct, the newest hit of each value.
	values hits
}

// trigger is a condition that became true: the lines that made it so.
type trigger struct {
	t     int64 // of the newest counted line, or of the last step
	from  int64 // the window begins after it
	chain hits  // the line of each step of a sequence
	shown *hit  // else the newest counted line; it is valid until the next one
	lines int64 // in the window
	line  *hit  // that was read, valid as long
	// namespace of the stream of that line.
	namespace string
}

// newWindow makes a window of a key. The values are kept.
func (rs *ruleState) newWindow(values []string) *window {
	w := &window{key: values}
	if rs.byClear != nil {
		w.clears, _ = rs.shared(rs.clearAt, values)
	}
	if rs.rule.Sequence {
		w.steps = make([]hits, len(rs.rule.Steps))
	}
	return w
}

// drop forgets the lines that are not newer than t.
func (w *window) drop(t int64) {
	for i := range w.steps {
		w.steps[i].after(t)
	}
	w.values.after(t)
	w.lines.after(t)
	if w.newest != nil && w.newest.t <= t {
		w.newest = nil
	}
}

// size is the number of lines that are kept.
func (w *window) size() int {
	n := len(w.values) + len(w.lines)
	for _, hs := range w.steps {
		n += len(hs)
	}
	return n
}

// add counts the hit of a batch for one step and returns the trigger that it
// completes.
func (w *window) add(r *rules.Rule, step int, b *batch) (trigger, bool) {
	h := &b.hit
	if r.Sequence {
		h = &hit{}
		b.lend(h, &b.hit)
		for i, hs := range w.steps {
			if i != step {
				markSeveral(hs, h)
			}
		}
		if w.steps[step].insert(h) < 0 {
			return trigger{}, false
		}
		trig, ok := w.chain(r, step, h)
		if !ok && step < len(w.steps)-1 {
			h.line = text{} // only the line of a last step is shown
		}
		return trig, ok
	}
	i := w.lines.insert(h.t)
	if r.Distinct != "" {
		return w.addDistinct(r, b)
	}
	if i < 0 {
		return trigger{}, false
	}
	if w.newest == nil {
		w.newest = &hit{t: h.t}
	}
	if h.t >= w.newest.t {
		b.lend(w.newest, h)
	}
	end, ok := counted(r, w.lines, i)
	if !ok {
		return trigger{}, false
	}
	shown := w.newest
	if shown.t != end {
		shown = h // a late line: what the newest one of its window said is not kept
	}
	return w.reached(r, end, shown, h), true
}

// markSeveral marks h and the same line in another step's list.
func markSeveral(hs hits, h *hit) {
	for i := len(hs) - 1; i >= 0 && hs[i].t >= h.t; i-- {
		if hs[i].id == h.id {
			hs[i].several, h.several = true, true
		}
	}
}

// addDistinct keeps the newest hit of each value and counts values.
func (w *window) addDistinct(r *rules.Rule, b *batch) (trigger, bool) {
	h := &hit{}
	v := b.hit.value(r.Distinct)
	for i, old := range w.values {
		if old.value(r.Distinct) != v {
			continue
		}
		if old.t >= b.hit.t {
			return trigger{}, false // a newer line of this value is counted
		}
		h = old // nothing else refers to it
		w.values = slices.Delete(w.values, i, i+1)
		break
	}
	b.lend(h, &b.hit)
	i := w.values.insert(h)
	if i < 0 {
		return trigger{}, false
	}
	each := make(times, len(w.values))
	for k, v := range w.values {
		each[k] = v.t
	}
	end, ok := counted(r, each, i)
	if !ok {
		return trigger{}, false
	}
	return w.reached(r, end, w.values[each.since(end)-1], h), true
}

// reached is the trigger of the window that ends at end, shown by one of its
// lines and found when h was read.
func (w *window) reached(r *rules.Rule, end int64, shown, h *hit) trigger {
	from := end - int64(r.Within)
	return trigger{t: end, from: from, shown: shown, lines: int64(w.lines.since(end) - w.lines.since(from)), line: h}
}

// counted looks for the newest window (end-within, end] that holds the time at
// index i and at least count times.
func counted(r *rules.Rule, ts times, i int) (end int64, ok bool) {
	within := int64(r.Within)
	for e := len(ts) - 1; e >= i; e-- {
		if ts[e]-within >= ts[i] {
			continue // the window of this end begins after the line
		}
		if e-ts.since(ts[e]-within)+1 >= r.Count {
			return ts[e], true
		}
	}
	return 0, false
}
