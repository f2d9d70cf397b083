package tail

import "crowsnest/sources"

// The reasons why lines were not read and are lost.
const (
	lossDeleted    = "deleted"         // a file was deleted before it was read to its end
	lossGap        = "gap"             // the file of the position was removed before it was read to its end
	lossGzip       = "gzip"            // a compressed file is damaged
	lossRemoved    = "removed"         // all of a stream was removed before it was read to its end
	lossUnreadable = "unreadable_file" // a file could not be read, and newer ones were not kept waiting
	lossTruncated  = "truncated"       // a file was truncated, and no copy of it is there
)

// miss counts that lines were lost, or may have been: the content of removed bytes
// is unknown.
func (t *Tailer) miss(reason, path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.missed(reason, path)
}

func (t *Tailer) missed(reason, path string) {
	t.errs[reason]++
	l := t.losses[reason]
	t.losses[reason] = sources.Loss{Count: l.Count + 1, At: t.cfg.Clock().UTC(), Path: path}
}

// deleted counts the unread rest of a removed file. For a compressed file its size
// is not known.
func (c *follower) deleted(f *file) {
	n := f.fi.Size() - f.off
	if f.order.GZ {
		n = max(n, 1)
	}
	if n <= 0 {
		return
	}
	c.t.lose(lossDeleted, n)
	c.t.miss(lossDeleted, c.path(f.name))
}

// damaged counts a compressed file that cannot be read to its end.
func (c *follower) damaged(f *file, err error) {
	if f.broken {
		return
	}
	f.broken = true
	c.t.miss(lossGzip, c.path(f.name))
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	c.t.lastErr = err.Error()
}

func (c *follower) path(name string) string { return c.tree.root.abs(c.rel(name)) }

// noFiles is called when a stream has no file. It counts the loss if the stream was
// not read: its position is not at an end, or it was never examined.
func (c *follower) noFiles(removed bool) {
	pos := c.saved
	switch {
	case c.placed || c.ended || pos != nil && pos.Ended || pos == nil && !removed:
		return
	}
	c.placed = true
	c.t.miss(lossRemoved, c.tree.root.abs(c.found.Dir))
	c.skipRest()
}

// skipRest marks the rest behind the position as counted, also for restarts.
func (c *follower) skipRest() {
	if c.saved != nil {
		c.save(position{point: c.saved.point, Old: c.saved.Old, Ended: true, Done: c.saved.Done})
	}
}
