package replay

import (
	"slices"
	"time"

	"crowsnest/matcher"
)

// feed is where the hits of one input come from.
type feed interface {
	name() string // name of the input
	// find makes the next hits available, unless there are any. It returns false at the end
	// of the input or after an error.
	find() (bool, error)
	// found returns the available hits. They are valid until find is called without any.
	found() []matcher.Hit
	// next returns the first n of them, which are then no longer available.
	next(n int) []matcher.Hit
	// park is called when another input is next: find may be called much later.
	park()
}

// head is an input with hits, and the time of the next one.
type head struct {
	at    time.Time
	order int // position of the input
	feed
}

// precedes reports whether a hit of the input at a time is taken before the next one of
// another input: hits are in order of time, then of inputs.
func (h head) precedes(at time.Time, o head) bool {
	if c := at.Compare(o.at); c != 0 {
		return c < 0
	}
	return h.order < o.order
}

// heads is a heap.
type heads []head

func (h heads) Len() int           { return len(h) }
func (h heads) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h heads) Less(i, j int) bool { return h[i].precedes(h[i].at, h[j]) }

// Push implements heap.Interface.
func (h *heads) Push(x any) { *h = append(*h, x.(head)) }

// Pop implements heap.Interface.
func (h *heads) Pop() any {
	end := len(*h) - 1
	last := (*h)[end]
	(*h)[end] = head{} // its hits are garbage
	*h = (*h)[:end]
	return last
}

// first returns how many of the available hits of the first input precede those of all
// others.
func (h heads) first() int {
	hits, n := h[0].found(), 1
	others := h[1:min(len(h), 3)] // one of them is the second
	if len(others) == 0 {
		return len(hits)
	}
	for n < len(hits) && !slices.ContainsFunc(others, func(o head) bool { return !h[0].precedes(hits[n].Time, o) }) {
		n++
	}
	return n
}
