package tail

import (
	"slices"
	"time"

	"crowsnest/sources/internal/content"
	"crowsnest/sources/internal/position"
)

// placeStart finds the position from which to continue. This is the saved position. Without a
// saved position it depends on a time.
func (c *follower) placeStart(ms []member) error {
	if c.closedIdle != nil && len(ms) > 0 && ms[len(ms)-1].name == c.closedIdle[0].name && c.closedUnchanged() {
		return nil
	}
	live := len(c.closedIdle) == 1
	c.closedIdle, c.away, c.segs = nil, time.Time{}, nil
	c.done = c.done[:0]
	if len(ms) == 0 {
		return nil
	}
	// The file was closed only to save its descriptor, so later lines exist. If the pod is
	// deleted, they are lost.
	if live {
		c.ended = false
	}
	if c.stream == nil {
		c.createStream(ms)
	}
	saved := c.saved
	if saved == nil || saved.N == 0 {
		from := c.lookBackTo(c.readUpTo())
		if err := c.lookBack(ms, from, saved == nil && c.fromEnd); err != nil {
			return err
		}
		c.countDoubtful(writtenAfter(from))
		return nil
	}
	c.prevFirst = saved.First
	for _, d := range saved.Done {
		c.markDone(d)
	}
	i, err := c.findMember(ms, saved.Point)
	if err != nil {
		return err
	}
	if i < 0 {
		if c.confirmNames(); !c.settled {
			return errMoved // the file may only have been renamed in the meantime
		}
		c.placeAfter(ms, saved.Point)
		return nil
	}
	f, err := c.openMember(ms[i], saved.Off)
	if err != nil {
		return err
	}
	c.countDoubtful(func(m member) bool { return ms[i].order.Before(m.order) })
	c.startWith(f, ms[:i], ms[i+1:])
	if saved.Old != nil {
		c.restoreOld(ms, *saved.Old)
	}
	return nil
}

// createStream creates the matcher's stream as soon as the first file is known.
func (c *follower) createStream(ms []member) {
	c.stream = c.found.New(c.absolutePath(ms[len(ms)-1].name))
	c.update(func() { c.view.Labels = c.stream.Labels() })
}

// placeAfter continues with the first file that is newer than the file of the position p. The
// file of p no longer exists, because it was removed or truncated.
func (c *follower) placeAfter(ms []member, p position.Point) {
	at, _ := c.found.Order(p.Name)
	i := slices.IndexFunc(ms, func(m member) bool {
		switch {
		case m.order.Instance != at.Instance:
			return m.order.Instance > at.Instance
		case m.head.first != 0 && p.First != 0:
			return m.head.first > p.First
		}
		return m.order.Rotated == "" || p.First == 0 && m.fi.ModTime().After(c.since)
	})
	// The newest file is read in any case. It is not the file of the position, even if its
	// time suggests that.
	if last := len(ms) - 1; i < 0 && ms[last].order.Rotated == "" {
		i = last
	}
	switch {
	case c.ended || c.saved.Ended:
		c.countDoubtful(writtenAfter(c.since))
	case len(c.doubtful) > 0: // the file of the position is probably one of the doubtful files
		c.countDoubtful(func(member) bool { return true })
		c.markEnded()
	default:
		c.countLoss(lossGap, c.absolutePath(p.Name))
		c.markEnded()
	}
	if i < 0 {
		i = len(ms)
	}
	c.setNext(ms[i:])
	c.switchToNext()
}

// restoreOld continues to read the rotated file before cur from the point p.
func (c *follower) restoreOld(ms []member, p position.Point) {
	i, err := c.findMember(ms, p)
	if err != nil || i < 0 || ms[i].order.GZ || ms[i].name == c.cur.name {
		return
	}
	if f, err := c.openMember(ms[i], p.Off); err == nil {
		c.old, c.oldUntil = f, c.now.Add(linger)
	}
}

// lookBack starts with the first line that is not older than from. If no file has times, it
// starts at the start of a file. If end is set, it starts at the end of the newest file
// instead.
func (c *follower) lookBack(ms []member, from time.Time, end bool) error {
	start, off, timed := 0, int64(0), false
	for i := len(ms) - 1; i >= 0 && !c.newest; i-- {
		if first := ms[i].head.first; first != 0 {
			timed = true
			if first <= from.UnixNano() {
				start = i
				break
			}
		}
	}
	if c.newest {
		start = len(ms) - 1
	} else if !timed {
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
			off = content.Search(f.f, f.fi.Size(), from)
		case !timed && end:
			off = content.LineStart(f.f, f.fi.Size())
		}
		if err := f.seek(off); err != nil {
			c.close(f)
			return &unreadError{ms[start], err}
		}
	}
	f.completeID()
	c.startWith(f, ms[:start], ms[start+1:])
	// Commit this position, so that a restart continues here instead of looking back again.
	c.hand.scan(c.stream, nil, c.commit)
	return nil
}

// noFiles is called when a stream has no files. It counts a loss if the position is not at the
// end of a file, or if no file was ever examined.
func (c *follower) noFiles(removed bool) {
	pos := c.saved
	if c.placed || c.ended || pos != nil && pos.Ended || pos == nil && !removed {
		return
	}
	c.placed = true
	c.countLoss(lossRemoved, c.folder)
	c.markEnded()
}

// countDoubtful counts the doubtful files that may hold unread lines.
func (c *follower) countDoubtful(unread func(m member) bool) {
	for _, m := range c.doubtful {
		if unread(m) {
			c.countLoss(lossUnreadable, c.absolutePath(m.name))
		}
	}
	c.doubtful = nil
}

// writtenAfter returns a function that reports whether a file was written to after t.
func writtenAfter(t time.Time) func(m member) bool {
	return func(m member) bool { return m.fi.ModTime().After(t) }
}
