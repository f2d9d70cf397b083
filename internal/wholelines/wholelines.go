// Package wholelines reads an input in blocks of whole lines.
package wholelines

import (
	"bytes"
	"io"
	"slices"
)

// maxTail is the maximum number of bytes of a line without an end that are read before the line is truncated.
const maxTail = 128 << 10

// Reader reads an input in blocks of whole lines. It truncates lines of 128 KiB and more. It is not safe for concurrent
// use.
type Reader struct {
	r    io.Reader
	size int // number of bytes that are read at a time
	tail []byte
	skip bool     // whether the rest of a truncated line is being skipped
	free [][]byte // released blocks for reuse
}

// New returns a reader of r that reads up to size bytes at a time.
func New(r io.Reader, size int) *Reader { return &Reader{r: r, size: size} }

// Next returns the next whole lines, if there are any. When it returns an error, block is the rest of the input. The
// caller owns the block and may release it. full reports that more data is probably available without waiting.
func (c *Reader) Next() (block []byte, full bool, err error) {
	buf := slices.Grow(append(c.takeBlock(), c.tail...), c.size)
	from := len(buf)
	n, err := c.r.Read(buf[from : from+c.size])
	buf, c.tail = buf[:from+n], c.tail[:0]
	full = n > c.size/2
	if err != nil {
		return c.dropPartial(buf), full, err
	}
	end := bytes.LastIndexByte(buf, '\n') + 1
	if end == 0 && len(buf) >= maxTail {
		if c.skip {
			c.Release(buf)
			return nil, full, nil
		}
		c.skip = true
		return buf[:maxTail], full, nil
	}
	c.tail = append(c.tail, buf[end:]...)
	if end == 0 {
		c.Release(buf)
		return nil, full, nil
	}
	return c.dropPartial(buf[:end]), full, nil
}

// dropPartial returns b without the rest of a truncated line at its start.
func (c *Reader) dropPartial(b []byte) []byte {
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

func (c *Reader) takeBlock() []byte {
	k := len(c.free) - 1
	if k < 0 {
		return nil
	}
	b := c.free[k]
	c.free = c.free[:k]
	return b[:0]
}

// Release returns a block to the reader, which reuses its memory.
func (c *Reader) Release(b []byte) {
	if cap(b) >= c.size {
		c.free = append(c.free, b)
	}
}
