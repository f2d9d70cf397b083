package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"crowsnest/matcher"
)

// Input is one recorded log stream.
type Input struct {
	Name   string // for reports: a path, or "-"
	Labels matcher.Labels
	// Open returns the decompressed bytes. It is called once.
	Open func() (io.ReadCloser, error)
}

const (
	blockSize = 256 << 10
	// maxTail is how much of a line without an end is kept.
	maxTail = 128 << 10
)

// reader turns an input into hits, in order of its lines.
type reader struct {
	in      Input
	order   int
	prog    *matcher.Program
	stream  *matcher.Stream
	now     time.Time // stands in for times that the lines do not have
	rc      io.ReadCloser
	buf     []byte
	tail    int  // bytes at the start of buf that are an unfinished line
	skip    bool // the rest of a line that is too long
	done    bool
	pending []matcher.Hit
	last    []byte // the last whole line that was read
}

// next returns the next hit, or false at the end of the input.
func (r *reader) next() (matcher.Hit, bool, error) {
	for len(r.pending) == 0 {
		if r.done {
			return matcher.Hit{}, false, nil
		}
		if err := r.read(); err != nil {
			return matcher.Hit{}, false, fmt.Errorf("read %s: %w", r.in.Name, err)
		}
	}
	h := r.pending[0]
	r.pending = r.pending[1:]
	return h, true, nil
}

// read scans one more block.
func (r *reader) read() error {
	if r.rc == nil {
		rc, err := r.in.Open()
		if err != nil {
			return err
		}
		r.rc, r.buf = rc, make([]byte, blockSize)
	}
	n, err := r.rc.Read(r.buf[r.tail:])
	data := r.buf[:r.tail+n]
	if err != nil && !errors.Is(err, io.EOF) {
		return errors.Join(err, r.close())
	}
	if err != nil {
		r.scan(data)
		r.pending = append(r.pending, r.prog.Flush(r.stream, r.now)...)
		r.done = true
		return r.close()
	}
	end := bytes.LastIndexByte(data, '\n') + 1
	if end == 0 && len(data) >= maxTail {
		// A line without an end: match its beginning, pass over the rest.
		if !r.skip {
			r.scan(data[:maxTail])
		}
		r.skip, r.tail = true, 0
		return nil
	}
	if end > 0 {
		r.scan(data[:end])
	}
	r.tail = copy(r.buf, data[end:])
	return nil
}

func (r *reader) close() error {
	if r.rc == nil {
		return nil
	}
	err := r.rc.Close()
	r.rc, r.buf = nil, nil
	return err
}

// scan matches whole lines. The first one is left out if its beginning was
// matched before.
func (r *reader) scan(data []byte) {
	if r.skip {
		i := bytes.IndexByte(data, '\n')
		if i < 0 {
			return
		}
		data, r.skip = data[i+1:], false
	}
	if len(data) == 0 {
		return
	}
	r.pending = append(r.pending, r.prog.Scan(r.stream, data, r.now)...)
	line := bytes.TrimRight(data, "\r\n")
	r.last = append(r.last[:0], line[bytes.LastIndexByte(line, '\n')+1:]...)
}
