package tail

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"sync"
)

// gunzip reads one compressed file. It is big, so there are few of them.
type gunzip struct {
	zr  *gzip.Reader
	buf []byte
	n   int  // bytes in buf
	end bool // the file ends behind them
	err error
	all bool // all that could be decompressed before err was returned
}

// skip reopens the file and moves to off of the decompressed bytes.
func (g *gunzip) skip(f *file, off int64) error {
	g.n, g.end, g.err, g.all = 0, false, nil, false
	r := io.NewSectionReader(f.f, 0, 1<<62)
	if g.zr == nil {
		z, err := gzip.NewReader(r)
		if err != nil {
			return fmt.Errorf("decompress: %w", err)
		}
		g.zr = z
	} else if err := g.zr.Reset(r); err != nil {
		return fmt.Errorf("decompress: %w", err)
	}
	mark := min(off, markSize)
	if _, err := io.CopyN(io.Discard, g.zr, off-mark); err != nil {
		return changed("decompress", err)
	}
	m := make([]byte, mark)
	if _, err := io.ReadFull(g.zr, m); err != nil {
		return changed("decompress", err)
	}
	f.mark = m
	g.n = copy(g.buf, m)
	f.win, f.pos = g.buf[:g.n], g.n
	return nil
}

// read is file.read for compressed files: bytes that were not taken are kept.
func (g *gunzip) read(f *file) (data []byte, end bool, err error) {
	from := max(0, f.pos-markSize)
	copy(g.buf, g.buf[from:g.n])
	f.pos -= from
	g.n -= from
	for !g.end && g.n < f.pos+blockSize {
		n, err := g.zr.Read(g.buf[g.n : f.pos+blockSize])
		g.n += n
		if err != nil {
			g.end = true
			if !errors.Is(err, io.EOF) {
				g.err = fmt.Errorf("decompress: %w", err)
			}
		}
	}
	f.win = g.buf[:g.n]
	data = g.buf[f.pos:g.n]
	if g.err == nil {
		return data, g.end, nil
	}
	// What could be decompressed of a damaged file is read; then, with what is
	// left of it, the error.
	if g.all {
		return data, true, g.err
	}
	g.all = true
	return data, false, nil
}

// gunzips is a fixed pool of them. A follower that gets none is woken when one is
// free.
type gunzips struct {
	mu      sync.Mutex
	free    []*gunzip
	waiting []*opener
	tooMany int // that are dropped when they are returned
}

func newGunzips(n int) *gunzips {
	g := &gunzips{}
	for range n {
		g.free = append(g.free, &gunzip{})
	}
	return g
}

// take returns nil if none is free; o is then woken when one is.
func (g *gunzips) take(o *opener) *gunzip {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.free) == 0 {
		if !o.waiting {
			o.waiting = true
			g.waiting = append(g.waiting, o)
		}
		return nil
	}
	z := g.free[len(g.free)-1]
	g.free = g.free[:len(g.free)-1]
	if z.buf == nil {
		z.buf = make([]byte, markSize+blockSize+slack)
	}
	return z
}

// give returns one to the pool, or adds a new one, which has no buffer yet, in place
// of one that hangs.
func (g *gunzips) give(z *gunzip) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tooMany > 0 && z.buf != nil {
		g.tooMany--
		return
	}
	g.free = append(g.free, z)
	if len(g.waiting) > 0 {
		o := g.waiting[0]
		g.waiting, o.waiting = g.waiting[1:], false
		o.wake()
	}
}

// drop removes one: the one that hung is back.
func (g *gunzips) drop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := len(g.free); n > 0 {
		g.free = g.free[:n-1]
	} else {
		g.tooMany++
	}
}
