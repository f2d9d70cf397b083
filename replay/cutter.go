package replay

import (
	"bytes"
	"io"
	"slices"
)

// maxTail is how much of a line without an end is looked at.
const maxTail = 128 << 10

// cutter reads an input in blocks of whole lines.
type cutter struct {
	r    io.Reader
	size int // bytes to read at once
	tail []byte
	skip bool     // the rest of a line that is too long
	free [][]byte // blocks that nobody uses any more
}

// next returns the next whole lines, perhaps none, and behind an error what is
// left. The block belongs to the caller, who may give it back. full tells that
// more is likely to be there at once.
func (c *cutter) next() (block []byte, full bool, err error) {
	buf := slices.Grow(append(c.take(), c.tail...), c.size)
	from := len(buf)
	n, err := c.r.Read(buf[from : from+c.size])
	buf, c.tail = buf[:from+n], c.tail[:0]
	full = n > c.size/2
	if err != nil {
		return c.lines(buf), full, err
	}
	end := bytes.LastIndexByte(buf, '\n') + 1
	if end == 0 && len(buf) >= maxTail {
		if c.skip {
			c.give(buf)
			return nil, full, nil
		}
		c.skip = true
		return buf[:maxTail], full, nil
	}
	c.tail = append(c.tail, buf[end:]...)
	if end == 0 {
		c.give(buf)
		return nil, full, nil
	}
	return c.lines(buf[:end]), full, nil
}

// lines leaves out the rest of a line whose beginning was handed out.
func (c *cutter) lines(b []byte) []byte {
	if !c.skip {
		return b
	}
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		return nil
	}
	c.skip = false
	return b[i+1:]
}

func (c *cutter) take() []byte {
	k := len(c.free) - 1
	if k < 0 {
		return nil
	}
	b := c.free[k]
	c.free = c.free[:k]
	return b[:0]
}

// give takes a block back.
func (c *cutter) give(b []byte) {
	if cap(b) >= c.size {
		c.free = append(c.free, b)
	}
}
