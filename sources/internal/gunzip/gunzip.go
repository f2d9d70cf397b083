// Package gunzip decompresses files in blocks. A decompressor needs much memory, so any number
// of files share a fixed number of decompressors.
package gunzip

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// Reader decompresses one file. Its buffer is a window of the file. The window contains the bytes that were read last,
// followed by a block of unread bytes.
type Reader struct {
	size Sizes
	zr   *gzip.Reader
	buf  []byte
	n    int  // number of bytes in buf
	end  bool // whether the file ends after the bytes in buf
	err  error
	all  bool // whether Read returned everything that could be decompressed before err
}

// Open makes the Reader read the compressed file f from its start.
func (r *Reader) Open(f io.Reader) error {
	r.n, r.end, r.err, r.all = 0, false, nil, false
	var err error
	if r.zr == nil {
		r.zr, err = gzip.NewReader(f)
	} else {
		err = r.zr.Reset(f)
	}
	if err != nil {
		return fmt.Errorf("decompress: %w", err)
	}
	return nil
}

// Skip moves from the start of the file to off. The returned window contains only the last
// bytes before off. It is valid until the next call.
func (r *Reader) Skip(off int64) (window []byte, err error) {
	keep := min(off, int64(r.size.Keep))
	if _, err := io.CopyN(io.Discard, r.zr, off-keep); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(r.zr, r.buf[:keep]); err != nil {
		return nil, err
	}
	r.n = int(keep)
	return r.buf[:r.n], nil
}

// Read returns a window and the index at which its unread bytes begin. end reports whether the file ends after these
// bytes. taken is the number of bytes of the previous window that the caller has read. Read first returns the readable
// part of a damaged file, and on the next call the error. The window is valid until the next call.
func (r *Reader) Read(taken int) (window []byte, at int, end bool, err error) {
	from := max(0, taken-r.size.Keep)
	copy(r.buf, r.buf[from:r.n])
	at = taken - from
	r.n -= from
	for !r.end && r.n < at+r.size.Block {
		n, err := r.zr.Read(r.buf[r.n : at+r.size.Block])
		r.n += n
		if err != nil {
			r.end = true
			if !errors.Is(err, io.EOF) {
				r.err = fmt.Errorf("decompress: %w", err)
			}
		}
	}
	switch {
	case r.err == nil:
		return r.buf[:r.n], at, r.end, nil
	case r.all:
		return r.buf[:r.n], at, true, r.err
	}
	r.all = true
	return r.buf[:r.n], at, false, nil
}

// Sizes are the sizes of the parts of a Reader's buffer, in bytes.
type Sizes struct {
	Keep  int // number of bytes that were already read
	Block int // number of bytes that are not read yet
	Slack int // number of unused bytes after the block
}

// Pool holds a fixed number of readers. It is safe for concurrent use.
type Pool struct {
	size Sizes

	mu      sync.Mutex
	free    []*Reader
	waiting []*Waiter
	tooMany int // number of readers that must be dropped when they are returned
}

// Waiter waits for a free Reader.
type Waiter struct {
	Wake    func() // called when a Reader becomes free, while the Pool is locked
	waiting bool   // whether the Waiter waits; guarded by Pool.mu
}

// NewPool returns a pool of n readers. A reader gets its buffer when it is first taken.
func NewPool(n int, size Sizes) *Pool {
	p := &Pool{size: size}
	for range n {
		p.Add()
	}
	return p
}

// Take returns a free Reader. If there is none, it returns nil and wakes w once one is free.
func (p *Pool) Take(w *Waiter) *Reader {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 {
		if !w.waiting {
			w.waiting = true
			p.waiting = append(p.waiting, w)
		}
		return nil
	}
	r := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	if r.buf == nil {
		r.buf = make([]byte, p.size.Keep+p.size.Block+p.size.Slack)
	}
	return r
}

// Return makes a Reader free again.
func (p *Pool) Return(r *Reader) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tooMany > 0 {
		p.tooMany--
		return
	}
	p.release(r)
}

// Add adds a reader, for example to replace one that hangs while it reads a file.
func (p *Pool) Add() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release(&Reader{size: p.size})
}

func (p *Pool) release(r *Reader) {
	p.free = append(p.free, r)
	if len(p.waiting) > 0 {
		w := p.waiting[0]
		p.waiting, w.waiting = p.waiting[1:], false
		w.Wake()
	}
}

// Drop removes a free reader, or if there is none, the next one that is returned.
func (p *Pool) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		p.free = p.free[:n-1]
	} else {
		p.tooMany++
	}
}

// Free returns how many readers are free.
func (p *Pool) Free() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.free)
}
