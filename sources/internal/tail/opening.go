package tail

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

// open opens a file of the follower, and a gunzip for it if it is compressed.
// errBusy: none is free; the follower is woken when one is.
func (c *follower) open(f *file) error {
	if f.f == nil {
		h, fi, err := c.t.openFile(c.turn.dir, c.rel(f.name))
		if err != nil {
			return err
		}
		if !os.SameFile(fi, f.fi) || !f.looksLike(h) {
			c.t.closeFile(h)
			return errMoved
		}
		f.f, f.fi = h, fi
	}
	if f.order.GZ && f.gz == nil {
		if f.gz = c.t.gunzips.take(c); f.gz == nil {
			return errBusy
		}
		err := f.at(f.off)
		if errors.Is(err, errChanged) { // it starts alike and is another file
			c.t.miss(lossGap, c.path(f.name))
			err = f.at(0)
		}
		return err
	}
	return nil
}

var (
	errBusy  = errors.New("all decompressors are in use")
	errMoved = errors.New("another file has its name now")
)

// openCur makes sure that cur can be read. A file that is not where it was is
// looked for at the next look, and skipped if it is gone.
func (c *follower) openCur() bool {
	f := c.cur
	if f.finished || f.f != nil && (!f.order.GZ || f.gz != nil) {
		return true
	}
	err := c.open(f)
	switch {
	case err == nil:
		return true
	case errors.Is(err, errBusy):
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errMoved):
		c.gen = 0
	case f.gz != nil: // damaged beyond reading: what is behind it must not wait
		c.damaged(f, err)
		c.broken = grown(c.broken, f.name, f.fi)
		c.skipCur()
	default:
		c.fail("open", err)
		c.passOverCur()
	}
	return false
}

// skipCur gives cur up and goes on with what is behind it.
func (c *follower) skipCur() {
	f := c.cur
	c.close(f)
	if f.id.n > 0 {
		c.remember(doneFile{f.id, f.off})
	}
	c.away, c.gen = time.Time{}, 0
	c.cur = nil
	if len(c.next) > 0 {
		c.cur, c.next = c.next[0], c.next[1:]
	}
}

func (c *follower) close(f *file) {
	if f == nil {
		return
	}
	if f.gz != nil {
		if woken := c.t.gunzips.give(f.gz); woken != nil {
			c.t.queue.add(woken)
		}
		f.gz = nil
	}
	if f.f != nil {
		c.t.closeFile(f.f)
		f.f = nil
	}
	f.win = nil
}

// closeAll closes every file; the follower can find a new position.
func (c *follower) closeAll() {
	c.close(c.cur)
	c.close(c.old)
	for _, f := range c.next {
		c.close(f)
	}
	c.cur, c.old, c.next, c.gen = nil, nil, nil, 0
}
