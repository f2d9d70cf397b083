package episodes

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"time"

	"crowsnest/episodes/internal/window"
)

// deadline is the place of an episode, or of the overflow of a rule, in the heap
// of its group.
type deadline struct {
	rs    *ruleState
	ep    *episode // nil: it is the overflow's, or that of lapse
	lapse *lapse
	// at is not later than the deadline. Lines only postpone a deadline, and there may
	// be thousands of them, so the entry is updated only when it comes first.
	at    int64
	in    *group // whose heap it is in; nil: none
	index int    // in that heap
}

// due computes the deadline.
func (d *deadline) due() int64 {
	switch {
	case d.lapse != nil:
		return d.lapse.end
	case d.ep != nil:
		return d.ep.deadline(d.rs)
	}
	return d.rs.over.newest + d.rs.overflowQuiet()
}

// inTurn compares in the order in which conclusions are drawn: by rule, its
// overflow last, by start, by key.
func (d *deadline) inTurn(o *deadline) int {
	if c := cmp.Compare(d.rs.pos, o.rs.pos); c != 0 {
		return c
	}
	a, b := d.episode(), o.episode()
	switch {
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return a.compare(b)
}

// episode is what the deadline is of; nil: the overflow.
func (d *deadline) episode() *episode {
	if d.lapse != nil {
		return d.lapse.ep
	}
	return d.ep
}

// deadlines is a heap, the earliest first.
type deadlines []*deadline

func (h deadlines) Len() int           { return len(h) }
func (h deadlines) Less(i, k int) bool { return h[i].at < h[k].at }

func (h deadlines) Swap(i, k int) {
	h[i], h[k] = h[k], h[i]
	h[i].index, h[k].index = i, k
}

// Push is for container/heap.
func (h *deadlines) Push(x any) {
	d := x.(*deadline)
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

// arm puts a deadline into the heap of its rule's group.
func (d *deadline) arm() {
	d.disarm()
	d.at, d.in = d.due(), d.rs.group
	heap.Push(&d.in.heap, d)
}

// disarm is the inverse of arm.
func (d *deadline) disarm() {
	if d.in != nil {
		heap.Remove(&d.in.heap, d.index)
		d.in = nil
	}
}

// safeDue computes a deadline. It reports false if that panics: the deadline is then
// disarmed.
type safeDue func(d *deadline) (at int64, ok bool)

// first returns the earliest deadline of a group, or nil if there is none.
func (g *group) first(due safeDue) *deadline {
	for len(g.heap) > 0 {
		d := g.heap[0]
		at, ok := due(d)
		switch {
		case !ok:
		case at == d.at:
			return d
		default:
			d.at = at // it was put off
			heap.Fix(&g.heap, 0)
		}
	}
	return nil
}

// popDue removes the deadlines that the watermark of a group has reached from its heap.
func (g *group) popDue(due safeDue, out []*deadline) []*deadline {
	w := g.watermark()
	for len(g.heap) > 0 && g.heap[0].at <= w {
		if d := g.first(due); d != nil && d.at <= w {
			d.disarm()
			out = append(out, d)
		}
	}
	return out
}

// rearm orders the heap of a group again after its deadlines were moved.
func (g *group) rearm(due safeDue) {
	for _, d := range slices.Clone(g.heap) {
		if at, ok := due(d); ok {
			d.at = at
		}
	}
	heap.Init(&g.heap)
}

// dueOf computes a deadline. If that panics, the rule is quarantined.
func (e *Engine) dueOf(d *deadline) (at int64, ok bool) {
	defer func() {
		if p := recover(); p != nil {
			e.quarantine(d.rs, e.limits.evictions.now)
			d.disarm()
		}
	}()
	return d.due(), true
}

// conclude applies the deadlines that the watermarks have reached.
func (e *Engine) conclude(now int64) {
	due := e.due[:0]
	for _, g := range e.marks.groups {
		due = g.popDue(e.safeDue, due)
	}
	slices.SortFunc(due, (*deadline).inTurn)
	for _, d := range due {
		if !d.rs.quarantined {
			e.guard(d.rs, now, func() { e.concludeOne(d, now) })
		}
	}
	clear(due)
	e.due = due[:0]
}

func (e *Engine) concludeOne(d *deadline, now int64) {
	switch {
	case d.lapse != nil:
		e.decideLapse(d.lapse, now)
	case d.ep == nil:
		e.endOverflow(d.rs, d.at, now, ReasonQuiet)
	case !e.decide(d.ep, now):
		d.arm()
	}
}

// decide applies the reached deadlines of one episode and reports whether it ended.
func (e *Engine) decide(ep *episode, now int64) (ended bool) {
	rs := ep.rs
	w := rs.watermark()
	for ep.deadline(rs) <= w {
		fires, ends := ep.starts+int64(rs.rule.For), ep.end(rs)
		if ep.state == StatePending && fires < ends {
			e.fire(ep, now)
			continue
		}
		reason := ReasonQuiet
		if rs.rule.Clear != nil {
			reason = ReasonExpired
		}
		e.close(ep, reason, ends, now, window.Text{})
		return true
	}
	return false
}

// NextDeadline returns the earliest clock time at which Evaluate may conclude something
// without another line, if all sources keep up.
func (e *Engine) NextDeadline() (time.Time, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	next := int64(math.MaxInt64)
	for _, g := range e.marks.groups {
		if d := g.first(e.safeDue); d != nil {
			next = min(next, d.at+g.lateness)
		}
	}
	if next == math.MaxInt64 {
		return time.Time{}, false
	}
	return instant(next), true
}
