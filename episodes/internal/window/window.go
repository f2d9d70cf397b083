// Package window counts the lines of one key. It finds the windows and sequences that these lines complete, and the
// gaps between clear lines.
//
// A trigger is a line that makes the condition of a rule true. The condition is a count within a time, or a sequence. A
// clear line ends a failure.
//
// Nothing in the package is safe for concurrent use. Times are nanoseconds since 1970.
package window

import (
	"slices"

	"crowsnest/rules"
)

// Window holds the counted lines of one key.
type Window struct {
	// Steps holds the hits of each step of a sequence. several means that a line is in the lists of more than one step.
	Steps   []Hits
	several bool
	// lines are the times of the counted lines. They are not used for a sequence. newest is the hit of the newest
	// counted line.
	lines  lineTimes
	Newest *Hit
	// Values holds the newest hit for each value of `distinct`.
	Values Hits
	extra  int // size of the hits in Values and Steps, in addition to one line per hit
}

// Trigger is a moment at which the condition of a rule became true, with the lines that made it true.
type Trigger struct {
	T           int64  // time of the newest counted line, or of the last step
	WindowStart int64  // start of the window, exclusive; the window ends at T, inclusive
	Sequence    Hits   // lines that matched the steps of a sequence
	ShownHit    *Hit   // newest counted line of a rule without a sequence; valid until the next line is counted
	Lines       int64  // number of lines in the window
	Line        *Hit   // the line that was read and completed the condition; valid as long as Shown
	Tenant      string // tenant of the stream of Line
}

// SampleLine returns the line to show for the trigger. This is the newest line that is still known.
func (trig *Trigger) SampleLine() Text {
	if trig.Sequence == nil {
		return trig.ShownHit.Line
	}
	for _, h := range slices.Backward(trig.Sequence) {
		if !h.Line.Empty() {
			return h.Line
		}
	}
	return Text{}
}

// New returns an empty window for a rule.
func New(r *rules.Rule) Window {
	if r.Sequence {
		return Window{Steps: make([]Hits, len(r.Steps))}
	}
	return Window{}
}

// RestoreWindow returns a window with the saved parts.
func RestoreWindow(r *rules.Rule, steps []Hits, values Hits, lines Times, newest Hits) Window {
	w := New(r)
	w.Values, w.lines.all = values, lines[max(0, len(lines)-maxLines(r)):]
	w.extra = values.extraSize()
	for i := range min(len(steps), len(w.Steps)) {
		w.Steps[i] = steps[i]
		w.several = w.several || slices.ContainsFunc(steps[i], func(h *Hit) bool { return h.Several })
		w.extra += steps[i].extraSize()
	}
	if len(newest) > 0 && len(lines) > 0 {
		w.Newest = newest[0]
	}
	return w
}

// Lines returns the times of the counted lines. They are valid until the next change.
func (w *Window) Lines() Times { return w.lines.liveTimes() }

// DropUpTo forgets the lines up to t, including t.
func (w *Window) DropUpTo(t int64) {
	for i := range w.Steps {
		w.extra -= w.Steps[i].dropUpTo(t)
	}
	w.extra -= w.Values.dropUpTo(t)
	w.lines.dropUpTo(t)
	if w.Newest != nil && w.Newest.T <= t {
		w.Newest = nil
	}
}

// Size returns the size of the window in the unit of quota.Pool, which is the number of its lines. Long values add to
// it.
func (w *Window) Size() int {
	n := len(w.Values) + w.lines.size() + w.extra
	for _, hs := range w.Steps {
		n += len(hs)
	}
	return n
}

// Add counts h for one step. If h completes a trigger together with other lines in the gap, Add returns the trigger. h
// must be in the gap. The copier copies the texts of h later.
func (w *Window) Add(r *rules.Rule, step int, h *Hit, c *Copier, in Gap) (Trigger, bool) {
	if r.Sequence {
		h = c.findBorrowed(h)
		for _, hs := range w.Steps {
			w.several = markSeveral(hs, h) || w.several
		}
		at, extra := w.Steps[step].insert(h)
		if w.extra += extra; at < 0 {
			return Trigger{}, false
		}
		trig, ok := w.findSequence(r, step, h, in.Lo, in.Hi)
		if !ok && step < len(w.Steps)-1 {
			h.Line = Text{} // only the line of the last step is shown
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
	from, to := lines.indexesBetween(in.Lo, in.Hi)
	end, n := findWindow(r, lines[from:to], i-from)
	if n == 0 {
		return Trigger{}, false
	}
	shown := w.Newest
	if shown.T != end {
		shown = h // a late line is not the newest line of its window
	}
	return countTrigger(r, end, n, shown, h), true
}

// markSeveral finds a hit of the same line as h in the list, and marks both as occurring more than once. A line occurs
// more than once if it also matches another step, or if it was read twice.
func markSeveral(hs Hits, h *Hit) (found bool) {
	for i := len(hs) - 1; i >= 0 && hs[i].T >= h.T; i-- {
		if hs[i].ID == h.ID {
			hs[i].Several, h.Several, found = true, true, true
		}
	}
	return found
}

// addDistinct adds h and counts the different values of `distinct`. It keeps the newest hit of each value.
func (w *Window) addDistinct(r *rules.Rule, in *Hit, c *Copier, lo, hi int64) (Trigger, bool) {
	same := sameValue(r, in)
	var h *Hit
	for i, old := range w.Values {
		if old.T <= lo || old.T >= hi || !same(old) {
			continue
		}
		if old.T >= in.T {
			return Trigger{}, false // a newer line with this value is already counted
		}
		h = old // reuses the old hit, because nothing else refers to it
		w.extra -= old.extraSize()
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
	from, to := w.Values.indexesBetween(lo, hi)
	c.each = w.Values[from:to].times(c.each[:0])
	each := c.each
	end, n := findWindow(r, each, i-from)
	if n == 0 {
		return Trigger{}, false
	}
	lines := w.Lines()
	inWindow := lines.IndexAfter(end) - lines.IndexAfter(max(end-int64(r.Within), lo))
	return countTrigger(r, end, inWindow, w.Values[from+each.IndexAfter(end)-1], h), true
}

// sameValue returns a function that reports whether a hit has the value of h that `distinct`
// counts.
func sameValue(r *rules.Rule, h *Hit) func(*Hit) bool {
	if unit := int64(r.DistinctTime()); unit > 0 {
		begin := h.T - (h.T%unit+unit)%unit // rounds down, also for times before 1970
		return func(o *Hit) bool { return o.T >= begin && o.T < begin+unit }
	}
	name := slices.Index(h.Names, r.Distinct)
	v := h.valueAt(name, r.Distinct)
	return func(o *Hit) bool { return o.valueAt(name, r.Distinct) == v }
}

// countTrigger returns the trigger of a window that ends at end and contains this number of lines. shown is the line to
// show, and h is the line that was read.
func countTrigger(r *rules.Rule, end int64, lines int, shown, h *Hit) Trigger {
	return Trigger{T: end, WindowStart: end - int64(r.Within), ShownHit: shown, Lines: int64(lines), Line: h}
}

// findWindow looks for the newest window (end-within, end] that contains the time at index i and at least `count`
// times. n is the number of times in the window, or zero if there is no such window.
func findWindow(r *rules.Rule, ts Times, i int) (end int64, n int) {
	within := int64(r.Within)
	for e := ts.IndexAfter(ts[i]+within-1) - 1; e >= i; e-- {
		if hasCount(r, ts, e) { // several entries have the same time, and e is the index of the last of them
			return ts[e], e - ts.IndexAfter(ts[e]-within) + 1
		}
	}
	return 0, 0
}

// hasCount reports whether count times up to index e lie in the window that ends there.
func hasCount(r *rules.Rule, ts Times, e int) bool {
	first := e - r.Count + 1
	return first >= 0 && ts[first] > ts[e]-int64(r.Within)
}

// TriggersBetween returns the times of all triggers between the clear lines at lo and hi. With `distinct`, only the
// newest line of each value is known, so triggers that need an older line are missing.
func (w *Window) TriggersBetween(r *rules.Rule, lo, hi int64) Times {
	var out Times
	if r.Sequence {
		return w.sequenceEnds(r, lo, hi)
	}
	from, to := w.Lines().indexesBetween(lo, hi)
	ts := w.Lines()[from:to]
	if r.Distinct != "" {
		from, to = w.Values.indexesBetween(lo, hi)
		ts = w.Values[from:to].times(nil)
	}
	for i, t := range ts {
		if hasCount(r, ts, i) && (len(out) == 0 || out[len(out)-1] != t) {
			out = append(out, t)
		}
	}
	return out
}

// DropOlderHalf drops the older half of the window's content.
func (w *Window) DropOlderHalf() {
	for i := range w.Steps {
		w.extra -= w.Steps[i].dropFirst(len(w.Steps[i]) / 2)
	}
	w.extra -= w.Values.dropFirst(len(w.Values) / 2)
	w.lines.dropFirst(len(w.Lines()) / 2)
}

// NewestTime returns the time of the newest line of the window, or NoTime if there is none.
func (w *Window) NewestTime() int64 {
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

// TriggerLines returns the times of the lines in the window of a trigger, the oldest first.
func (w *Window) TriggerLines(r *rules.Rule, trig *Trigger) Times {
	ts := w.Lines()
	if r.Distinct != "" {
		ts = w.Values.times(nil)
	}
	return ts[ts.IndexAfter(trig.WindowStart):ts.IndexAfter(trig.T)]
}

// Move adds delta to every time.
func (w *Window) Move(delta int64) {
	w.Lines().Move(delta)
	w.Values.moveTimes(delta)
	for _, hs := range w.Steps {
		hs.moveTimes(delta)
	}
	if w.Newest != nil {
		w.Newest.T += delta
	}
}
