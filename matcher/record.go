package matcher

import (
	"bytes"
	"iter"
	"slices"
	"strings"
	"time"
)

// record is a klog block, or a Go panic with its stack, whose end has not been read yet.
//
// A block is matched as a whole when it is complete. If a part of a rule holds for the block, there is one hit, with
// the time and the fingerprint of the block's first line. A part that does not hold for the block is tried on each line
// separately, so that a rule for a line inside a block need not describe the block.
//
// Only the next line ends a panic, and there may never be one. Therefore the lines of a panic are matched immediately
// and separately. At the end of the panic, the parts that matched no single line are tried on the whole text. A rule
// for a single line that captures values is tried again on the whole text, because the stack shows where the program
// panicked. This adds a second hit for the same line, with more captures.
type record struct {
	goPanic   bool // whether the record is a Go panic, not a klog block
	text      []byte
	lines     []recordLine
	start     int64 // offset of the first line in the stream
	parts     int64 // number of physical lines that are not matched yet
	read      int   // number of lines, including lines for which there was no room
	aloneHits []aloneHit
}

// aloneHit is the newest hit of a single line of a panic for one part of a rule.
type aloneHit struct {
	part *part
	at   moment
	id   uint64
	key  []string // values of the names in the rule's By
}

// isTriedOnWhole reports whether the whole panic may add captures to the hit of the single line.
func (a *aloneHit) isTriedOnWhole() bool {
	r := a.part.rule
	return a.part.role == 0 && r.Count == 1 && !r.Sequence && len(r.CapturedNames) > len(r.By)
}

type recordLine struct {
	end int // end of the line in the text of the record
	at  moment
	id  uint64
}

// Limits of a record. A line for which there is no room in the record is matched immediately and separately. There is
// always room for the last line of a block, because the fields in that line belong to the record. A record that reaches
// a limit is complete.
const (
	maxRecordBody  = MaxLine - 4<<10 // maximum number of bytes of all lines except the last line of a block
	maxRecordKept  = 256             // maximum number of lines that are kept
	maxRecordLines = 4096
	maxRecordAge   = 2 * time.Second // maximum time between the first and the last line, by their timestamps
)

// acceptLine processes a logical line of stdout (k = 0) or stderr (k = 1).
func (r *run) acceptLine(k int, text []byte, m moment) {
	if r.s.records[k] == nil && (r.s.opt.Join == JoinNone || !opensRecord(text)) {
		r.matchLine(text, m)
		return
	}
	m = r.resolveTime(m)
	if rec := r.s.records[k]; rec != nil {
		if more, last := rec.isContinuedBy(text, m); more {
			r.extendRecord(k, text, m, last)
			return
		}
		r.endRecord(k)
	}
	if !opensRecord(text) {
		r.matchLine(text, m)
		return
	}
	r.s.records[k] = &record{goPanic: !opensBlock(text), start: r.s.resumeAt(k, r.s.unfinishedStart(k, m.place-r.s.base))}
	r.extendRecord(k, text, m, false)
}

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
	case 'E': // format of apimachinery up to 0.30
		header := bytes.IndexByte(text, ']')
		if header > 0 && bytes.HasPrefix(text[header:], []byte("] Observed a panic: ")) {
			return true
		}
	}
	return opensBlock(text)
}

// opensBlock reports whether klog writes a value of several lines after this line. Each line of the value begins with a
// tab. The next line is " >" with further fields.
func opensBlock(text []byte) bool {
	n := len(text)
	return n > 2 && text[n-1] == '<' && text[n-2] == '='
}

func opensGoroutine(text []byte) bool {
	return bytes.HasPrefix(text, []byte("goroutine ")) && bytes.HasSuffix(text, []byte("]:"))
}

// isContinuedBy reports whether a line belongs to the record, and whether it is the last line of the record.
func (rec *record) isContinuedBy(text []byte, m moment) (more, last bool) {
	if rec.read >= maxRecordLines || m.time.Sub(rec.lines[0].at.time) > maxRecordAge {
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

// inPanic reports whether a line that does not begin with a tab can follow the first line of a Go panic. The Go runtime
// writes a signal, a goroutine, a function or an empty line there.
func inPanic(text []byte) bool {
	if len(text) == 0 || opensGoroutine(text) {
		return true
	}
	for _, prefix := range []string{"[signal ", "created by ", "runtime stack:", "...", "exit status "} {
		if bytes.HasPrefix(text, []byte(prefix)) {
			return true
		}
	}
	if text[0] == ' ' || text[0] == '/' { // copying from a web page replaced or dropped the tab
		return bytes.Contains(text, []byte(".go:"))
	}
	call := bytes.IndexByte(text, '(')
	return call > 0 && text[len(text)-1] == ')' && bytes.IndexByte(text[:call], ' ') < 0 &&
		(bytes.IndexByte(text[:call], '.') > 0 || string(text[:call]) == "panic")
}

// extendRecord adds a line to the record. If there is no room, the line is matched separately.
func (r *run) extendRecord(k int, text []byte, m moment, last bool) {
	rec := r.s.records[k]
	rec.read++
	most, lines := maxRecordBody, maxRecordKept
	if last {
		most, lines = MaxLine, maxRecordKept+1
	}
	fits := len(rec.text)+len("\n")+len(text) <= most && len(rec.lines) < lines
	if rec.goPanic {
		r.inPanic = rec
		r.matchLine(text, m)
		r.inPanic = nil
	}
	if fits {
		rec.addLine(text, m, r.lineFingerprint(text, m))
	}
	if last {
		r.endRecord(k)
	}
	if !fits && !rec.goPanic {
		r.inBlock = true
		r.matchLine(text, m)
		r.inBlock = false
	}
}

// noteAlone records that a single line of a panic satisfies a part. It copies the values, which are in the caller's
// memory.
func (rec *record) noteAlone(pt *part, l *line, values []string) {
	a := findAlone(rec.aloneHits, pt)
	if a == nil {
		rec.aloneHits = append(rec.aloneHits, aloneHit{part: pt})
		a = &rec.aloneHits[len(rec.aloneHits)-1]
	}
	a.at, a.id = l.at, l.id
	if a.isTriedOnWhole() {
		a.key = slices.Clone(values[:len(pt.rule.By)])
		for i := range a.key {
			a.key[i] = strings.Clone(a.key[i])
		}
	}
}

func findAlone(hits []aloneHit, pt *part) *aloneHit {
	for i := range hits {
		if hits[i].part == pt {
			return &hits[i]
		}
	}
	return nil
}

func (rec *record) addLine(text []byte, m moment, id uint64) {
	if len(rec.lines) > 0 {
		rec.text = append(rec.text, '\n')
	}
	rec.text = append(rec.text, text...)
	rec.lines = append(rec.lines, recordLine{end: len(rec.text), at: m, id: id})
	if !rec.goPanic {
		rec.parts += m.parts
	}
}

// endRecord matches the open record of stdout (k = 0) or stderr (k = 1), if there is one.
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
	if (!rec.goPanic || len(rec.lines) > 1) && r.markParts(rec.text) {
		r.tryRecord(rec)
	}
	if r.watch && len(rec.aloneHits) == 0 && !r.hitSince(before) {
		r.keepComplaint(rec.text, first.at)
	}
}

func (r *run) tryRecord(rec *record) {
	first := rec.lines[0]
	l := line{text: rec.text, at: first.at, id: first.id, aloneHits: rec.aloneHits}
	if len(rec.lines) > 1 && !rec.goPanic {
		l.lines = make([]line, len(rec.lines))
	}
	from := 0
	for i, x := range rec.lines[:len(l.lines)] {
		l.lines[i] = line{text: rec.text[from:x.end], at: x.at, id: x.id}
		from = x.end + len("\n")
	}
	r.tryParts(&l)
}

// recordLines yields the lines of a record. During the iteration, sc.fields are the fields of the current line.
func (r *run) recordLines(l *line) iter.Seq[*line] {
	return func(yield func(*line) bool) {
		r.inBlock = true
		defer func() {
			r.inBlock = false
			r.sc.prepare(l.text)
		}()
		for i := range l.lines {
			r.sc.prepare(l.lines[i].text)
			if !yield(&l.lines[i]) {
				return
			}
		}
	}
}
