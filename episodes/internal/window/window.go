// Package window counts the lines of one key: which windows and sequences they complete,
// between which clear lines.
//
// Nothing in it is safe for concurrent use. Times are nanoseconds since 1970.
package window

import (
	"slices"

	"crowsnest/rules"
)

// Window holds the counted lines of one key.
type Window struct {
	// Steps holds the hits of each step of a sequence; several means that a line is among
	// them more than once.
	Steps   []Hits
	several bool
	// lines are the times of the counted lines, unless the rule is a sequence. Newest is
	// the newest of these lines.
	lines  lineTimes
	Newest *Hit
	// Values holds, with distinct, the newest hit of each value.
	Values Hits
	extra  int // bytes of the hits in Values and Steps
}

// Trigger is a condition that became true, with the lines that made it true.
type Trigger struct {
	T        int64  // time of the newest counted line, or of the last step
	From     int64  // the window begins after it
	Sequence Hits   // the line of each step of a sequence
	Shown    *Hit   // without a sequence: the newest counted line, valid until the next one
	Lines    int64  // number of lines in the window
	Line     *Hit   // newest line that was read; valid as long as Shown
	Party    string // tenant of that line's stream
}

// Sample is the line that stands for a trigger: the newest that is still known.
func (trig *Trigger) Sample() Text {
	if trig.Sequence == nil {
		return trig.Shown.Line
	}
	for _, h := range slices.Backward(trig.Sequence) {
		if !h.Line.Empty() {
			return h.Line
		}
	}
	return Text{}
}

// New makes an empty window of a rule.
func New(r *rules.Rule) Window {
	if r.Sequence {
		return Window{Steps: make([]Hits, len(r.Steps))}
	}
	return Window{}
}

// Load makes a window from its saved parts.
func Load(r *rules.Rule, steps []Hits, values Hits, lines Times, newest Hits) Window {
	w := New(r)
	w.Values, w.lines.all = values, lines[max(0, len(lines)-maxLines(r)):]
	w.extra = values.extra()
	for i := range min(len(steps), len(w.Steps)) {
		w.Steps[i] = steps[i]
		w.several = w.several || slices.ContainsFunc(steps[i], func(h *Hit) bool { return h.Several })
		w.extra += steps[i].extra()
	}
	if len(newest) > 0 && len(lines) > 0 {
		w.Newest = newest[0]
	}
	return w
}

// Lines returns the times of the counted lines. They are valid until the next change.
func (w *Window) Lines() Times { return w.lines.live() }

// Drop forgets the lines that are not newer than t.
func (w *Window) Drop(t int64) {
	for i := range w.Steps {
		w.extra -= w.Steps[i].after(t)
	}
	w.extra -= w.Values.after(t)
	w.lines.after(t)
	if w.Newest != nil && w.Newest.T <= t {
		w.Newest = nil
	}
}

// Size is the size of the window in a quota.Pool: the number of its lines, and more for long
// values.
func (w *Window) Size() int {
	n := len(w.Values) + w.lines.size() + w.extra
	for _, hs := range w.Steps {
		n += len(hs)
	}
	return n
}

// Add counts h, whose texts c borrows, for one step and returns the trigger that it
// completes with lines in the gap, which contains h.
func (w *Window) Add(r *rules.Rule, step int, h *Hit, c *Copier, in Gap) (Trigger, bool) {
	if r.Sequence {
		h = c.borrowed(h)
		for _, hs := range w.Steps {
			w.several = markSeveral(hs, h) || w.several
		}
		at, extra := w.Steps[step].insert(h)
		if w.extra += extra; at < 0 {
			return Trigger{}, false
		}
		trig, ok := w.findSequence(r, step, h, in.Lo, in.Hi)
		if !ok && step < len(w.Steps)-1 {
			h.Line = Text{} // only the line of a last step is shown
		}
		return trig, ok
	}
	i := w.lines.insert(h.T, maxLines(r))
	if r.Distinct != "" {
		return w.addDistinct(r, h, c, in.Lo, in.Hi)
	}
	if i < 0 {
		return Trigger{}, false
	}
	if w.Newest == nil {
		w.Newest = &Hit{T: h.T}
	}
	if h.T >= w.Newest.T {
		c.Borrow(w.Newest, h)
	}
	lines := w.Lines()
	from, to := lines.between(in.Lo, in.Hi)
	end, n := counted(r, lines[from:to], i-from)
	if n == 0 {
		return Trigger{}, false
	}
	shown := w.Newest
	if shown.T != end {
		shown = h // a late line: the newest line of its window is not kept
	}
	return reached(r, end, n, shown, h), true
}

// markSeveral marks h and the same line in a list, if it is there: as another
// step, or read twice.
func markSeveral(hs Hits, h *Hit) (found bool) {
	for i := len(hs) - 1; i >= 0 && hs[i].T >= h.T; i-- {
		if hs[i].ID == h.ID {
			hs[i].Several, h.Several, found = true, true, true
		}
	}
	return found
}

// addDistinct keeps the newest hit of each value and counts values.
func (w *Window) addDistinct(r *rules.Rule, in *Hit, c *Copier, lo, hi int64) (Trigger, bool) {
	same := sameValue(r, in)
	var h *Hit
	for i, old := range w.Values {
		if old.T <= lo || old.T >= hi || !same(old) {
			continue
		}
		if old.T >= in.T {
			return Trigger{}, false // a newer line of this value is counted
		}
		h = old // nothing else refers to it
		w.extra -= old.extra()
		w.Values = slices.Delete(w.Values, i, i+1)
		break
	}
	if h == nil {
		h = &Hit{}
	}
	c.Borrow(h, in)
	i, extra := w.Values.insert(h)
	if w.extra += extra; i < 0 {
		return Trigger{}, false
	}
	from, to := w.Values.between(lo, hi)
	c.each = w.Values[from:to].times(c.each[:0])
	each := c.each
	end, n := counted(r, each, i-from)
	if n == 0 {
		return Trigger{}, false
	}
	lines := w.Lines()
	inWindow := lines.Since(end) - lines.Since(max(end-int64(r.Within), lo))
	return reached(r, end, inWindow, w.Values[from+each.Since(end)-1], h), true
}

// sameValue returns a function that reports whether a hit has the value of h that `distinct`
// counts.
func sameValue(r *rules.Rule, h *Hit) func(*Hit) bool {
	if unit := int64(r.DistinctTime()); unit > 0 {
		begin := h.T - (h.T%unit+unit)%unit // also before 1970
		return func(o *Hit) bool { return o.T >= begin && o.T < begin+unit }
	}
	name := slices.Index(h.Names, r.Distinct)
	v := h.valueAt(name, r.Distinct)
	return func(o *Hit) bool { return o.valueAt(name, r.Distinct) == v }
}

// reached returns the trigger of a window of so many lines that ends at end. shown is the
// line to show, and h the line that was read.
func reached(r *rules.Rule, end int64, lines int, shown, h *Hit) Trigger {
	return Trigger{T: end, From: end - int64(r.Within), Shown: shown, Lines: int64(lines), Line: h}
}

// counted looks for the newest window (end-within, end] that holds the time at index i and
// at least count times. n is how many it holds; zero if there is no such window.
func counted(r *rules.Rule, ts Times, i int) (end int64, n int) {
	within := int64(r.Within)
	for e := ts.Since(ts[i]+within-1) - 1; e >= i; e-- {
		if fills(r, ts, e) { // e is the last of several equal times
			return ts[e], e - ts.Since(ts[e]-within) + 1
		}
	}
	return 0, 0
}

// fills reports whether count times up to index e lie in the window that ends there.
func fills(r *rules.Rule, ts Times, e int) bool {
	first := e - r.Count + 1
	return first >= 0 && ts[first] > ts[e]-int64(r.Within)
}

// Ends returns the times of all triggers between lo and hi, the times of clear lines. With
// distinct, it omits triggers that only older lines of a value complete.
func (w *Window) Ends(r *rules.Rule, lo, hi int64) Times {
	var out Times
	if r.Sequence {
		return w.sequenceEnds(r, lo, hi)
	}
	from, to := w.Lines().between(lo, hi)
	ts := w.Lines()[from:to]
	if r.Distinct != "" {
		from, to = w.Values.between(lo, hi)
		ts = w.Values[from:to].times(nil)
	}
	for i, t := range ts {
		if fills(r, ts, i) && (len(out) == 0 || out[len(out)-1] != t) {
			out = append(out, t)
		}
	}
	return out
}

// Halve drops the older half of what the window holds.
func (w *Window) Halve() {
	for i := range w.Steps {
		w.extra -= w.Steps[i].dropFirst(len(w.Steps[i]) / 2)
	}
	w.extra -= w.Values.dropFirst(len(w.Values) / 2)
	w.lines.dropFirst(len(w.Lines()) / 2)
}

// Latest is the time of the newest line of a window, NoTime if there is none.
func (w *Window) Latest() int64 {
	t := int64(NoTime)
	if lines := w.Lines(); len(lines) > 0 {
		t = lines[len(lines)-1]
	}
	for _, hs := range append(w.Steps, w.Values) {
		if n := len(hs); n > 0 {
			t = max(t, hs[n-1].T)
		}
	}
	return t
}

// Before returns the times of the lines that made a trigger true, the oldest first.
func (w *Window) Before(r *rules.Rule, trig *Trigger) Times {
	ts := w.Lines()
	if r.Distinct != "" {
		ts = w.Values.times(nil)
	}
	return ts[ts.Since(trig.From):ts.Since(trig.T)]
}

// Move adds by to every time.
func (w *Window) Move(by int64) {
	w.Lines().Move(by)
	w.Values.move(by)
	for _, hs := range w.Steps {
		hs.move(by)
	}
	if w.Newest != nil {
		w.Newest.T += by
	}
}
