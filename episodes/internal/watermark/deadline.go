package watermark

import (
	"container/heap"
	"slices"
)

// Deadline is a time at which the engine concludes something unless a line postpones it. It
// belongs to its subject. While it is armed, it is in the heap of one group.
type Deadline struct {
	// Of is the subject that has the deadline.
	Of Subject

	// at is at most the deadline. Lines can only postpone a deadline, and there may be
	// thousands of lines, so at is updated only when it is the first in the heap.
	at     int64
	in     *Group // group whose heap contains it; nil if it is in no heap
	index  int    // index in the heap
	parked bool   // whether the deadline is in Group.parked instead of the heap
}

// Subject is something that has a deadline.
type Subject interface {
	// Due computes the deadline.
	Due() int64
	// ReadUpTo returns the time up to which every line that could change the conclusion was
	// read. That is the watermark of the group, or of a lagging stream whose lines could be
	// about the subject.
	ReadUpTo() int64
}

// Compute calls Due of the deadline's subject. If that fails, it disarms the deadline and
// returns false.
type Compute func(d *Deadline) (at int64, ok bool)

// Arm puts a deadline into the heap of a group, and removes it from any other heap.
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

// parkDeadline removes a deadline that waits for a lagging stream from the heap, until
// unparkAll.
func (g *Group) parkDeadline(d *Deadline) {
	heap.Remove(&g.deadlines, d.index)
	if g.parked == nil {
		g.parked = map[*Deadline]struct{}{}
	}
	g.parked[d], d.parked = struct{}{}, true
}

// unparkAll returns all parked deadlines to the heap. It is called when a lagging stream has
// changed.
func (g *Group) unparkAll() {
	for d := range g.parked {
		d.parked = false
		heap.Push(&g.deadlines, d)
	}
	clear(g.parked)
}

// deadlines is a heap with the earliest deadline first.
type deadlines []*Deadline

func (h deadlines) Len() int           { return len(h) }
func (h deadlines) Less(i, k int) bool { return h[i].at < h[k].at }

func (h deadlines) Swap(i, k int) {
	h[i], h[k] = h[k], h[i]
	h[i].index, h[k].index = i, k
}

// Push implements heap.Interface.
func (h *deadlines) Push(x any) {
	d := x.(*Deadline)
	d.index = len(*h)
	*h = append(*h, d)
}

// Pop implements heap.Interface.
func (h *deadlines) Pop() any {
	last := len(*h) - 1
	d := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return d
}

// firstDeadline returns the earliest deadline of a group, or nil if there is none.
func (g *Group) firstDeadline(compute Compute) *Deadline {
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

// popDue disarms the deadlines that the watermark has reached, and appends them to out.
func (g *Group) popDue(compute Compute, out []*Deadline) []*Deadline {
	w := g.Watermark()
	for len(g.deadlines) > 0 && g.deadlines[0].at <= w {
		d := g.firstDeadline(compute)
		switch {
		case d == nil || d.at > w:
		case len(g.lags) > 0 && d.Of.ReadUpTo() < d.at:
			g.parkDeadline(d)
		default:
			d.Disarm()
			out = append(out, d)
		}
	}
	return out
}

func (g *Group) rearmAll(compute Compute) {
	g.unparkAll()
	for _, d := range slices.Clone(g.deadlines) {
		if at, ok := compute(d); ok {
			d.at = at
		}
	}
	heap.Init(&g.deadlines)
}
