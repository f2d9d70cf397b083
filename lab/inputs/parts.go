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
	// maxParts is the maximum number of containers and other origins of lines in one input.
	maxParts = 20_000
	// maxBuffered is the maximum size in bytes of all lines that are not written yet. maxPart is the maximum size of
	// the lines of one origin.
	maxBuffered = 16 << 20
	maxPart     = 256 << 10
)

// parts stores the lines of one input separately for each origin, in memory or in one temporary file. In the file, each
// origin has chunks of whole lines.
type parts struct {
	dir      string // folder of the temporary file; "" means that lines are stored in memory
	file     *os.File
	size     int64
	buffered int
	list     []*part
	byPlace  map[*envelope.Place]*part
	err      error
}

type part struct {
	place             envelope.Place
	buf               []byte
	chunks            []chunk
	size              int64
	lines             int64
	understood        int64
	last              time.Time
	forward, backward int // number of pairs of consecutive lines whose times increase, and whose times decrease
}

type chunk struct {
	at   int64
	size int
}

func newParts(dir string) *parts { return &parts{dir: dir, byPlace: map[*envelope.Place]*part{}} }

// add adds a line. The line is stored in the CRI format, or unchanged if its time is unknown.
func (ps *parts) add(l envelope.Line) {
	if ps.err != nil {
		return
	}
	p := ps.byPlace[l.Place]
	if p == nil {
		if len(ps.list) == maxParts {
			ps.err = fmt.Errorf("it contains lines of more than %d containers; write them to several files", maxParts)
			return
		}
		p = &part{place: *l.Place}
		ps.byPlace[l.Place] = p
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
	if !l.Time.IsZero() && !l.Continues {
		switch {
		case l.Time.After(p.last) && !p.last.IsZero():
			p.forward++
		case l.Time.Before(p.last):
			p.backward++
		}
		p.last = l.Time
	}
	p.buf = appendLine(p.buf, l)
	if ps.buffered += len(p.buf) - before; ps.buffered > maxBuffered {
		for _, p := range ps.list {
			ps.flush(p)
		}
	}
}

// appendLine appends a line in the CRI format, or the plain text if the time of the line is unknown. The tag of the
// format says whether the line continues the previous record.
func appendLine(b []byte, l envelope.Line) []byte {
	if !l.Time.IsZero() {
		stream, tag := " stdout ", "F "
		if l.Stderr {
			stream = " stderr "
		}
		if l.Partial {
			tag = "P "
		} else if l.Continues {
			tag = continued
		}
		b = append(append(l.Time.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000000Z"), stream...), tag...)
	}
	return append(append(b, l.Text...), '\n')
}

const continued = "F:more "

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

// close must be called after the last add and before the first open.
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

// open returns the lines of one origin ordered by time. It reverses the lines if necessary, because exports often begin
// with the newest line.
func (ps *parts) open(p *part) (io.ReadCloser, error) {
	r := &partReader{backwards: p.backward > p.forward, chunks: slices.Clone(p.chunks), ready: p.buf}
	if r.backwards {
		slices.Reverse(r.chunks)
		r.ready = reverse(p.buf)
	}
	if len(r.chunks) == 0 {
		return r, nil
	}
	f, err := os.Open(ps.file.Name())
	if err != nil {
		return nil, fmt.Errorf("read a copy of its lines: %w", cause(err))
	}
	r.file = f
	return r, nil
}

// partReader reads the chunks of one origin.
type partReader struct {
	backwards bool
	file      *os.File // nil if the lines are in memory
	chunks    []chunk
	buf       []byte
	ready     []byte
}

func (r *partReader) Read(b []byte) (n int, err error) {
	for len(r.ready) == 0 {
		if len(r.chunks) == 0 {
			return 0, io.EOF
		}
		next := r.chunks[0]
		r.chunks = r.chunks[1:]
		r.buf = slices.Grow(r.buf[:0], next.size)[:next.size]
		if _, err := r.file.ReadAt(r.buf, next.at); err != nil {
			return 0, fmt.Errorf("read a copy of its lines: %w", cause(err))
		}
		if r.ready = r.buf; r.backwards {
			r.ready = reverse(r.buf)
		}
	}
	n = copy(b, r.ready)
	r.ready = r.ready[n:]
	return n, nil
}

func (r *partReader) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// reverse returns records in reverse order. Lines that continue a record stay after the first line of the record.
func reverse(b []byte) []byte {
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

// continues reports whether a line continues the previous record.
func continues(line []byte) bool {
	const stamp = len("2025-11-20T10:00:00.000000000Z stdout ")
	return len(line) < stamp || line[29] != 'Z' || line[10] != 'T' || bytes.HasPrefix(line[stamp:], []byte(continued))
}
