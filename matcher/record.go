package matcher

import (
	"bytes"
	"iter"
	"time"
)

// record is a block of klog, or a Go panic with its stack, whose end has not been read.
//
// A block is matched as a whole when it is complete: a part of a rule that holds has one hit,
// with the time and the fingerprint of the first line. A part that does not is tried on each
// line, as if it stood alone, so a rule for a line inside a block needs not know the block.
//
// Nothing ends a panic but the next line, which may never come. So its lines are matched
// alone, at once, and then the parts that none of them fulfils on the whole.
type record struct {
	goPanic bool // else a block of klog
	text    []byte
	lines   []recordLine
	start   int64   // first byte of the first line, in the stream
	parts   int64   // physical lines that are not matched yet
	read    int     // lines, with those that found no room
	alone   []*part // those that lines of the panic fulfil
}

// recordLine is a line of a record.
type recordLine struct {
	end int // end of the record in the text
	at  moment
	id  uint64
}

// Bounds of a record. Lines that find no room are matched at once, alone. The last line of a
// block has room of its own, because its fields belong to the record. After a bound the
// record is complete.
const (
	maxRecordBody  = MaxLine - 4<<10 // bytes of all lines but the last of a block
	maxRecordKept  = 256             // lines that are kept
	maxRecordLines = 4096
	maxRecordAge   = 2 * time.Second // from the first line to the last, by the times of lines
)

// logical accepts a logical line of stdout (0) or stderr (1).
func (r *run) logical(k int, text []byte, at moment) {
	if r.s.records[k] == nil && (r.s.opt.Join == JoinNone || !opensRecord(text)) {
		r.evaluate(text, at)
		return
	}
	at = r.resolve(at)
	if rec := r.s.records[k]; rec != nil {
		if more, last := rec.continues(text, at); more {
			r.extend(k, text, at, last)
			return
		}
		r.endRecord(k)
	}
	if !opensRecord(text) {
		r.evaluate(text, at)
		return
	}
	r.s.records[k] = &record{goPanic: !opensBlock(text), start: r.s.resumeAt(k, r.s.unfinishedAt(k, at.place-r.s.base))}
	r.extend(k, text, at, false)
}

// opensRecord reports whether a line may be the first of a record.
func opensRecord(text []byte) bool {
	if len(text) < 2 || len(text) >= maxRecordBody {
		return false
	}
	switch text[0] {
	case 'p':
		return bytes.HasPrefix(text, []byte("panic: "))
	case 'f':
		return bytes.HasPrefix(text, []byte("fatal error: "))
	case 'g':
		return opensGoroutine(text)
	}
	return opensBlock(text)
}

// opensBlock reports whether klog writes a value of several lines below this line: each
// after a tab, and after them " >" and further fields.
func opensBlock(text []byte) bool {
	n := len(text)
	return n > 2 && text[n-1] == '<' && text[n-2] == '='
}

func opensGoroutine(text []byte) bool {
	return bytes.HasPrefix(text, []byte("goroutine ")) && bytes.HasSuffix(text, []byte("]:"))
}

// continues reports whether a line belongs to the record, and whether it is the last.
func (rec *record) continues(text []byte, at moment) (more, last bool) {
	if rec.read >= maxRecordLines || at.time.Sub(rec.lines[0].at.time) > maxRecordAge {
		return false, false
	}
	switch {
	case len(text) > 0 && text[0] == '\t':
		return true, false
	case rec.goPanic:
		return inPanic(text), false
	}
	more = bytes.HasPrefix(text, []byte(" >"))
	return more, more && !opensBlock(text)
}

// inPanic reports whether the runtime of Go writes such a line, without a tab, below the
// first line of a panic: signals, goroutines, their functions, and empty lines.
func inPanic(text []byte) bool {
	if len(text) == 0 || opensGoroutine(text) {
		return true
	}
	for _, prefix := range []string{"[signal ", "created by ", "runtime stack:", "...", "exit status "} {
		if bytes.HasPrefix(text, []byte(prefix)) {
			return true
		}
	}
	call := bytes.IndexByte(text, '(')
	return call > 0 && text[len(text)-1] == ')' && bytes.IndexByte(text[:call], ' ') < 0 &&
		(bytes.IndexByte(text[:call], '.') > 0 || string(text[:call]) == "panic")
}

// extend adds a line to the record. Without room for it, the line is matched alone.
func (r *run) extend(k int, text []byte, at moment, last bool) {
	rec := r.s.records[k]
	rec.read++
	most, lines := maxRecordBody, maxRecordKept
	if last {
		most, lines = MaxLine, maxRecordKept+1
	}
	fits := len(rec.text)+len("\n")+len(text) <= most && len(rec.lines) < lines
	if rec.goPanic {
		r.inPanic = rec
		r.evaluate(text, at)
		r.inPanic = nil
	}
	if fits {
		rec.add(text, at, r.fingerprint(text, at))
	}
	if last {
		r.endRecord(k)
	}
	if !fits && !rec.goPanic {
		r.inBlock = true
		r.evaluate(text, at)
		r.inBlock = false
	}
}

func (rec *record) add(text []byte, at moment, id uint64) {
	if len(rec.lines) > 0 {
		rec.text = append(rec.text, '\n')
	}
	rec.text = append(rec.text, text...)
	rec.lines = append(rec.lines, recordLine{end: len(rec.text), at: at, id: id})
	if !rec.goPanic {
		rec.parts += at.parts
	}
}

// endRecord matches the record of stdout (0) or stderr (1), if there is one.
func (r *run) endRecord(k int) {
	rec := r.s.records[k]
	if rec == nil {
		return
	}
	r.s.records[k] = nil
	r.textAt = -1
	r.s.counters.Evaluated += rec.parts
	first := rec.lines[0]
	before := len(r.hits())
	if (!rec.goPanic || len(rec.lines) > 1) && r.mark(rec.text) {
		r.tryRecord(rec)
	}
	if r.watch && len(rec.alone) == 0 && !r.watched(before) {
		r.complain(rec.text, first.at)
	}
}

// tryRecord tries the marked parts on a record.
func (r *run) tryRecord(rec *record) {
	first := rec.lines[0]
	l := line{text: rec.text, at: first.at, id: first.id, skip: rec.alone}
	if len(rec.lines) > 1 && !rec.goPanic {
		l.lines = make([]line, len(rec.lines))
	}
	from := 0
	for i, x := range rec.lines[:len(l.lines)] {
		l.lines[i] = line{text: rec.text[from:x.end], at: x.at, id: x.id}
		from = x.end + len("\n")
	}
	r.try(&l)
}

// each yields the lines of a record. Meanwhile the fields are those of the line.
func (r *run) each(l *line) iter.Seq[*line] {
	return func(yield func(*line) bool) {
		r.inBlock = true
		defer func() {
			r.inBlock = false
			r.sc.read(l.text)
		}()
		for i := range l.lines {
			r.sc.read(l.lines[i].text)
			if !yield(&l.lines[i]) {
				return
			}
		}
	}
}
