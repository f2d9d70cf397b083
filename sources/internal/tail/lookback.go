package tail

import (
	"bytes"
	"time"
)

// lookBack starts with the first line that is not older than from. Files
// without times are read from their start, or if end is set from their end.
func (c *follower) lookBack(ms []member, from time.Time, end bool) error {
	start, off, timed := 0, int64(0), false
	for i := len(ms) - 1; i >= 0; i-- {
		if first := ms[i].head.first; first != 0 {
			timed = true
			if first <= from.UnixNano() {
				start = i
				break
			}
		}
	}
	if !timed {
		for start < len(ms)-1 && (end || ms[start].fi.ModTime().Before(from)) {
			start++
		}
	}
	f, err := c.openMember(ms[start], 0)
	if err != nil {
		return err
	}
	if f.f != nil && !f.order.GZ {
		switch {
		case timed && ms[start].head.first < from.UnixNano():
			off = searchTime(f.f, f.fi.Size(), from)
		case !timed && end:
			off = lineStart(f.f, f.fi.Size())
		}
		if err := f.at(off); err != nil {
			c.close(f)
			return &unreadError{ms[start], err}
		}
	}
	c.cur = f
	f.learn()
	c.rememberAll(ms[:start])
	c.follow(ms[start+1:])
	// The place is a position like any other: after a restart reading goes on
	// here, not at the place of that time.
	c.t.hand.scan(c.stream, nil, c.commit)
	return nil
}

// lineStart returns the start of the line that size is in.
func lineStart(r readerAt, size int64) int64 {
	b := make([]byte, min(size, keepSize))
	n, _ := r.ReadAt(b, size-int64(len(b)))
	if i := bytes.LastIndexByte(b[:n], '\n'); i >= 0 {
		return size - int64(len(b)) + int64(i) + 1
	}
	return size
}

type readerAt interface {
	ReadAt(b []byte, off int64) (int, error)
}

// searchTime returns the start of a line such that the lines before it are
// older than from. Lines of two streams may be out of order by a little.
func searchTime(r readerAt, size int64, from time.Time) int64 {
	from = from.Add(-time.Second)
	b := make([]byte, keepSize)
	lo, hi := int64(0), size // lo: a line start whose line is older
	for hi-lo > keepSize {
		mid := lo + (hi-lo)/2
		n, _ := r.ReadAt(b, mid)
		at, t, ok := firstTimed(b[:n])
		if ok && t.Before(from) && mid+at > lo {
			lo = mid + at
			continue
		}
		hi = mid // younger, or nothing to go by: look before it
	}
	for lo < size {
		n, _ := r.ReadAt(b, lo)
		at := int64(0)
		for {
			nl := bytes.IndexByte(b[at:n], '\n')
			if t, ok := lineTime(b[at:n]); nl < 0 || ok && !t.Before(from) {
				break
			}
			at += int64(nl) + 1
		}
		if at == 0 || lo+at >= hi {
			return lo + at
		}
		lo += at
	}
	return lo
}

// firstTimed returns the first line that starts in b and has a time.
func firstTimed(b []byte) (int64, time.Time, bool) {
	for at := 0; ; {
		nl := bytes.IndexByte(b[at:], '\n')
		if nl < 0 {
			return 0, time.Time{}, false
		}
		at += nl + 1
		if t, ok := lineTime(b[at:]); ok {
			return int64(at), t, true
		}
	}
}
