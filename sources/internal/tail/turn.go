package tail

import (
	"errors"
	"os"
	"time"

	"crowsnest/internal/times"
	"crowsnest/sources/internal/content"
	"crowsnest/sources/internal/position"
)

// readCur reads at most one block of the current file, and switches to the next one
// at its end. It reports whether there is more to read.
func (c *follower) readCur(w *worker) bool {
	f := c.cur
	if c.tooLongAway() {
		c.deleted(f)
		return c.leave(w)
	}
	if f.finished || f.idle() {
		return c.atEnd(w)
	}
	if f.rewritten() {
		c.truncated()
		return true
	}
	before := f.fi
	data, end, err := c.read(f, w)
	if c.flushed > 0 && err == nil && int64(len(data)) > f.rest && c.mayRewind() {
		c.rewind()
		return true
	}
	switch {
	case errors.Is(err, errChanged):
		c.truncated()
		return true
	case err != nil && f.gz != nil:
		c.damaged(f, err)
		end = true // its rest cannot be read
	case err != nil:
		c.fail("read", err)
		c.passOverCur()
		return false
	}
	c.feed(f, data)
	c.flushOldParts()
	if !end {
		c.progress()
		return true
	}
	f.quiet = before
	return c.atEnd(w)
}

// rewind returns to before the flushed parts, so that they are matched together with
// their end.
func (c *follower) rewind() {
	p := &c.parts
	if p.f != c.cur || p.f.gz != nil {
		c.closeAll()
		c.gen, p.f = 0, nil
		return
	}
	switch err := p.f.at(p.off); {
	case errors.Is(err, errChanged):
		c.truncated()
	case err != nil:
		c.fail("read", err)
	}
}

// readOld reads what was appended to the rotated file before cur.
func (c *follower) readOld(w *worker) bool {
	f := c.old
	if f == nil {
		return false
	}
	if f.f == nil || !c.stat(f) {
		c.closeOld()
		return false
	}
	if f.fi.Size() > f.off+f.rest {
		data, end, err := c.read(f, w)
		if err != nil {
			if isIO(err) {
				c.miss(lossUnreadable, c.path(f.name))
			}
			c.closeOld()
			return false
		}
		c.feed(f, data)
		c.oldUntil = c.now.Add(linger)
		return !end
	}
	if !c.now.Before(c.oldUntil) {
		c.finishLine(f, w)
		c.closeOld()
	}
	return false
}

func (c *follower) closeOld() {
	c.close(c.old)
	c.old = nil
	if c.saved != nil {
		c.save(position.Stream{Point: c.saved.Point, Ended: c.saved.Ended, Done: c.saved.Done})
	}
}

// atEnd is called when cur was read to its end, for now or for good.
func (c *follower) atEnd(w *worker) bool {
	f := c.cur
	if len(c.next) > 0 {
		if !c.settled {
			return true
		}
		if c.mayLeave() {
			return c.leave(w)
		}
	} else if c.quietAway() {
		return c.leave(w)
	}
	if f.gz != nil { // a compressed file does not grow, and decompressors are few
		c.finishLine(f, w)
		f.finished = true
		c.close(f)
	}
	if c.now.Sub(c.moved) >= idleAfter && !f.shown {
		c.showLine(f, w)
	}
	c.flushOldParts()
	if c.nothingNext() {
		c.advanceTo(c.polled)
	}
	c.maybeCloseIdle()
	return false
}

// quietAway reports whether cur was removed, and nothing was written to it for a while.
func (c *follower) quietAway() bool {
	return !c.away.IsZero() && c.now.Sub(times.Later(c.away, c.moved)) >= awayAfter
}

// mayLeave decides whether cur gets no more bytes. The runtime creates the new file
// before it releases the old one, so the newest file but one is kept open for a
// moment; older files were released long ago.
func (c *follower) mayLeave() bool {
	n := c.next[0]
	if len(c.next) > 1 || n.order.Rotated != "" || c.quietAway() {
		return true
	}
	if n.order.Instance == c.cur.order.Instance && c.nothingNext() {
		return false // the next file is empty, and the position stays where the lines are
	}
	if !c.cur.fresh(c.now) {
		return true
	}
	if c.nextSince.IsZero() {
		c.nextSince = c.now
	}
	return c.now.Sub(c.nextSince) >= grace
}

// leave switches from cur to the next file, if there is one.
func (c *follower) leave(w *worker) bool {
	f := c.cur
	c.finishLine(f, w)
	c.nextSince, c.away = time.Time{}, time.Time{}
	if len(c.next) == 0 || c.next[0].order.Instance != f.order.Instance {
		// What a container left unfinished is not completed by the next one.
		c.flush()
		c.flushed = 0
	}
	if f.id.N > 0 {
		c.remember(position.File{ID: f.id, Size: f.off})
	}
	c.ended = true
	if f.id.First != 0 {
		c.prevFirst = f.id.First
	}
	if s := c.saved; s != nil && s.Sum == f.id.Sum && s.Off == f.off {
		c.end()
	}
	if c.old != nil {
		c.finishLine(c.old, w)
		c.close(c.old)
		c.old = nil
	}
	if len(c.next) > 0 && f.f != nil && f.fresh(c.now) {
		c.old, c.oldUntil = f, c.now.Add(linger)
	} else {
		c.close(f)
	}
	c.goOn()
	if c.cur == nil {
		c.gen, c.since = 0, f.fi.ModTime()
	}
	return c.cur != nil
}

// truncated is called when the bytes before the position changed. If the file was
// copied before, the copy has the rest; else the file is read from its start.
func (c *follower) truncated() {
	f := c.cur
	p := f.point(f.off)
	if f.long != nil {
		p.Off = f.long.start
	}
	if l, err := c.tree.dirs.Get(c.dir, c.found.Dir, c.now); err == nil {
		if ms, err := c.membersOf(l.Entries); err == nil {
			if i, err := c.locate(ms, p); err == nil && i >= 0 && !os.SameFile(ms[i].fi, f.fi) {
				if cp, err := c.openMember(ms[i], p.Off); err == nil {
					c.close(f)
					c.cur = cp
					c.follow(ms[i+1:])
					return
				}
			}
		}
	}
	c.miss(lossTruncated, c.path(f.name))
	f.id = content.ID{}
	_ = f.at(0) // cannot fail
	f.learn()
}
