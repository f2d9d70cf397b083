package tail

import (
	"errors"
	"os"
	"time"

	"crowsnest/internal/times"
	"crowsnest/sources/internal/content"
	"crowsnest/sources/internal/position"
)

// readCur reads at most one block of the current file. At the end of the file it switches to
// the next file. It reports whether there is more to read.
func (c *follower) readCur(w *worker) bool {
	f := c.cur
	if c.tooLongAway() {
		c.countDeleted(f)
		return c.switchFile(w)
	}
	if f.finished || f.isIdle() {
		return c.atEnd(w)
	}
	if f.isRewritten() {
		c.handleTruncation()
		return true
	}
	before := f.fi
	data, end, err := c.read(f, w)
	if c.flushed > 0 && err == nil && int64(len(data)) > f.rest && c.mayRewind() {
		c.rewindFlushed()
		return true
	}
	switch {
	case errors.Is(err, errChanged):
		c.handleTruncation()
		return true
	case err != nil && f.gz != nil:
		c.countDamaged(f, err)
		end = true // the rest of the file cannot be read
	case err != nil:
		c.recordTurnError("read", err)
		c.passOverCur()
		return false
	}
	c.feed(f, data)
	c.flushOldParts()
	if !end {
		c.advanceByLines()
		return true
	}
	f.quiet = before
	return c.atEnd(w)
}

// rewindFlushed moves back to before the flushed parts of a line, so that they are matched
// together with the line's end.
func (c *follower) rewindFlushed() {
	p := &c.parts
	if p.f != c.cur || p.f.gz != nil {
		c.closeAll()
		c.gen, p.f = 0, nil
		return
	}
	switch err := p.f.seek(p.offset); {
	case errors.Is(err, errChanged):
		c.handleTruncation()
	case err != nil:
		c.recordTurnError("read", err)
	}
}

// readOld reads what was appended to the rotated file before cur.
func (c *follower) readOld(w *worker) bool {
	f := c.old
	if f == nil {
		return false
	}
	if f.f == nil || !c.updateSize(f) {
		c.closeOld()
		return false
	}
	if f.fi.Size() > f.offset+f.rest {
		data, end, err := c.read(f, w)
		if err != nil {
			if isIO(err) {
				c.countLoss(lossUnreadable, c.absolutePath(f.name))
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
		c.replacePosition(position.Stream{Point: c.saved.Point, Ended: c.saved.Ended, Done: c.saved.Done})
	}
}

// atEnd is called when every byte of cur was read. More bytes may be written to cur later.
// atEnd reports whether there is more to read.
func (c *follower) atEnd(w *worker) bool {
	f := c.cur
	if len(c.next) > 0 {
		if !c.settled {
			return true
		}
		if c.mayLeave() {
			return c.switchFile(w)
		}
	} else if c.quietAway() {
		return c.switchFile(w)
	}
	if f.gz != nil { // a compressed file does not grow, and decompressors are scarce
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

// quietAway reports whether cur was removed, and no byte was written to it for awayAfter.
func (c *follower) quietAway() bool {
	return !c.away.IsZero() && c.now.Sub(times.Later(c.away, c.moved)) >= awayAfter
}

// mayLeave reports whether no more bytes will be written to cur. A container runtime creates
// the next file before it closes the old one, so the second newest file is kept for a moment.
// Older files were closed long ago.
func (c *follower) mayLeave() bool {
	n := c.next[0]
	if len(c.next) > 1 || n.order.Rotated != "" || c.quietAway() {
		return true
	}
	if n.order.Instance == c.cur.order.Instance && c.nothingNext() {
		return false // the next file is empty, so the position stays in cur
	}
	if !c.cur.isFresh(c.now) {
		return true
	}
	if c.nextSince.IsZero() {
		c.nextSince = c.now
	}
	return c.now.Sub(c.nextSince) >= grace
}

// switchFile switches from cur to the next file. It reports whether there is one.
func (c *follower) switchFile(w *worker) bool {
	f := c.cur
	c.finishLine(f, w)
	c.nextSince, c.away = time.Time{}, time.Time{}
	if len(c.next) == 0 || c.next[0].order.Instance != f.order.Instance {
		// The log of the next container does not continue an unfinished line of this log.
		c.flushUnfinished()
		c.flushed = 0
	}
	if f.id.N > 0 {
		c.markDone(position.File{ID: f.id, Size: f.offset})
	}
	c.ended = true
	if f.id.First != 0 {
		c.prevFirst = f.id.First
	}
	if s := c.saved; s != nil && s.Sum == f.id.Sum && s.Off == f.offset {
		c.markEnded()
	}
	if c.old != nil {
		c.finishLine(c.old, w)
		c.close(c.old)
		c.old = nil
	}
	if len(c.next) > 0 && f.f != nil && f.isFresh(c.now) {
		c.old, c.oldUntil = f, c.now.Add(linger)
	} else {
		c.close(f)
	}
	c.switchToNext()
	if c.cur == nil {
		c.gen, c.since = 0, f.fi.ModTime()
	}
	return c.cur != nil
}

// handleTruncation is called when the bytes before the position have changed. If the file was
// copied before it was truncated, the copy is read. Otherwise the file is read from its start.
func (c *follower) handleTruncation() {
	f := c.cur
	p := f.pointAt(f.offset)
	if f.long != nil {
		p.Off = f.long.start
	}
	if l, err := c.tree.dirs.Get(c.dir, c.found.Dir, c.now); err == nil {
		if ms, err := c.membersOf(l.Entries); err == nil {
			if i, err := c.findMember(ms, p); err == nil && i >= 0 && !os.SameFile(ms[i].fi, f.fi) {
				if cp, err := c.openMember(ms[i], p.Off); err == nil {
					c.close(f)
					c.cur = cp
					c.setNext(ms[i+1:])
					return
				}
			}
		}
	}
	c.countLoss(lossTruncated, c.absolutePath(f.name))
	f.id = content.ID{}
	_ = f.seek(0) // this cannot fail
	f.completeID()
}
