// Package gunzip decompresses files in blocks. A decompressor is big, so that a fixed
// number of them serves any number of files.
package gunzip

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// Reader decompresses one file. A window in its buffer has a block of unread bytes,
// and before them those that were read last.
type Reader struct {
	size Sizes
	zr   *gzip.Reader
	buf  []byte
	n    int  // bytes in buf
	end  bool // the file ends behind them
	err  error
	all  bool // all that could be decompressed before err was returned
}

// Open starts to read a compressed file.
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

// Skip moves from the start of the file to off. It returns a window with the last
// bytes before off only; it is valid until the next call.
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

// Read returns a window whose bytes from at on are unread, and whether the file ends
// behind them. taken is how many bytes of the last window were read. Of a damaged file
// Read returns what can be decompressed, and then the error with the unread rest of
// that. The window is valid until the next call.
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

// Sizes are those of the buffer of a Reader, in bytes.
type Sizes struct {
	Keep  int // bytes that were read last
	Block int // bytes that are not read yet
	Slack int // bytes behind the block that nothing writes to
}

// Pool holds a number of readers. Safe for concurrent use.
type Pool struct {
	size Sizes

	mu      sync.Mutex
	free    []*Reader
	waiting []*Waiter
	tooMany int // that are dropped when they are returned
}

// Waiter waits for a free Reader.
type Waiter struct {
	Wake    func() // called while the Pool is locked
	waiting bool   // under Pool.mu
}

// NewPool returns a pool of n readers. None has a buffer before it is taken.
func NewPool(n int, size Sizes) *Pool {
	p := &Pool{size: size}
	for range n {
		p.Add()
	}
	return p
}

// Take returns a free Reader. It returns nil if there is none: w is then woken when
// there is one.
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

// Return makes a Reader free.
func (p *Pool) Return(r *Reader) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tooMany > 0 {
		p.tooMany--
		return
	}
	p.put(r)
}

// Add adds a reader, such as one in place of one whose file hangs.
func (p *Pool) Add() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.put(&Reader{size: p.size})
}

func (p *Pool) put(r *Reader) {
	p.free = append(p.free, r)
	if len(p.waiting) > 0 {
		w := p.waiting[0]
		p.waiting, w.waiting = p.waiting[1:], false
		w.Wake()
	}
}

// Drop removes a reader: a free one, or else the next that is returned.
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
