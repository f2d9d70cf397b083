package tail

import (
	"bytes"
	"errors"
)

// minNUL is how many NUL bytes in a row are a hole left by a crash, and not content.
const minNUL = 16

// read reads a block of the file.
func (c *follower) read(f *file, w *worker) (data []byte, end bool, err error) {
	if err := c.tree.root.try("read", c.rel(f.name)); err != nil {
		return nil, false, err
	}
	return f.read(w.space())
}

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
	if c.flushed > 0 && err == nil && int64(len(data)) > f.rest {
		if c.rewind() {
			return true
		}
	}
	switch {
	case errors.Is(err, errChanged):
		c.truncated()
		return true
	case err != nil && f.gz != nil:
		c.damaged(f, err)
		end = true // the rest of it cannot be had
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
				c.t.miss(lossUnreadable, c.path(f.name))
			}
			c.closeOld()
			return false
		}
		c.feed(f, data)
		c.oldUntil = c.turn.now.Add(linger)
		return !end
	}
	if c.turn.now.Before(c.oldUntil) {
		return false
	}
	c.finishLine(f, w)
	c.closeOld()
	return false
}

func (c *follower) closeOld() {
	c.close(c.old)
	c.old = nil
	if c.saved != nil {
		c.save(position{point: c.saved.point, Ended: c.saved.Ended, Done: c.saved.Done})
	}
}

// feed passes the whole lines in data to the stream. The rest is an unfinished line,
// or nothing.
func (c *follower) feed(f *file, data []byte) {
	full := len(data) == blockSize
	rest, was := f.rest, f.off
	for len(data) > 0 {
		n := c.step(f, data, full)
		if n == 0 {
			break
		}
		full = false
		data = data[n:]
	}
	f.rest = int64(len(data))
	if f.off != was || f.rest != rest {
		c.moved = c.turn.now
		f.shown = false
	}
}

// step consumes the first thing in data and returns its length: 0 if it must wait
// for more.
func (c *follower) step(f *file, data []byte, full bool) int {
	if n := leadingNUL(data); n >= minNUL || n > 0 && f.nul {
		f.nul = true
		f.advance(n)
		c.t.lose("nul", int64(n))
		return n
	}
	f.nul = false
	if f.torn {
		return c.dropTorn(f, data)
	}
	if f.long != nil {
		return c.goOnLong(f, data)
	}
	hole := findHole(data)
	whole := data
	if hole >= 0 {
		whole = data[:hole]
	}
	if n := bytes.LastIndexByte(whole, '\n') + 1; n > 0 {
		c.scan(f, data[:n], f.off, n)
		return n
	}
	if hole >= 0 { // a line that lost its end in the hole
		c.scan(f, data[:hole], f.off, hole)
		f.nul, f.torn = true, c.t.cfg.Framed
		return hole
	}
	if !full {
		return 0
	}
	f.long = &longLine{start: f.off, size: int64(len(data)), kept: bytes.Clone(data[:keepSize])}
	f.advance(len(data))
	return len(data)
}

// goOnLong skips to the end of a line that does not fit a block. It passes on the
// line's start when it finds the end, and moves the position only then.
func (c *follower) goOnLong(f *file, data []byte) int {
	n := bytes.IndexByte(data, '\n') + 1
	if n == 0 {
		f.long.size += int64(len(data))
		f.advance(len(data))
		return len(data)
	}
	f.long.size += int64(n)
	c.endLong(f, n)
	return n
}

func (c *follower) endLong(f *file, n int) {
	l := f.long
	f.long = nil
	c.t.lose("long_line", l.size-int64(len(l.kept)))
	c.scan(f, l.kept, l.start, n)
}

// scan passes a block of lines to the stream; the first one starts at start in the
// file. It consumes n bytes of what was read.
func (c *follower) scan(f *file, block []byte, start int64, n int) {
	c.segs = append(c.segs, segment{fed: c.fed, f: f, off: start})
	c.fed += int64(len(block))
	f.advance(n)
	f.learnFromRead()
	if t, ok := lastTime(block); ok {
		c.reached(t)
	}
	c.stream.Place(start)
	c.t.hand.scan(c.stream, block, c.commit)
}

// finishLine passes on a last line that will never be completed.
func (c *follower) finishLine(f *file, w *worker) {
	if f.long != nil {
		c.endLong(f, 0)
	}
	if f.rest == 0 || f.f == nil {
		return
	}
	data, _, err := c.read(f, w)
	if err != nil && f.gz == nil || len(data) == 0 {
		return
	}
	c.feed(f, data) // more may have come
	if f.rest == 0 || f.long != nil {
		return
	}
	rest := f.win[f.pos:]
	c.scan(f, rest, f.off, len(rest))
}

// showLine matches an unfinished line as it is and does not move the position: once
// the line is complete, it is matched as a whole.
func (c *follower) showLine(w *worker) {
	f := c.cur
	block, start := []byte(nil), f.off
	if f.long != nil {
		block, start = f.long.kept, f.long.start
	} else if f.rest > 0 {
		data, _, err := c.read(f, w)
		if err != nil || int64(len(data)) != f.rest {
			return // it continued: the next turn reads it
		}
		block = data
	}
	f.shown = true
	if block == nil {
		return
	}
	if u := int64(c.stream.Unfinished()); u > 0 {
		c.flushed = u
	}
	c.stream.Place(start)
	c.t.hand.scan(c.stream, block, func() {})
	c.t.hand.flush(c.stream)
	c.segs = nil
}

// flushOldParts flushes parts of a line whose end does not come. The position stays
// before them until more comes.
func (c *follower) flushOldParts() {
	u := int64(c.stream.Unfinished())
	if u == 0 || c.parts.f == nil || c.turn.now.Sub(c.parts.since) < idleAfter {
		return
	}
	c.flushed = u
	c.t.hand.flush(c.stream)
	c.segs = nil
}

// rewind returns to before the flushed parts, so that they are matched together with
// their end. It skips parts that are far back or were read several times.
func (c *follower) rewind() bool {
	u, p := c.flushed, &c.parts
	c.flushed = 0
	if p.f == nil || u > maxRewind || p.again >= maxRewinds {
		return false
	}
	p.again++
	p.since = c.turn.now
	if p.f == c.cur && p.f.gz == nil {
		switch err := p.f.at(p.off); {
		case errors.Is(err, errChanged):
			c.truncated()
		case err != nil:
			c.fail("read", err)
		}
		return true
	}
	again := *p
	c.closeAll()
	c.parts = again
	c.parts.f = nil
	return true
}

// dropTorn skips the rest of a line behind a hole in its middle. The rest does not
// start where the runtime started a line: an author of NUL bytes could otherwise
// choose its time and stream.
func (c *follower) dropTorn(f *file, data []byte) int {
	n := bytes.IndexByte(data, '\n') + 1
	if f.torn = n == 0; f.torn {
		n = len(data)
	}
	f.advance(n)
	c.t.lose("nul", int64(n))
	return n
}

func leadingNUL(b []byte) int {
	if b[0] != 0 {
		return 0
	}
	return len(b) - len(bytes.TrimLeft(b, "\x00"))
}

// findHole returns where a run of at least minNUL NUL bytes starts, or -1.
func findHole(b []byte) int {
	for at := 0; ; {
		i := bytes.IndexByte(b[at:], 0)
		if i < 0 {
			return -1
		}
		at += i
		n := leadingNUL(b[at:])
		if n >= minNUL {
			return at
		}
		at += n
	}
}
