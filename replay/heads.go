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
	// fill makes hits available if there are none. It returns false at the end of the input or after an error.
	fill() (bool, error)
	// available returns the available hits. They are valid until the next call of fill.
	available() []matcher.Hit
	// next consumes and returns the first n available hits.
	next(n int) []matcher.Hit
	// park is called when another input has the next hit. It may release memory, because fill may be called much later.
	park()
}

// head is an input that has available hits, with the time of the first of these hits.
type head struct {
	at    time.Time
	order int // index of the input
	feed
}

// precedes reports whether a hit of h at time t comes before the next hit of o. Hits are ordered by time, and hits of
// the same time by input.
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

func (h *heads) Push(x any) { *h = append(*h, x.(head)) }

func (h *heads) Pop() any {
	end := len(*h) - 1
	last := (*h)[end]
	(*h)[end] = head{} // drops the reference to the input's hits
	*h = (*h)[:end]
	return last
}

// countPreceding returns the number of hits of the first input that come before the hits of all other inputs.
func (h heads) countPreceding() int {
	hits, n := h[0].available(), 1
	others := h[1:min(len(h), 3)] // one of these is the input with the second hit
	if len(others) == 0 {
		return len(hits)
	}
	for n < len(hits) && !slices.ContainsFunc(others, func(o head) bool { return !h[0].precedes(hits[n].Time, o) }) {
		n++
	}
	return n
}
