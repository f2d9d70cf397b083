package tail

import (
	"bytes"
	"slices"
)

// Files are ordered by the times in them. When the clock is set back, that order is
// wrong from then on: a file that was read long ago comes after the current one,
// and a new one comes before it. doneFile records finished files, so that both
// cases are detected.

// doneFile identifies a file that was read to its end.
type doneFile struct {
	id   ident
	size int64
}

// donePoint is its saved form.
type donePoint struct {
	Head  sum   `json:"h"`
	HeadN int   `json:"l"`
	First int64 `json:"t"`
	Size  int64 `json:"s"`
}

func (d donePoint) file() doneFile {
	return doneFile{ident{n: d.HeadN, sum: d.Head, first: d.First}, d.Size}
}

// validDone reports whether the numbers make sense: a state file may hold anything.
func validDone(done []donePoint) bool {
	return len(done) <= doneMax && !slices.ContainsFunc(done, func(d donePoint) bool { return d.HeadN <= 0 || d.HeadN > headSize })
}

// remember records that a file was read to its end.
func (c *follower) remember(d doneFile) {
	c.done = append(c.done, d)
	if len(c.done) > doneMax {
		c.done = slices.Delete(c.done, 0, 1)
	}
}

// rememberAll records the files that come before cur when it is found: they were
// read before, or are too old.
func (c *follower) rememberAll(ms []member) {
	for _, m := range ms {
		if m.head.first != 0 && !c.cur.id.is(m.head.bytes) { // a copy of cur may have more than was read
			c.remember(doneFile{identOf(m.head.bytes), m.head.size})
		}
	}
}

// laterDone returns the files read before f that must be saved with it.
func (c *follower) laterDone(f *file) []donePoint {
	if f.id.first == 0 {
		return nil
	}
	var out []donePoint
	for _, d := range c.done {
		if d.id.n == f.id.n && d.id.sum == f.id.sum {
			break // what comes behind was read after it
		}
		if d.id.first > f.id.first {
			out = append(out, donePoint{Head: d.id.sum, HeadN: d.id.n, First: d.id.first, Size: d.size})
		}
	}
	return out
}

// bornBefore returns the files before cur that were not there at the last look,
// or that are known to come after cur.
func (c *follower) bornBefore(ms []member) []member {
	var born []member
	for _, m := range ms {
		if m.head.first == 0 || m.order.Instance != c.cur.order.Instance || m.head.first >= c.cur.id.first || c.isDone(m) {
			continue
		}
		old := slices.ContainsFunc(c.before, func(b member) bool {
			n := min(len(b.head.bytes), len(m.head.bytes))
			return n > 0 && bytes.Equal(b.head.bytes[:n], m.head.bytes[:n])
		})
		if !old || slices.ContainsFunc(c.next, func(f *file) bool { return f.isMember(m) }) {
			born = append(born, m)
		}
	}
	return born
}
