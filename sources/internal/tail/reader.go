package tail

import (
	"bytes"
	"time"

	"crowsnest/matcher"
	"crowsnest/sources/internal/content"
)

// minNUL is how many NUL bytes in a row are a hole left by a crash, and not content.
const minNUL = 16

const (
	maxRewind  = 64 << 10 // bytes that are read again to make a line whole
	maxRewinds = 4        // times that this is done for one line
)

// reader passes what is read to the stream of the matcher, in blocks of whole lines.
type reader struct {
	*opener
	hand   *hand
	framed bool // no line begins behind a hole
	pub    *published
	stream *matcher.Stream
	commit func()

	moved time.Time // when something was last read
	fed   int64     // bytes handed to the stream
	segs  []segment
	parts struct { // the oldest unfinished part
		f     *file // nil if there is none
		head  content.Sum
		off   int64
		since time.Time
		again int // times that it was read again
	}
	flushed int64 // bytes before the frontier that were flushed unfinished
}

// segment maps a run of bytes of the stream to its file.
type segment struct {
	fed int64
	f   *file
	off int64
}

// feed passes the whole lines in data to the stream. The rest is an unfinished line,
// or nothing.
func (r *reader) feed(f *file, data []byte) {
	full := len(data) == blockSize
	rest, was := f.rest, f.off
	for len(data) > 0 {
		n := r.step(f, data, full)
		if n == 0 {
			break
		}
		full = false
		data = data[n:]
	}
	f.rest = int64(len(data))
	if f.off != was || f.rest != rest {
		r.moved = r.now
		f.shown = false
	}
}

// step consumes the first thing in data and returns its length: 0 if it must wait
// for more.
func (r *reader) step(f *file, data []byte, full bool) int {
	if n := leadingNUL(data); n >= minNUL || n > 0 && f.nul {
		f.nul = true
		f.advance(n)
		r.lose("nul", int64(n))
		return n
	}
	f.nul = false
	if f.torn {
		return r.dropTorn(f, data)
	}
	if f.long != nil {
		return r.goOnLong(f, data)
	}
	hole := findHole(data)
	whole := data
	if hole >= 0 {
		whole = data[:hole]
	}
	if n := bytes.LastIndexByte(whole, '\n') + 1; n > 0 {
		r.scan(f, data[:n], f.off, n)
		return n
	}
	if hole >= 0 { // a line that lost its end in the hole
		r.scan(f, data[:hole], f.off, hole)
		f.nul, f.torn = true, r.framed
		return hole
	}
	if !full {
		return 0
	}
	f.long = &longLine{start: f.off, size: int64(len(data)), kept: bytes.Clone(data[:keepSize])}
	f.advance(len(data))
	return len(data)
}

// goOnLong skips to the end of a line that does not fit a block. It passes on the
// line's start when it finds the end, and moves the position only then.
func (r *reader) goOnLong(f *file, data []byte) int {
	n := bytes.IndexByte(data, '\n') + 1
	if n == 0 {
		f.long.size += int64(len(data))
		f.advance(len(data))
		return len(data)
	}
	f.long.size += int64(n)
	r.endLong(f, n)
	return n
}

func (r *reader) endLong(f *file, n int) {
	l := f.long
	f.long = nil
	r.lose("long_line", l.size-int64(len(l.kept)))
	r.scan(f, l.kept, l.start, n)
}

// scan passes a block of lines to the stream; the first one starts at start in the
// file. It consumes n bytes of what was read.
func (r *reader) scan(f *file, block []byte, start int64, n int) {
	r.segs = append(r.segs, segment{fed: r.fed, f: f, off: start})
	r.fed += int64(len(block))
	f.advance(n)
	f.learnFromRead()
	if t, ok := content.LineTime(block[content.LastLine(block):]); ok {
		r.pub.reached(t, r.now)
	}
	r.stream.Place(start)
	r.hand.scan(r.stream, block, r.commit)
}

// finishLine passes on a last line that will never be completed.
func (r *reader) finishLine(f *file, w *worker) {
	if f.long != nil {
		r.endLong(f, 0)
	}
	if f.rest == 0 || f.f == nil {
		return
	}
	data, _, err := r.read(f, w)
	if err != nil && f.gz == nil || len(data) == 0 {
		return
	}
	r.feed(f, data) // more may have come
	if f.rest == 0 || f.long != nil {
		return
	}
	rest := f.win[f.pos:]
	r.scan(f, rest, f.off, len(rest))
}

// showLine matches an unfinished line as it is and does not move the position: once
// the line is complete, it is matched as a whole.
func (r *reader) showLine(f *file, w *worker) {
	block, start := []byte(nil), f.off
	if f.long != nil {
		block, start = f.long.kept, f.long.start
	} else if f.rest > 0 {
		data, _, err := r.read(f, w)
		if err != nil || int64(len(data)) != f.rest {
			return // the log continued, so the next turn reads it
		}
		block = data
	}
	f.shown = true
	if block == nil {
		return
	}
	if u := int64(r.stream.Unfinished()); u > 0 {
		r.flushed = u
	}
	r.stream.Place(start)
	r.hand.scan(r.stream, block, func() {})
	r.flush()
}

// flush passes on the parts of lines without their end.
func (r *reader) flush() {
	r.hand.flush(r.stream)
	r.segs = nil
}

// flushOldParts flushes parts of a line whose end does not come. The position stays
// before them until more comes.
func (r *reader) flushOldParts() {
	u := int64(r.stream.Unfinished())
	if u == 0 || r.parts.f == nil || r.now.Sub(r.parts.since) < idleAfter {
		return
	}
	r.flushed = u
	r.flush()
}

// mayRewind reports whether the flushed parts are to be read again, to be matched
// together with their end, and counts that. Parts that are far back or were read
// several times are not.
func (r *reader) mayRewind() bool {
	u, p := r.flushed, &r.parts
	r.flushed = 0
	if p.f == nil || u > maxRewind || p.again >= maxRewinds {
		return false
	}
	p.again++
	p.since = r.now
	return true
}

// unfinished returns where the oldest line without its end starts, nil if every line
// has one.
func (r *reader) unfinished() (*file, int64) {
	u := int64(r.stream.Unfinished())
	for i := len(r.segs) - 1; u > 0 && i >= 0; i-- {
		s := r.segs[i]
		if s.fed > r.fed-u {
			continue
		}
		r.segs = r.segs[i:]
		p, off := &r.parts, s.off+r.fed-u-s.fed
		if p.head != s.f.id.Sum || p.off != off {
			p.head, p.off, p.since, p.again = s.f.id.Sum, off, r.now, 0
		}
		p.f = s.f
		return s.f, off
	}
	r.segs = r.segs[:0]
	r.parts.f = nil
	return nil, 0
}

// dropTorn skips the rest of a line behind a hole in its middle. The rest does not
// start where the runtime started a line: an author of NUL bytes could otherwise
// choose its time and stream.
func (r *reader) dropTorn(f *file, data []byte) int {
	n := bytes.IndexByte(data, '\n') + 1
	if f.torn = n == 0; f.torn {
		n = len(data)
	}
	f.advance(n)
	r.lose("nul", int64(n))
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
