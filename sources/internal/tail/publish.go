package tail

import (
	"errors"
	"io/fs"
	"time"
)

// prove says that everything that was written by t was read.
func (c *chain) prove(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.After(c.bound) {
		c.bound = t
	}
}

// unprove takes back what is proved by a time that is still to come: the clock
// was set back, and how far this stream is behind is not known until it is read
// to its end.
func (c *chain) unprove() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ahead(c.bound, c.turn.now) {
		c.bound = time.Time{}
	}
}

// fail counts an error and notes that this turn had it.
func (c *chain) fail(reason string, err error) {
	c.t.fail(reason, err)
	if !errors.Is(err, fs.ErrNotExist) { // files come and go
		c.turn.err = err
	}
}

// stall notes that the chain is not read, since when and why.
func (c *chain) stall(now time.Time, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stalled.why = why
	if c.stalled.since.IsZero() {
		c.stalled.since = now
	}
}

// publish updates what others see of the chain.
func (c *chain) publish() {
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
	if f == nil && len(c.parked) > 0 {
		f = c.parked[len(c.parked)-1]
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
