package watermark

import (
	"container/heap"
	"slices"
)

// Deadline is a time at which something is concluded unless a line postpones it. It is
// part of what it belongs to, and in the heap of one group while it is armed.
type Deadline struct {
	// Of is what the deadline belongs to.
	Of Subject

	// at is not later than the deadline. Lines only postpone a deadline, and there may
	// be thousands of them, so the entry is updated only when it comes first.
	at     int64
	in     *Group // whose heap it is in; nil if there is none
	index  int    // index in that heap
	parked bool   // reports whether the deadline is in Group.parked instead of the heap
}

// Subject is something that has a deadline.
type Subject interface {
	// Due computes the deadline.
	Due() int64
	// ReadUpTo returns the time up to which every line was read that could change the
	// conclusion: the watermark of the group, or that of a lagging stream whose lines
	// could be about the subject.
	ReadUpTo() int64
}

// Compute calls Due of the subject of a deadline. It reports false if that fails, and
// has disarmed the deadline then.
type Compute func(d *Deadline) (at int64, ok bool)

// Arm puts a deadline into the heap of a group, and removes it from any other.
func (d *Deadline) Arm(g *Group) {
	d.Disarm()
	d.at, d.in = d.Of.Due(), g
	heap.Push(&g.deadlines, d)
}

// Disarm removes the deadline from its heap. It does nothing if it is in none.
func (d *Deadline) Disarm() {
	switch {
	case d.in == nil:
		return
	case d.parked:
		d.parked = false
		delete(d.in.parked, d)
	default:
		heap.Remove(&d.in.deadlines, d.index)
	}
	d.in = nil
}

// park takes a deadline that a lagging stream delays out of the heap, until unpark.
func (g *Group) park(d *Deadline) {
	heap.Remove(&g.deadlines, d.index)
	if g.parked == nil {
		g.parked = map[*Deadline]struct{}{}
	}
	g.parked[d], d.parked = struct{}{}, true
}

// unpark returns all parked deadlines to the heap: a lagging stream has changed.
func (g *Group) unpark() {
	for d := range g.parked {
		d.parked = false
		heap.Push(&g.deadlines, d)
	}
	clear(g.parked)
}

// deadlines is a heap, the earliest first.
type deadlines []*Deadline

func (h deadlines) Len() int           { return len(h) }
func (h deadlines) Less(i, k int) bool { return h[i].at < h[k].at }

func (h deadlines) Swap(i, k int) {
	h[i], h[k] = h[k], h[i]
	h[i].index, h[k].index = i, k
}

// Push is for container/heap.
func (h *deadlines) Push(x any) {
	d := x.(*Deadline)
	d.index = len(*h)
	*h = append(*h, d)
}

// Pop is for container/heap.
func (h *deadlines) Pop() any {
	last := len(*h) - 1
	d := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return d
}

// first returns the earliest deadline of a group, or nil if there is none.
func (g *Group) first(compute Compute) *Deadline {
	for len(g.deadlines) > 0 {
		d := g.deadlines[0]
		at, ok := compute(d)
		switch {
		case !ok:
		case at == d.at:
			return d
		default:
			d.at = at // the deadline was postponed
			heap.Fix(&g.deadlines, 0)
		}
	}
	return nil
}

// popDue disarms the deadlines that the watermark has reached.
func (g *Group) popDue(compute Compute, out []*Deadline) []*Deadline {
	w := g.Watermark()
	for len(g.deadlines) > 0 && g.deadlines[0].at <= w {
		d := g.first(compute)
		switch {
		case d == nil || d.at > w:
		case len(g.lags) > 0 && d.Of.ReadUpTo() < d.at:
			g.park(d)
		default:
			d.Disarm()
			out = append(out, d)
		}
	}
	return out
}

func (g *Group) rearm(compute Compute) {
	g.unpark()
	for _, d := range slices.Clone(g.deadlines) {
		if at, ok := compute(d); ok {
			d.at = at
		}
	}
	heap.Init(&g.deadlines)
}
