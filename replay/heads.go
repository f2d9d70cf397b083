package replay

import (
	"slices"
	"time"
)

// head is an input with hits, and the time of the next one.
type head struct {
	at     time.Time
	reader *reader
}

// precedes reports whether a hit at a time is taken before the next one of another input:
// hits are in order of time, then of inputs.
func (r *reader) precedes(at time.Time, o head) bool {
	if c := at.Compare(o.at); c != 0 {
		return c < 0
	}
	return r.order < o.reader.order
}

// heads is a heap.
type heads []head

func (h heads) Len() int           { return len(h) }
func (h heads) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h heads) Less(i, j int) bool { return h[i].reader.precedes(h[i].at, h[j]) }

// Push implements heap.Interface.
func (h *heads) Push(x any) { *h = append(*h, x.(head)) }

// Pop implements heap.Interface.
func (h *heads) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// first returns how many hits of the first input precede those of all others.
func (h heads) first() int {
	r, n := h[0].reader, 1
	others := h[1:min(len(h), 3)] // one of them is the second
	if len(others) == 0 {
		return len(r.hits)
	}
	for n < len(r.hits) && !slices.ContainsFunc(others, func(o head) bool { return !r.precedes(r.hits[n].Time, o) }) {
		n++
	}
	return n
}
