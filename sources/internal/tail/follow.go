package tail

import (
	"os"
	"slices"
	"time"
)

// reconcile finds cur and its successors among the current files.
func (c *follower) reconcile(ms []member) {
	at := -1
	c.cur.learn() // it may have been empty when it was found
	for i, m := range ms {
		if c.cur.isMember(m) {
			at = i
		}
	}
	if at >= 0 {
		c.cur.name, c.cur.order, c.away = ms[at].name, ms[at].order, time.Time{}
		if c.cur.f == nil {
			c.cur.fi = ms[at].fi
		}
		if i := c.unreadCopy(ms[:at]); i >= 0 {
			at = i
		}
		c.follow(append(c.bornBefore(ms[:at]), ms[at+1:]...))
		return
	}
	if c.away.IsZero() {
		c.away = c.turn.now
	}
	for i, m := range ms { // compressed meanwhile: the newest that has its head
		if m.order.GZ && c.cur.id.is(m.head.bytes) {
			at = i
		}
	}
	if at >= 0 {
		c.follow(append(c.bornBefore(ms[:at]), ms[at+1:]...))
		return
	}
	later := ms[:0:0]
	for _, m := range ms {
		if c.follows(m) && !c.looksDone(m) {
			later = append(later, m)
		}
	}
	c.follow(later)
	if c.cur.f == nil && !c.cur.finished {
		c.deleted(c.cur)
		c.skipCur()
	}
}

// unreadCopy finds the copy of a file that was truncated before any of it was
// read: a file that is new and still comes before cur. It becomes cur.
func (c *follower) unreadCopy(ms []member) int {
	if c.cur.off > 0 || c.cur.order.Instance > 0 {
		return -1
	}
	for i, m := range ms {
		if m.order.GZ || c.isDone(m) || slices.ContainsFunc(c.before, func(b member) bool { return os.SameFile(b.fi, m.fi) }) {
			continue
		}
		if f, err := c.openMember(m, 0); err == nil {
			c.close(c.cur)
			c.cur = f
			return i
		}
	}
	return -1
}

// isMember reports whether f is the file m. The inode is certain while f is open;
// else it may be in use again, and the content decides, if there is any.
func (f *file) isMember(m member) bool {
	switch {
	case f.f != nil:
		return os.SameFile(m.fi, f.fi)
	case f.id.n > 0:
		return f.id.is(m.head.bytes) && (f.order.GZ == m.order.GZ || !f.finished)
	}
	return m.name == f.name && os.SameFile(m.fi, f.fi)
}

// follow sets what comes after cur. Files that are open already stay, also if
// they were deleted or compressed meanwhile.
func (c *follower) follow(ms []member) {
	var next []*file
	left := slices.Clone(c.next)
	for _, f := range left {
		f.learn() // it may have been empty when it was found, and be compressed now
	}
	for _, m := range ms {
		if c.isDone(m) {
			continue
		}
		i := match(left, m)
		if i < 0 {
			next = append(next, c.newNext(m, len(next) < eagerOpen))
			continue
		}
		f := left[i]
		left = slices.Delete(left, i, i+1)
		if f.isMember(m) {
			f.name, f.order = m.name, m.order
			f.id = identOf(m.head.bytes)
			if f.f == nil || f.order.GZ {
				f.fi = m.fi
			}
		}
		next = append(next, f)
	}
	c.next = nil
	// What has no name any more is older than what has one, and can be read only
	// while it is open. Of one that was never opened its name may be that of
	// another file now.
	left = slices.DeleteFunc(left, func(f *file) bool {
		if f.f == nil {
			c.deleted(f)
		}
		return f.f == nil
	})
	for _, f := range append(left, next...) {
		c.stat(f)
		c.next = append(c.next, f)
	}
}

// match returns which file the member is, or is the compressed form of.
func match(files []*file, m member) int {
	for i, f := range files {
		if f.isMember(m) {
			return i
		}
	}
	for i, f := range files {
		if m.order.GZ && f.id.is(m.head.bytes) {
			return i
		}
	}
	return -1
}

// isDone reports whether the file was read to its end. Without a time in its head a
// file cannot be told from another one that starts alike.
func (c *follower) isDone(m member) bool {
	if m.head.first == 0 {
		return false
	}
	return slices.ContainsFunc(c.done, func(d doneFile) bool { return d.id.is(m.head.bytes) })
}

// looksDone is isDone where there is nothing better to go by: the same start
// and the same length.
func (c *follower) looksDone(m member) bool {
	return slices.ContainsFunc(c.done, func(d doneFile) bool { return d.size == m.head.size && d.id.is(m.head.bytes) })
}

func (c *follower) newNext(m member, eager bool) *file {
	f := &file{name: m.name, order: m.order, id: identOf(m.head.bytes), fi: m.fi}
	if !eager || m.order.GZ || c.t.crowded() {
		return f
	}
	// Held open, it can be read even if the pod is deleted now.
	_ = c.open(f) // else when its turn comes
	return f
}
