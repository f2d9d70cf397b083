package inputs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"crowsnest/lab/inputs/envelope"
)

const (
	// maxParts bounds the places whose lines one input has.
	maxParts = 20_000
	// maxBuffered bounds the lines of all places that wait to be written, and maxPart those
	// of one place.
	maxBuffered = 16 << 20
	maxPart     = 256 << 10
)

// parts keep the lines of one input apart by their places: in one temporary file, in which
// each place has chunks of whole lines, or in memory.
type parts struct {
	dir      string // "": in memory
	file     *os.File
	size     int64
	buffered int
	list     []*part
	by       map[*envelope.Place]*part
	write    writer
	err      error
}

// part is the lines of one place.
type part struct {
	place      envelope.Place
	buf        []byte
	chunks     []chunk
	size       int64
	lines      int64
	understood int64
	timed      bool
	last       time.Time
	up, down   int // steps of the times of its lines
}

// chunk is where some lines lie.
type chunk struct {
	at   int64
	size int
}

func newParts(dir string) *parts { return &parts{dir: dir, by: map[*envelope.Place]*part{}} }

// add adds a line in the form of a CRI runtime, or as it is if its time is unknown.
func (ps *parts) add(l envelope.Line) {
	if ps.err != nil {
		return
	}
	p := ps.by[l.Place]
	if p == nil {
		if len(ps.list) == maxParts {
			ps.err = fmt.Errorf("it contains lines of more than %d containers; write them to several files", maxParts)
			return
		}
		p = &part{place: *l.Place}
		ps.by[l.Place] = p
		ps.list = append(ps.list, p)
	}
	if len(p.buf) >= maxPart && !l.Continues {
		ps.flush(p)
	}
	before := len(p.buf)
	if p.buf == nil {
		p.buf = make([]byte, 0, 4<<10)
	}
	if p.lines++; l.Understood {
		p.understood++
	}
	if !l.Time.IsZero() {
		if !l.Continues {
			switch {
			case l.Time.After(p.last) && p.timed:
				p.up++
			case l.Time.Before(p.last):
				p.down++
			}
			p.last, p.timed = l.Time, true
		}
	}
	p.buf = ps.write.line(p.buf, l)
	if ps.buffered += len(p.buf) - before; ps.buffered > maxBuffered {
		for _, p := range ps.list {
			ps.flush(p)
		}
	}
}

// writer writes lines as a CRI runtime does.
type writer struct {
	second int64  // the second of the newest stamp
	stamp  []byte // its text
}

// line appends a line, without an envelope if its time is unknown. The tag of the envelope
// says whether the line continues the record before it.
func (w *writer) line(b []byte, l envelope.Line) []byte {
	if !l.Time.IsZero() {
		b = w.head(b, l)
	}
	return append(append(b, l.Text...), '\n')
}

func (w *writer) head(b []byte, l envelope.Line) []byte {
	if s := l.Time.Unix(); s != w.second || w.stamp == nil {
		w.second, w.stamp = s, l.Time.UTC().AppendFormat(w.stamp[:0], "2006-01-02T15:04:05.")
	}
	b = append(b, w.stamp...)
	ns := l.Time.Nanosecond()
	for unit := 100_000_000; unit > 0; unit /= 10 {
		b = append(b, byte('0'+ns/unit%10))
	}
	if l.Stderr {
		b = append(b, "Z stderr "...)
	} else {
		b = append(b, "Z stdout "...)
	}
	switch {
	case l.Partial:
		return append(b, "P "...)
	case l.Continues:
		return append(b, continued...)
	}
	return append(b, "F "...)
}

const continued = "F:more "

// flush writes what waits of a place.
func (ps *parts) flush(p *part) {
	if len(p.buf) == 0 || ps.dir == "" {
		return
	}
	if ps.file == nil {
		if ps.file, ps.err = os.CreateTemp(ps.dir, "lines-*"); ps.err != nil {
			ps.err = fmt.Errorf("copy its lines: %w", ps.err)
			return
		}
	}
	if _, err := ps.file.Write(p.buf); err != nil {
		ps.err = fmt.Errorf("copy its lines: %w", err)
		return
	}
	p.chunks = append(p.chunks, chunk{ps.size, len(p.buf)})
	ps.size += int64(len(p.buf))
	p.size += int64(len(p.buf))
	ps.buffered -= len(p.buf)
	p.buf = p.buf[:0]
	if len(ps.list) > 64 {
		p.buf = nil
	}
}

// close ends the adding. The lines can be opened then.
func (ps *parts) close() error {
	if ps.file != nil {
		for _, p := range ps.list {
			ps.flush(p)
			p.buf = nil
		}
		ps.err = errors.Join(ps.err, ps.file.Close())
	}
	return ps.err
}

// open returns the lines of a place, the oldest first: exports often begin with the newest.
func (ps *parts) open(p *part) (io.ReadCloser, error) {
	r := &partReader{part: p, backwards: p.down > p.up, chunks: slices.Clone(p.chunks)}
	if r.backwards {
		slices.Reverse(r.chunks)
	}
	if len(p.buf) > 0 {
		r.ready = p.buf
		if r.backwards {
			r.ready = turn(p.buf)
		}
		return r, nil
	}
	if ps.file == nil {
		return r, nil
	}
	f, err := os.Open(ps.file.Name())
	if err != nil {
		return nil, fmt.Errorf("read a copy of its lines: %w", cause(err))
	}
	r.file = f
	return r, nil
}

// partReader reads the chunks of one place.
type partReader struct {
	part      *part
	backwards bool
	file      *os.File // nil if the part is in memory
	chunks    []chunk
	buf       []byte
	ready     []byte
}

// Read implements io.Reader.
func (r *partReader) Read(b []byte) (n int, err error) {
	for n < len(b) {
		if len(r.ready) == 0 {
			if len(r.chunks) == 0 {
				if n == 0 {
					return 0, io.EOF
				}
				return n, nil
			}
			next := r.chunks[0]
			r.chunks = r.chunks[1:]
			r.buf = slices.Grow(r.buf[:0], next.size)[:next.size]
			if _, err := r.file.ReadAt(r.buf, next.at); err != nil {
				return n, fmt.Errorf("read a copy of its lines: %w", cause(err))
			}
			if r.ready = r.buf; r.backwards {
				r.ready = turn(r.buf)
			}
		}
		k := copy(b[n:], r.ready)
		n, r.ready = n+k, r.ready[k:]
	}
	return n, nil
}

// Close implements io.Closer.
func (r *partReader) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// turn returns records in the opposite order. Lines that continue a record stay behind it.
func turn(b []byte) []byte {
	var starts []int
	at := 0
	for line := range bytes.Lines(b) {
		if at == 0 || !continues(line) {
			starts = append(starts, at)
		}
		at += len(line)
	}
	out := make([]byte, 0, len(b))
	end := len(b)
	for _, start := range slices.Backward(starts) {
		out = append(out, b[start:end]...)
		end = start
	}
	return out
}

// continues reports whether a line continues the record before it.
func continues(line []byte) bool {
	const stamp = len("2025-11-20T10:00:00.000000000Z stdout ")
	return len(line) < stamp || line[29] != 'Z' || line[10] != 'T' || bytes.HasPrefix(line[stamp:], []byte(continued))
}
