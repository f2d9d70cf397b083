package tail

import (
	"errors"
	"io/fs"
	"time"
)

// advanceTo records that everything written by t was read.
func (c *follower) advanceTo(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.After(c.bound) {
		c.bound = t
	}
}

// clampBound limits the stream's watermark to the clock, which was set back: how far
// this stream lags is not known until it is read to its end.
func (c *follower) clampBound() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ahead(c.bound, c.turn.now) {
		c.bound = time.Time{}
	}
}

// fail counts an error of this turn.
func (c *follower) fail(reason string, err error) {
	c.t.fail(reason, err)
	if !errors.Is(err, fs.ErrNotExist) { // files come and go
		c.turn.err = err
	}
}

// stall records that the stream is not read, since when and why.
func (c *follower) stall(now time.Time, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stalled.why = why
	if c.stalled.since.IsZero() {
		c.stalled.since = now
	}
}

// publish updates what others can read of the follower.
func (c *follower) publish() {
	if c.turn.err != nil {
		c.stall(c.turn.now, c.turn.err.Error())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turn.err == nil {
		c.stalled.since, c.stalled.why = time.Time{}, ""
	}
	if c.stream != nil {
		c.count = c.stream.Counters() // also of what was flushed after the last block
	}
	c.holds = c.cur != nil || c.old != nil || len(c.next) > 0
	f := c.cur
	if f == nil && len(c.closedIdle) > 0 {
		f = c.closedIdle[len(c.closedIdle)-1]
	}
	if f == nil {
		c.named, c.view.Path = "", c.tree.root.abs(c.found.Dir)
		return
	}
	if c.named != f.name {
		c.named, c.view.Path = f.name, c.tree.root.abs(c.rel(f.name))
	}
	c.view.Offset = f.off
	if !f.order.GZ {
		c.view.Size = max(f.fi.Size(), f.off+f.rest)
	}
	for _, n := range c.next {
		if !n.order.GZ {
			c.view.Size += n.fi.Size()
		}
	}
}
