package window

import (
	"slices"
	"sort"

	"crowsnest/redact"
	"crowsnest/rules"
)

// Hit is a line that was counted.
type Hit struct {
	T      int64
	ID     uint64
	Values []redact.Text // values in the order of Names
	Names  []string      // names of the values, shared by the hits of one version of a rule
	Line   Text          // line of the hit; only the newest hits keep it
	// Borrowed means that Values refer to memory of the caller of Take. copied are the values that were copied for the
	// previous hit, which are usually equal.
	Borrowed bool
	copied   []redact.Text
	listed   bool // whether a Copier has recorded the hit
	// Several means that the same line also matched another step.
	Several bool
}

// Value returns the value of a name, or "" if there is none.
func (h *Hit) Value(name string) redact.Text {
	if i := slices.Index(h.Names, name); i >= 0 && i < len(h.Values) {
		return h.Values[i]
	}
	return ""
}

// valueAt returns the value of a name. It first tries the index i, which is usually right.
func (h *Hit) valueAt(i int, name string) redact.Text {
	if i >= 0 && i < len(h.Names) && i < len(h.Values) && h.Names[i] == name {
		return h.Values[i]
	}
	return h.Value(name)
}

// keepLines is the number of newest hits of a list that keep their line. Older lines are never shown.
const keepLines = 2

// Hits is a list of hits in order of time. Hits of the same time are in order of arrival.
type Hits []*Hit

// extraSize is the additional size of a hit in a window, because long values may take much more memory than a line.
func (h *Hit) extraSize() int {
	n := 0
	for _, v := range h.Values {
		n += len(v)
	}
	return n / ExtraBytes
}

// ExtraBytes is the number of bytes of values that add as much to the size as one line.
const ExtraBytes = 256

func (hs Hits) extraSize() int {
	n := 0
	for _, h := range hs {
		n += h.extraSize()
	}
	return n
}

// insert adds h, and returns its index and the growth of the extra size. It keeps the newest rules.MaxHits hits. The
// index is -1 if h is older than all of these.
func (hs *Hits) insert(h *Hit) (at, extra int) {
	i := len(*hs)
	for i > 0 && (*hs)[i-1].T > h.T {
		i--
	}
	*hs, extra = slices.Insert(*hs, i, h), h.extraSize()
	if n := len(*hs); n > keepLines {
		(*hs)[n-keepLines-1].Line = Text{}
	}
	if len(*hs) > rules.MaxHits {
		extra -= (*hs)[0].extraSize()
		*hs = slices.Delete(*hs, 0, 1)
		i--
	}
	return i, extra
}

func (hs *Hits) dropUpTo(t int64) int { return hs.dropFirst(hs.IndexAfter(t)) }

func (hs *Hits) dropFirst(n int) int {
	extra := (*hs)[:n].extraSize()
	*hs = slices.Delete(*hs, 0, n)
	return extra
}

// IndexAfter returns the index of the first hit newer than t.
func (hs Hits) IndexAfter(t int64) int {
	switch n := len(hs); {
	case n == 0 || hs[0].T > t:
		return 0
	case hs[n-1].T <= t:
		return n
	}
	return sort.Search(len(hs), func(i int) bool { return hs[i].T > t })
}

// indexesBetween returns the indexes of the hits between two times, both exclusive.
func (hs Hits) indexesBetween(lo, hi int64) (from, to int) {
	if hi == Forever {
		return hs.IndexAfter(lo), len(hs)
	}
	return hs.IndexAfter(lo), hs.IndexAfter(hi - 1)
}

func (hs Hits) times(out Times) Times {
	for _, h := range hs {
		out = append(out, h.T)
	}
	return out
}

func (hs Hits) moveTimes(delta int64) {
	for _, h := range hs {
		h.T += delta
	}
}
