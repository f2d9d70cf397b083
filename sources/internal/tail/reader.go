package tail

import (
	"bytes"
	"time"

	"crowsnest/matcher"
	"crowsnest/sources/internal/content"
)

// minNUL is the length from which a sequence of NUL bytes counts as a hole left by a crash, and
// not as content.
const minNUL = 16

const (
	maxRewind  = 64 << 10 // number of bytes that may be read again to complete a line
	maxRewinds = 4        // number of times that the start of one line may be read again
)

// reader passes blocks of whole lines to the stream of the matcher.
type reader struct {
	*opener
	pipeline *pipelineGuard
	// framed is set if a container runtime writes the start of each line. No line then begins
	// after a hole of NUL bytes.
	framed bool
	pub    *streamState
	stream *matcher.Stream
	commit func()

	lastReadAt time.Time // time at which bytes were last read
	fed        int64     // number of bytes passed to the stream
	segs       []segment
	parts      struct { // oldest unfinished line that was passed on in several parts
		f       *file // file that contains the line; nil if there is no such line
		head    content.Sum
		offset  int64
		since   time.Time
		rereads int // number of times that the line was read again
	}
	flushed int64 // number of bytes of unfinished lines that were flushed
}

// segment maps a range of bytes of the matcher's stream to the file that contains them.
type segment struct {
	fed    int64
	f      *file
	offset int64
}

// feed passes the whole lines in data to the stream. It does not pass on an unfinished line at
// the end.
func (r *reader) feed(f *file, data []byte) {
	full := len(data) == blockSize
	rest, was := f.rest, f.offset
	for len(data) > 0 {
		n := r.consumeNext(f, data, full)
		if n == 0 {
			break
		}
		full = false
		data = data[n:]
	}
	f.rest = int64(len(data))
	if f.offset != was || f.rest != rest {
		r.lastReadAt = r.now
		f.shown = false
	}
}

// consumeNext consumes the first region of data and returns its length, or 0 if the region is
// not complete. A region consists of NUL bytes, of whole lines, or of a part of a long line.
// full means that data fills a block.
func (r *reader) consumeNext(f *file, data []byte, full bool) int {
	if n := leadingNUL(data); n >= minNUL || n > 0 && f.nul {
		f.nul = true
		f.advance(n)
		r.countLostBytes("nul", int64(n))
		return n
	}
	f.nul = false
	end := bytes.IndexByte(data, '\n') + 1
	if f.torn {
		// If a line has a hole in its middle, its rest is skipped. The rest lacks the time and
		// stream that the runtime writes at the start of a line. If the rest were matched, a
		// program that writes NUL bytes could forge both.
		if f.torn = end == 0; f.torn {
			end = len(data)
		}
		f.advance(end)
		r.countLostBytes("nul", int64(end))
		return end
	}
	if f.long != nil {
		if end == 0 {
			f.long.size += int64(len(data))
			f.advance(len(data))
			return len(data)
		}
		f.long.size += int64(end)
		r.endLong(f, end)
		return end
	}
	hole := findHole(data)
	whole := data
	if hole >= 0 {
		whole = data[:hole]
	}
	if n := bytes.LastIndexByte(whole, '\n') + 1; n > 0 {
		r.scan(f, data[:n], f.offset, n)
		return n
	}
	if hole >= 0 { // the hole of NUL bytes destroyed the end of the line
		r.scan(f, data[:hole], f.offset, hole)
		f.nul, f.torn = true, r.framed
		return hole
	}
	if !full {
		return 0
	}
	f.long = &longLine{start: f.offset, size: int64(len(data)), prefix: bytes.Clone(data[:keepSize])}
	f.advance(len(data))
	return len(data)
}

// endLong passes on the start of a line that is too long for a block, and moves the position.
func (r *reader) endLong(f *file, n int) {
	l := f.long
	f.long = nil
	r.countLostBytes("long_line", l.size-int64(len(l.prefix)))
	r.scan(f, l.prefix, l.start, n)
}

// scan passes a block of lines to the stream. start is the offset of the first line in the
// file. n is the number of bytes that the block consumes.
func (r *reader) scan(f *file, block []byte, start int64, n int) {
	r.segs = append(r.segs, segment{fed: r.fed, f: f, offset: start})
	r.fed += int64(len(block))
	f.advance(n)
	f.learnFromRead()
	if t, ok := content.LineTime(block[content.LastLine(block):]); ok {
		r.pub.update(func() { r.pub.lineTime, r.pub.view.LastRead = t, r.now })
	}
	r.stream.SetOffset(start)
	r.pipeline.scan(r.stream, block, r.commit)
}

// finishLine passes on an unfinished last line that will never be completed.
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
	r.feed(f, data) // more bytes may have been written since the last read
	if f.rest == 0 || f.long != nil {
		return
	}
	rest := f.win[f.pos:]
	r.scan(f, rest, f.offset, len(rest))
}

// showLine matches an unfinished line as it is without moving the position. When the line is
// complete, it is matched again as a whole.
func (r *reader) showLine(f *file, w *worker) {
	block, start := []byte(nil), f.offset
	if f.long != nil {
		block, start = f.long.prefix, f.long.start
	} else if f.rest > 0 {
		data, _, err := r.read(f, w)
		if err != nil || int64(len(data)) != f.rest {
			return // more bytes were written, and the next turn reads them
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
	r.stream.SetOffset(start)
	r.pipeline.scan(r.stream, block, func() {})
	r.flushUnfinished()
}

func (r *reader) flushUnfinished() {
	r.pipeline.flush(r.stream)
	r.segs = nil
}

// flushOldParts flushes the parts of a line that is unfinished for too long. The position does
// not move.
func (r *reader) flushOldParts() {
	u := int64(r.stream.Unfinished())
	if u == 0 || r.parts.f == nil || r.now.Sub(r.parts.since) < idleAfter {
		return
	}
	r.flushed = u
	r.flushUnfinished()
}

// mayRewind reports whether flushed parts of a line may be read again, so that they are
// matched together with the line's end. It counts the attempts. Parts that are far back are
// not read again.
func (r *reader) mayRewind() bool {
	u, p := r.flushed, &r.parts
	r.flushed = 0
	if p.f == nil || u > maxRewind || p.rereads >= maxRewinds {
		return false
	}
	p.rereads++
	p.since = r.now
	return true
}

// oldestUnfinished returns the file and the offset of the oldest unfinished line, or nil if
// there is none.
func (r *reader) oldestUnfinished() (*file, int64) {
	u := int64(r.stream.Unfinished())
	for i := len(r.segs) - 1; u > 0 && i >= 0; i-- {
		s := r.segs[i]
		if s.fed > r.fed-u {
			continue
		}
		r.segs = r.segs[i:]
		p, off := &r.parts, s.offset+r.fed-u-s.fed
		if p.head != s.f.id.Sum || p.offset != off {
			p.head, p.offset, p.since, p.rereads = s.f.id.Sum, off, r.now, 0
		}
		p.f = s.f
		return s.f, off
	}
	r.segs = r.segs[:0]
	r.parts.f = nil
	return nil, 0
}

func leadingNUL(b []byte) int {
	if b[0] != 0 {
		return 0
	}
	return len(b) - len(bytes.TrimLeft(b, "\x00"))
}

// findHole returns the index of the first run of at least minNUL NUL bytes, or -1.
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
