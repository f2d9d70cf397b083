package tail

import (
	"slices"
	"time"

	"crowsnest/sources/internal/content"
	"crowsnest/sources/internal/position"
)

// place finds the position to continue from: the saved point, or without one a time.
func (c *follower) place(ms []member) error {
	if c.closedIdle != nil && len(ms) > 0 && ms[len(ms)-1].name == c.closedIdle[0].name && c.closedUnchanged() {
		return nil
	}
	live := len(c.closedIdle) == 1
	c.closedIdle, c.away, c.segs = nil, time.Time{}, nil
	c.done = c.done[:0]
	if len(ms) == 0 {
		return nil
	}
	if live { // the log was closed while a program wrote to it, so a deleted pod's later lines are lost
		c.ended = false
	}
	if c.stream == nil {
		c.begin(ms)
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
		c.remember(d)
	}
	i, err := c.locate(ms, saved.Point)
	if err != nil {
		return err
	}
	if i < 0 {
		if c.confirm(); !c.settled {
			return errMoved // the file may only have been renamed meanwhile
		}
		c.placeAfter(ms, saved.Point)
		return nil
	}
	f, err := c.openMember(ms[i], saved.Off)
	if err != nil {
		return err
	}
	c.countDoubtful(func(m member) bool { return ms[i].order.Before(m.order) })
	c.start(f, ms[:i], ms[i+1:])
	if saved.Old != nil {
		c.restoreOld(ms, *saved.Old)
	}
	return nil
}

// begin creates the matcher's stream when the first file is known.
func (c *follower) begin(ms []member) {
	c.stream = c.found.New(c.path(ms[len(ms)-1].name))
	c.update(func() { c.view.Labels = c.stream.Labels() })
}

// placeAfter continues with the files that are newer than the one of the point,
// which was compressed and removed, deleted, or truncated.
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
	// The newest file is read in any case: it is not the one of the point, whatever
	// its first time is.
	if last := len(ms) - 1; i < 0 && ms[last].order.Rotated == "" {
		i = last
	}
	switch {
	case c.ended || c.saved.Ended:
		c.countDoubtful(writtenAfter(c.since))
	case len(c.doubtful) > 0: // most likely it is one of them
		c.countDoubtful(func(member) bool { return true })
		c.end()
	default:
		c.miss(lossGap, c.path(p.Name))
		c.end()
	}
	if i < 0 {
		i = len(ms)
	}
	c.follow(ms[i:])
	c.goOn()
}

// restoreOld continues to read the rotated file before cur.
func (c *follower) restoreOld(ms []member, p position.Point) {
	i, err := c.locate(ms, p)
	if err != nil || i < 0 || ms[i].order.GZ || ms[i].name == c.cur.name {
		return
	}
	if f, err := c.openMember(ms[i], p.Off); err == nil {
		c.old, c.oldUntil = f, c.now.Add(linger)
	}
}

// lookBack starts with the first line that is not older than from. Files
// without times are read from their start, or if end is set from their end.
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
		if err := f.at(off); err != nil {
			c.close(f)
			return &unreadError{ms[start], err}
		}
	}
	f.learn()
	c.start(f, ms[:start], ms[start+1:])
	// Commit this position: after a restart reading continues here, and does not look
	// back from that time.
	c.hand.scan(c.stream, nil, c.commit)
	return nil
}

// noFiles is called when a stream has no file. It counts the loss if the stream was
// not read: its position is not at an end, or it was never examined.
func (c *follower) noFiles(removed bool) {
	pos := c.saved
	if c.placed || c.ended || pos != nil && pos.Ended || pos == nil && !removed {
		return
	}
	c.placed = true
	c.miss(lossRemoved, c.folder)
	c.end()
}

// countDoubtful counts the files that were skipped before the follower had a
// position, if they may hold unread lines.
func (c *follower) countDoubtful(unread func(m member) bool) {
	for _, m := range c.doubtful {
		if unread(m) {
			c.miss(lossUnreadable, c.path(m.name))
		}
	}
	c.doubtful = nil
}

// writtenAfter reports for files that were written to after a time.
func writtenAfter(t time.Time) func(m member) bool {
	return func(m member) bool { return m.fi.ModTime().After(t) }
}
