package episodes

import (
	"slices"

	"crowsnest/rules"
)

// hit is a line that was counted.
type hit struct {
	t      int64
	id     uint64
	values []string // of wants; of lines that are merely counted, as of line
	wants  []string // names, shared by the hits of one version of a rule
	line   string   // kept for the newest few hits only
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

// keepLines is how many hits of a window keep their line, and how many of those
// that are merely counted keep their values: nothing looks at older ones.
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
		(*hs)[n-keepLines-1].line = ""
	}
	if len(*hs) > rules.MaxHits {
		*hs = slices.Delete(*hs, 0, 1)
		i--
	}
	return i
}

// after drops the hits that are not newer than t.
func (hs *hits) after(t int64) {
	n := 0
	for n < len(*hs) && (*hs)[n].t <= t {
		n++
	}
	*hs = slices.Delete(*hs, 0, n)
}

// since returns the index of the first hit newer than t.
func (hs hits) since(t int64) int {
	i, _ := slices.BinarySearchFunc(hs, t+1, func(h *hit, t int64) int {
		switch {
		case h.t < t:
			return -1
		case h.t > t:
			return 1
		}
		return 0
	})
	return i
}

// window holds what was counted for one key.
type window struct {
	key   []string // values of `by`
	steps []hits   // one list per step; for a match one list
	// values holds, with distinct, the newest hit of each value; steps[0] then
	// holds all lines, for their number.
	values hits
}

// trigger is a condition that became true: the lines that made it so.
type trigger struct {
	t     int64 // of the newest counted line, or of the last step
	from  int64 // the window begins after it
	chain hits  // the line of each step; for a match the newest counted line
	lines int64 // in the window
	line  *hit  // that was read
}

func newWindow(r *rules.Rule, key []string) *window {
	return &window{key: key, steps: make([]hits, len(r.Steps))}
}

// drop forgets the hits that are not newer than t.
func (w *window) drop(t int64) {
	for i := range w.steps {
		w.steps[i].after(t)
	}
	w.values.after(t)
}

// size is the number of hits.
func (w *window) size() int {
	n := len(w.values)
	for _, hs := range w.steps {
		n += len(hs)
	}
	return n
}

// add counts a hit of one step and returns the trigger that it completes.
func (w *window) add(r *rules.Rule, step int, h *hit) (trigger, bool) {
	if r.Sequence {
		for i, hs := range w.steps {
			if i != step {
				markSeveral(hs, h)
			}
		}
		if w.steps[step].insert(h) < 0 {
			return trigger{}, false
		}
		return w.chain(r, step, h)
	}
	i := w.steps[0].insert(h)
	if r.Distinct != "" {
		return w.addDistinct(r, h)
	}
	if n := len(w.steps[0]); n > keepLines {
		w.steps[0][n-keepLines-1].values = nil
	}
	if i < 0 {
		return trigger{}, false
	}
	return counted(r, w.steps[0], i, nil)
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
func (w *window) addDistinct(r *rules.Rule, h *hit) (trigger, bool) {
	v := h.value(r.Distinct)
	for i, old := range w.values {
		if old.value(r.Distinct) != v {
			continue
		}
		if old.t >= h.t {
			return trigger{}, false // a newer line of this value is counted
		}
		w.values = slices.Delete(w.values, i, i+1)
		break
	}
	i := w.values.insert(h)
	if i < 0 {
		return trigger{}, false
	}
	return counted(r, w.values, i, w.steps[0])
}

// counted looks for the newest window (t-within, t] that holds the hit at index
// i and at least count hits. all, if not nil, holds the lines behind the hits.
func counted(r *rules.Rule, hs hits, i int, all hits) (trigger, bool) {
	h, within := hs[i], int64(r.Within)
	for e := len(hs) - 1; e >= i; e-- {
		end := hs[e].t
		if end-within >= h.t {
			continue // the window of this end begins after the hit
		}
		first := hs.since(end - within)
		if e-first+1 < r.Count {
			continue
		}
		lines := e - first + 1
		if all != nil {
			lines = all.since(end) - all.since(end-within)
		}
		newest := hs[e]
		if newest.values == nil && h.values != nil {
			newest = h // a late line: what the newest one said is not kept
		}
		return trigger{t: end, from: end - within, chain: hits{newest}, lines: int64(lines), line: h}, true
	}
	return trigger{}, false
}
