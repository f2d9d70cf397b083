package replay

import (
	"slices"
	"time"

	"crowsnest/matcher"
)

// feed supplies the hits of one input.
type feed interface {
	// name returns the name of the input.
	name() string
	// find makes hits available, if there are none. It returns false at the end or after an error.
	find() (bool, error)
	// found returns the available hits. They are valid until find makes others available.
	found() []matcher.Hit
	// next consumes and returns the first n available hits.
	next(n int) []matcher.Hit
	// park is called when another input has the next hit, because find may be called much later.
	park()
}

// head is an input with available hits, and the time of the next one.
type head struct {
	at    time.Time
	order int // index of the input
	feed
}

// precedes reports whether a hit of h at time t comes before the next hit of o. Hits are
// ordered by time and then by input.
func (h head) precedes(t time.Time, o head) bool {
	if c := t.Compare(o.at); c != 0 {
		return c < 0
	}
	return h.order < o.order
}

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
	(*h)[end] = head{} // releases the memory of the input's hits
	*h = (*h)[:end]
	return last
}

// countPreceding returns how many hits of the first input precede the hits of all others.
func (h heads) countPreceding() int {
	hits, n := h[0].found(), 1
	others := h[1:min(len(h), 3)] // one of these is the second input
	if len(others) == 0 {
		return len(hits)
	}
	for n < len(hits) && !slices.ContainsFunc(others, func(o head) bool { return !h[0].precedes(hits[n].Time, o) }) {
		n++
	}
	return n
}
