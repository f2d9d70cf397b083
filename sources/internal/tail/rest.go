package tail

import (
	"io/fs"
	"os"
	"time"
)

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
	} else if !c.away.IsZero() && c.turn.now.Sub(later(c.away, c.moved)) >= awayAfter {
		return c.leave(w)
	}
	if f.gz != nil { // it does not grow, and decompressors are few
		c.finishLine(f, w)
		f.finished = true
		c.close(f)
	}
	if c.turn.now.Sub(c.moved) >= idleAfter && !f.shown {
		c.showLine(w)
	}
	c.flushOldParts()
	if c.nothingNext() {
		c.advanceTo(c.looked)
	}
	c.maybeCloseIdle()
	return false
}

// nothingNext reports whether nothing was written to a file after cur.
func (c *follower) nothingNext() bool {
	switch {
	case len(c.next) == 0:
		return true
	case len(c.next) > 1 || c.next[0].order.GZ:
		return false
	}
	n := c.next[0]
	if n.f != nil {
		return c.stat(n) && n.fi.Size() == 0
	}
	fi, err := c.tree.root.lstat(c.rel(n.name))
	if err == nil {
		n.fi = fi
	}
	return err == nil && fi.Size() == 0
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// mayLeave decides whether cur gets no more bytes. The runtime creates the new file
// before it releases the old one, so the newest file but one is kept open for a
// moment; older files were released long ago.
func (c *follower) mayLeave() bool {
	n := c.next[0]
	if len(c.next) > 1 || n.order.Rotated != "" {
		return true
	}
	now := c.turn.now
	if !c.away.IsZero() && now.Sub(later(c.away, c.moved)) >= awayAfter {
		return true
	}
	if n.order.Instance == c.cur.order.Instance && c.nothingNext() {
		return false // nothing to hurry for, and the position stays where lines are
	}
	if !c.cur.fresh(now) {
		return true
	}
	if c.nextSince.IsZero() {
		c.nextSince = now
	}
	return now.Sub(c.nextSince) >= grace
}

// leave switches from cur to the next file, if there is one.
func (c *follower) leave(w *worker) bool {
	f := c.cur
	c.finishLine(f, w)
	c.nextSince, c.away = time.Time{}, time.Time{}
	if len(c.next) == 0 || c.next[0].order.Instance != f.order.Instance {
		// What a container left unfinished is not completed by the next one.
		c.t.hand.flush(c.stream)
		c.segs, c.flushed = nil, 0
	}
	if f.id.n > 0 {
		c.remember(doneFile{f.id, f.off})
	}
	c.ended = true
	if f.id.first != 0 {
		c.prevFirst = f.id.first
	}
	if s := c.saved; s != nil && s.Head == f.id.sum && s.Off == f.off {
		c.save(position{point: s.point, Old: s.Old, Ended: true, Done: s.Done})
	}
	if c.old != nil {
		c.finishLine(c.old, w)
		c.close(c.old)
		c.old = nil
	}
	if len(c.next) == 0 {
		c.close(f)
		c.cur, c.gen, c.since = nil, 0, f.fi.ModTime()
		return false
	}
	if f.f != nil && f.fresh(c.turn.now) {
		c.old, c.oldUntil = f, c.turn.now.Add(linger)
	} else {
		c.close(f)
	}
	c.cur, c.next = c.next[0], c.next[1:]
	return true
}

// tooLongAway reports whether a deleted file has been held for the longest time that
// it may pin the disk.
func (c *follower) tooLongAway() bool {
	return !c.away.IsZero() && c.turn.now.Sub(c.away) >= maxAway
}

// truncated is called when the bytes before the position changed. If the file was
// copied before, the copy has the rest; else the file is read from its start.
func (c *follower) truncated() {
	f := c.cur
	p := f.point(f.off)
	if f.long != nil {
		p.Off = f.long.start
	}
	if l, err := c.tree.dirs.get(c.turn.dir, c.found.Dir, c.turn.now); err == nil {
		if ms, err := c.members(l.entries); err == nil {
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
	c.t.miss(lossTruncated, c.path(f.name))
	f.id = ident{}
	_ = f.at(0) // cannot fail
	f.learn()
}

// maybeCloseIdle closes an idle file to save its descriptor. If too many are open
// even so, one that is written to is closed as well, until its next turn.
func (c *follower) maybeCloseIdle() {
	f := c.cur
	pressed := c.t.crowded() && c.stream.Unfinished() == 0
	if !c.closeIdle.Load() && !pressed || f.order.GZ && !f.finished || !c.nothingNext() || c.old != nil || !c.away.IsZero() ||
		f.long != nil || f.rest > 0 && !f.shown || !pressed && c.turn.now.Sub(c.moved) < idleAfter {
		return
	}
	c.closeIdle.Store(false)
	c.closedIdle, c.ended, c.since = append(c.next, f), f.rest == 0, f.fi.ModTime()
	for _, p := range c.closedIdle {
		c.close(p)
	}
	c.cur, c.next = nil, nil
}

// progress advances the watermark by the times of the lines while a backlog is read:
// the lines of a file are in order within the lateness that rules allow.
func (c *follower) progress() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.view.LastRead; !c.lineTime.IsZero() && c.lineTime.After(c.bound) && c.lineTime.Before(t) {
		c.bound = c.lineTime
	}
}

// reached records the time of the newest line that was read.
func (c *follower) reached(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lineTime = t
	c.view.LastRead = c.turn.now
}

// take is the commit of every block: it runs in the same cut as the block's
// hits.
func (c *follower) take() {
	u := int64(c.stream.Unfinished())
	pos := c.positionOf(u)
	n := c.stream.Counters()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.saved = &pos
	c.count = n
	c.ended = false
}

// save replaces the position by one that says the same of what was taken.
func (c *follower) save(p position) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.saved = &p
}

// positionOf returns the position before the last u bytes that were fed.
func (c *follower) positionOf(u int64) position {
	if u > 0 {
		for i := len(c.segs) - 1; i >= 0; i-- {
			if s := c.segs[i]; s.fed <= c.fed-u {
				c.segs = c.segs[i:]
				off := s.off + c.fed - u - s.fed
				if c.parts.head != s.f.id.sum || c.parts.off != off {
					c.parts.head, c.parts.off, c.parts.since, c.parts.again = s.f.id.sum, off, c.turn.now, 0
				}
				c.parts.f = s.f
				return c.withOld(position{point: s.f.point(off)}, s.f)
			}
		}
	}
	c.segs = c.segs[:0]
	c.parts.f = nil
	if c.cur.off > 0 || c.saved == nil || c.saved.HeadN == 0 {
		return c.withOld(position{point: c.cur.point(c.cur.off)}, c.cur)
	}
	if c.old != nil { // of cur nothing was read yet
		return position{point: c.old.point(c.old.off), Done: c.laterDone(c.old)}
	}
	return *c.saved
}

func (c *follower) withOld(p position, in *file) position {
	p.Done = c.laterDone(in)
	if c.old != nil && in == c.cur {
		o := c.old.point(c.old.off)
		p.Old = &o
	}
	return p
}

// openFile opens a file and counts the descriptor.
func (t *Tailer) openFile(d *folder, rel string) (*os.File, fs.FileInfo, error) {
	f, fi, err := d.open(rel)
	if err != nil {
		if exhausted(err) {
			t.short(err)
		}
		return nil, nil, err
	}
	if err := t.oneName(f, fi); err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	t.files.Add(1)
	return f, fi, nil
}

func (t *Tailer) closeFile(f *os.File) {
	_ = f.Close()
	t.files.Add(-1)
}
