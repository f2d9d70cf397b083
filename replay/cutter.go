package replay

import (
	"bytes"
	"io"
	"slices"
)

// maxTail is how much is read of a line without an end.
const maxTail = 128 << 10

// cutter reads an input in blocks of whole lines.
type cutter struct {
	r    io.Reader
	size int // bytes per read
	tail []byte
	skip bool     // the input is inside a line that was truncated
	free [][]byte // blocks for reuse
}

// next returns the next whole lines, perhaps none, and with an error the rest of the
// input. The caller owns the block and may release it. full reports that more data is
// probably available without waiting.
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
			c.release(buf)
			return nil, full, nil
		}
		c.skip = true
		return buf[:maxTail], full, nil
	}
	c.tail = append(c.tail, buf[end:]...)
	if end == 0 {
		c.release(buf)
		return nil, full, nil
	}
	return c.lines(buf[:end]), full, nil
}

// lines drops the rest of a truncated line.
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

// release returns a block for reuse.
func (c *cutter) release(b []byte) {
	if cap(b) >= c.size {
		c.free = append(c.free, b)
	}
}
