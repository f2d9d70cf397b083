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
	Values []redact.Text // values of Names
	Names  []string      // shared by the hits of one version of a rule
	Line   Text          // kept for the newest few hits only
	// Borrowed means that Values are memory of Take's caller. copied are the values that
	// were copied last, which are nearly always the same.
	Borrowed bool
	copied   []redact.Text
	listed   bool // reports whether a Copier lists the hits
	// Several means that the line also serves another step.
	Several bool
}

// Value returns the value of a name, "" if there is none.
func (h *Hit) Value(name string) redact.Text {
	if i := slices.Index(h.Names, name); i >= 0 && i < len(h.Values) {
		return h.Values[i]
	}
	return ""
}

// valueAt is Value for a name whose index is probably i.
func (h *Hit) valueAt(i int, name string) redact.Text {
	if i >= 0 && i < len(h.Names) && i < len(h.Values) && h.Names[i] == name {
		return h.Values[i]
	}
	return h.Value(name)
}

// keepLines is how many of the newest hits of a list keep their line: older lines are never
// shown.
const keepLines = 2

// Hits is a list in order of time; equal times are in order of arrival.
type Hits []*Hit

// extra is how much the hit adds to the size of a window beyond one line: its values may take
// much more memory.
func (h *Hit) extra() int {
	n := 0
	for _, v := range h.Values {
		n += len(v)
	}
	return n / ExtraBytes
}

// ExtraBytes is how many bytes of values count as much as a line.
const ExtraBytes = 256

func (hs Hits) extra() int {
	n := 0
	for _, h := range hs {
		n += h.extra()
	}
	return n
}

// insert adds h and returns its index, and by how much extra grew. The newest rules.MaxHits
// hits are kept; the index is -1 if h is older than those.
func (hs *Hits) insert(h *Hit) (at, extra int) {
	i := len(*hs)
	for i > 0 && (*hs)[i-1].T > h.T {
		i--
	}
	*hs, extra = slices.Insert(*hs, i, h), h.extra()
	if n := len(*hs); n > keepLines {
		(*hs)[n-keepLines-1].Line = Text{}
	}
	if len(*hs) > rules.MaxHits {
		extra -= (*hs)[0].extra()
		*hs = slices.Delete(*hs, 0, 1)
		i--
	}
	return i, extra
}

// after drops the hits that are not newer than t and returns their extra.
func (hs *Hits) after(t int64) int { return hs.dropFirst(hs.Since(t)) }

func (hs *Hits) dropFirst(n int) int {
	extra := (*hs)[:n].extra()
	*hs = slices.Delete(*hs, 0, n)
	return extra
}

// Since returns the index of the first hit newer than t.
func (hs Hits) Since(t int64) int {
	switch n := len(hs); {
	case n == 0 || hs[0].T > t:
		return 0
	case hs[n-1].T <= t:
		return n
	}
	return sort.Search(len(hs), func(i int) bool { return hs[i].T > t })
}

// between returns the indexes of the hits between two times, both exclusive.
func (hs Hits) between(lo, hi int64) (from, to int) {
	if hi == Forever {
		return hs.Since(lo), len(hs)
	}
	return hs.Since(lo), hs.Since(hi - 1)
}

// times returns the times of the hits.
func (hs Hits) times(out Times) Times {
	for _, h := range hs {
		out = append(out, h.T)
	}
	return out
}

func (hs Hits) move(by int64) {
	for _, h := range hs {
		h.T += by
	}
}
