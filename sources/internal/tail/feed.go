package tail

import (
	"bytes"
	"errors"
)

// minNUL is how many NUL bytes in a row are a hole that a crash left in the
// file, and not content.
const minNUL = 16

// read reads a block of the file.
func (c *chain) read(f *file, w *worker) (data []byte, end bool, err error) {
	if err := c.tree.root.try("read", c.rel(f.name)); err != nil {
		return nil, false, err
	}
	return f.read(w.space())
}

// readCur reads at most one block of the file that is read now, and changes
// over to the next one at its end. It reports whether there is more to read.
func (c *chain) readCur(w *worker) bool {
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

// readOld reads what was still written to the rotated file before cur.
func (c *chain) readOld(w *worker) bool {
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

func (c *chain) closeOld() {
	c.close(c.old)
	c.old = nil
	if c.saved != nil {
		c.save(position{point: c.saved.point, Ended: c.saved.Ended, Done: c.saved.Done})
	}
}

// feed hands the whole lines in data to the stream. What remains at the end is
// a line without its end, or nothing.
func (c *chain) feed(f *file, data []byte) {
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

// step takes the first thing in data and returns its length: 0 if it must wait
// for more.
func (c *chain) step(f *file, data []byte, full bool) int {
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

// goOnLong skips to the end of a line that does not fit a block. Its start is
// handed on when the end is found, and only then the position moves.
func (c *chain) goOnLong(f *file, data []byte) int {
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

func (c *chain) endLong(f *file, n int) {
	l := f.long
	f.long = nil
	c.t.lose("long_line", l.size-int64(len(l.kept)))
	c.scan(f, l.kept, l.start, n)
}

// scan hands a block of lines to the stream; the first starts at start in the
// file. n bytes of what was read are taken.
func (c *chain) scan(f *file, block []byte, start int64, n int) {
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

// finishLine hands on a last line that will never get its end.
func (c *chain) finishLine(f *file, w *worker) {
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

// showLine has a line without its end matched as it is, and does not move the
// position: when the end comes, the whole line is matched.
func (c *chain) showLine(w *worker) {
	f := c.cur
	block, start := []byte(nil), f.off
	if f.long != nil {
		block, start = f.long.kept, f.long.start
	} else if f.rest > 0 {
		data, _, err := c.read(f, w)
		if err != nil || int64(len(data)) != f.rest {
			return // it went on: the next turn sees
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

// flushOldParts ends parts of a line whose end does not come. The position
// stays before them as long as nothing else comes.
func (c *chain) flushOldParts() {
	u := int64(c.stream.Unfinished())
	if u == 0 || c.parts.f == nil || c.turn.now.Sub(c.parts.since) < idleAfter {
		return
	}
	c.flushed = u
	c.t.hand.flush(c.stream)
	c.segs = nil
}

// rewind goes back to before the parts that were flushed, so that they are
// matched together with their end. It gives up on what is far back, or was
// read several times.
func (c *chain) rewind() bool {
	u, p := c.flushed, &c.parts
	c.flushed = 0
	if p.f == nil || u > rewindMax || p.again >= rewinds {
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

// dropTorn passes over what is left of a line behind a hole in its middle. It does
// not begin where the runtime began a line: whoever writes NUL bytes into a line
// would choose its time and stream.
func (c *chain) dropTorn(f *file, data []byte) int {
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
