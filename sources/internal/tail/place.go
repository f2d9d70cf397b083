package tail

import (
	"errors"
	"io/fs"
	"slices"
	"time"
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
	if live { // it was closed while it was written to: if it is gone, so is what came since
		c.ended = false
	}
	if c.stream == nil {
		c.begin(ms)
	}
	saved := c.saved
	if saved == nil || saved.HeadN == 0 {
		from := c.t.lookBackTo()
		if err := c.lookBack(ms, from, saved == nil && c.fromEnd); err != nil {
			return err
		}
		c.countDoubtful(writtenAfter(from))
		return nil
	}
	c.prevFirst = saved.First
	for _, d := range saved.Done {
		c.remember(d.file())
	}
	i, err := c.locate(ms, saved.point)
	if err != nil {
		return err
	}
	if i < 0 {
		if c.confirm(); !c.settled {
			return errMoved // it may only have been renamed meanwhile
		}
		c.placeAfter(ms, saved.point)
		return nil
	}
	f, err := c.openMember(ms[i], saved.Off)
	if err != nil {
		return err
	}
	c.cur = f
	c.countDoubtful(afterPoint(ms[i].order))
	c.rememberAll(ms[:i])
	c.follow(ms[i+1:])
	if saved.Old != nil {
		c.restoreOld(ms, *saved.Old)
	}
	return nil
}

// begin creates the matcher's stream when the first file is known.
func (c *follower) begin(ms []member) {
	c.stream = c.found.New(c.tree.root.abs(c.rel(ms[len(ms)-1].name)))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.view.Labels = c.stream.Labels()
}

// openMember opens a file to be read from off on.
func (c *follower) openMember(m member, off int64) (*file, error) {
	f := &file{name: m.name, order: m.order, id: identOf(m.head.bytes), fi: m.fi, off: off}
	err := c.open(f)
	if err == nil && f.gz == nil {
		err = f.at(off)
	}
	if err == nil || errors.Is(err, errBusy) {
		return f, nil // if busy, it is opened when a decompressor is free
	}
	damaged := f.gz != nil
	c.close(f)
	if damaged {
		return f, nil // it is skipped when it is read
	}
	return f, &unreadError{m, err}
}

// locate returns which file the point is in, -1 if none.
func (c *follower) locate(ms []member, p point) (int, error) {
	order := make([]int, 0, len(ms))
	for i := len(ms) - 1; i >= 0; i-- { // most likely it has its name still
		if ms[i].name == p.Name {
			order = append([]int{i}, order...)
		} else {
			order = append(order, i)
		}
	}
	for _, i := range order {
		m := ms[i]
		if !p.ident().is(m.head.bytes) {
			continue
		}
		if m.order.GZ {
			return i, nil // the bytes before the point are compared when it is opened
		}
		f, fi, err := c.t.openFile(c.turn.dir, c.rel(m.name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return -1, &unreadError{m, err}
		}
		ok, err := p.fits(f, fi.Size())
		c.t.closeFile(f)
		if err != nil {
			return -1, &unreadError{m, err}
		}
		if ok {
			return i, nil
		}
	}
	return -1, nil
}

// placeAfter continues with the files that are newer than the one of the point,
// which was compressed and removed, deleted, or truncated.
func (c *follower) placeAfter(ms []member, p point) {
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
	var later []member
	if i >= 0 {
		later = ms[i:]
	}
	// The file that is written to is read in any case: it is not the one that
	// was read, whatever the time in it says.
	if last := len(ms) - 1; i < 0 && ms[last].order.Rotated == "" {
		later = ms[last:]
	}
	switch ended := c.ended || c.saved.Ended; {
	case ended:
		c.countDoubtful(writtenAfter(c.since))
	case len(c.doubtful) > 0: // most likely it is one of them
		c.countDoubtful(func(member) bool { return true })
		c.skipRest()
	default:
		c.t.miss(lossGap, c.path(p.Name))
		c.skipRest()
	}
	c.follow(later)
	if len(c.next) > 0 {
		c.cur, c.next = c.next[0], c.next[1:]
	}
}

func (c *follower) restoreOld(ms []member, p point) {
	i, err := c.locate(ms, p)
	if err != nil || i < 0 || ms[i].order.GZ || ms[i].name == c.cur.name {
		return
	}
	if f, err := c.openMember(ms[i], p.Off); err == nil {
		c.old, c.oldUntil = f, c.turn.now.Add(linger)
	}
}
