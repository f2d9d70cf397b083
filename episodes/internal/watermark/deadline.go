package watermark

import (
	"container/heap"
	"slices"
)

// Deadline is a time at which the engine concludes something about its subject, such as an episode, unless a line
// postpones it. It is embedded in its subject. While it is armed, it is in the heap of one group.
type Deadline struct {
	// Subject is the subject of the deadline.
	Subject Subject

	// lowerBound is a lower bound of the deadline. Lines can only postpone a deadline, and there may be thousands of lines, so
	// lowerBound is updated only when the deadline is the first in the heap.
	lowerBound int64
	in         *Group // group in whose heap it is; nil if it is not armed
	index      int    // index in the heap
}

// Subject is something that has a deadline.
type Subject interface {
	// Due computes the deadline in nanoseconds since 1970.
	Due() int64
	// ReadUpTo returns the watermark for the conclusion. All lines up to this time that could change the conclusion
	// were read. It is the watermark of the group, or of a lagging stream whose lines could belong to the subject.
	ReadUpTo() int64
}

// Compute returns the result of Due. If Due fails, Compute disarms the deadline and returns false.
type Compute func(d *Deadline) (at int64, ok bool)

// Arm puts the deadline into the heap of a group, and removes it from any other heap.
func (d *Deadline) Arm(g *Group) {
	d.Disarm()
	d.lowerBound, d.in = d.Subject.Due(), g
	heap.Push(&g.deadlines, d)
}

// Disarm removes the deadline from its heap. It does nothing if the deadline is not armed.
func (d *Deadline) Disarm() {
	if d.in != nil {
		heap.Remove(&d.in.deadlines, d.index)
		d.in = nil
	}
}

// deadlines is a heap with the earliest deadline first.
type deadlines []*Deadline

func (h deadlines) Len() int           { return len(h) }
func (h deadlines) Less(i, k int) bool { return h[i].lowerBound < h[k].lowerBound }

func (h deadlines) Swap(i, k int) {
	h[i], h[k] = h[k], h[i]
	h[i].index, h[k].index = i, k
}

func (h *deadlines) Push(x any) {
	d := x.(*Deadline)
	d.index = len(*h)
	*h = append(*h, d)
}

func (h *deadlines) Pop() any {
	last := len(*h) - 1
	d := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return d
}

func (g *Group) firstDeadline(compute Compute) *Deadline {
	for len(g.deadlines) > 0 {
		d := g.deadlines[0]
		at, ok := compute(d)
		switch {
		case !ok:
		case at == d.lowerBound:
			return d
		default:
			d.lowerBound = at // a line has postponed the deadline
			heap.Fix(&g.deadlines, 0)
		}
	}
	return nil
}

// popDue disarms the deadlines that the watermark has reached and appends them to out. It skips deadlines that wait for
// a lagging stream.
func (g *Group) popDue(compute Compute, out []*Deadline) []*Deadline {
	var waiting []*Deadline
	w := g.Watermark()
	for len(g.deadlines) > 0 && g.deadlines[0].lowerBound <= w {
		d := g.firstDeadline(compute)
		if d == nil || d.lowerBound > w {
			continue
		}
		if heap.Pop(&g.deadlines); len(g.lags) > 0 && d.Subject.ReadUpTo() < d.lowerBound {
			waiting = append(waiting, d)
			continue
		}
		d.in = nil
		out = append(out, d)
	}
	for _, d := range waiting {
		heap.Push(&g.deadlines, d)
	}
	return out
}

func (g *Group) rearmAll(compute Compute) {
	for _, d := range slices.Clone(g.deadlines) {
		if at, ok := compute(d); ok {
			d.lowerBound = at
		}
	}
	heap.Init(&g.deadlines)
}
