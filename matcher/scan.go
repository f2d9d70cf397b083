package matcher

import (
	"bytes"
	"slices"
	"time"

	"crowsnest/matcher/internal/lines"
)

// Scan matches a block of whole lines and returns the hits, in the order in which the
// lines are completed. The last line may lack its newline; it still counts as a whole
// line. now is the time of arrival. The block is not kept.
//
// A line that matches nothing costs no allocation.
func (p *Program) Scan(s *Stream, block []byte, now time.Time) []Hit {
	return p.ScanInto(nil, s, block, now)
}

// ScanInto is Scan with hits in reused memory: they and their texts are valid until the
// next call with the same buffer, and for as long as the block does not change. With a nil
// buffer the hits own their memory.
func (p *Program) ScanInto(buf *Buffer, s *Stream, block []byte, now time.Time) []Hit {
	s.choose(p)
	if len(s.sel.parts) == 0 && !buf.wantsLines() {
		s.skip(block)
		buf.drop()
		return nil
	}
	s.sel.finder.learn(p, block)
	r := p.begin(buf, block, s, now)
	defer p.end(r)
	r.sieve.prefilter.Lines(&r.sc.blockMarks, block, func(start, end int, may bool) {
		r.nul = r.sc.blockMarks.NUL
		if raw := block[start:end]; r.everyLine || !r.pass(raw, may) {
			if r.textAt = start; r.nul || !r.sieve.prefilter.Marks() {
				r.textAt = -1
			}
			r.line(raw, s.counters.Bytes+int64(start))
		}
	})
	r.textAt = -1
	s.counters.Bytes += int64(len(block))
	if s.opt.Join == JoinBlock {
		r.endRecord(0)
		r.endRecord(1)
	}
	return r.hits()
}

// Match matches one record. The result is as that of Scan.
func (p *Program) Match(s *Stream, rec Record) []Hit { return p.MatchInto(nil, s, rec) }

// MatchInto is Match with hits in reused memory, as with ScanInto; the text of the record is
// the block.
func (p *Program) MatchInto(buf *Buffer, s *Stream, rec Record) []Hit {
	s.choose(p)
	s.counters.Lines++
	s.counters.Bytes += int64(len(rec.Text))
	if len(s.sel.parts) == 0 && !buf.wantsLines() {
		s.counters.Evaluated++
		s.drop()
		buf.drop()
		return nil
	}
	s.sel.finder.learn(p, rec.Text)
	r := p.begin(buf, rec.Text, s, rec.Time)
	defer p.end(r)
	r.nul = bytes.IndexByte(rec.Text, 0) >= 0
	r.fields, r.number = rec.Fields, rec.Number
	at := moment{number: s.counters.Lines, parts: 1, place: s.base + s.counters.Bytes - int64(len(rec.Text)), own: !rec.Time.IsZero(), time: rec.Time}
	text := trimCR(r.withoutNUL(rec.Text))
	if rec.Time.IsZero() && s.opt.TextTime {
		t, ok := lines.TextTime(text, r.until)
		at = r.dated(at, t, ok)
	}
	r.logical(0, text, at)
	return r.hits()
}

// Flush matches the incomplete lines and records of the stream as if they were complete. The result
// is as that of Scan.
func (p *Program) Flush(s *Stream, now time.Time) []Hit { return p.FlushInto(nil, s, now) }

// FlushInto is Flush with hits in reused memory, as with ScanInto.
func (p *Program) FlushInto(buf *Buffer, s *Stream, now time.Time) []Hit {
	s.choose(p)
	r := p.begin(buf, nil, s, now)
	defer p.end(r)
	order := []int{0, 1}
	if end := s.counters.Bytes; s.unfinishedAt(1, end) < s.unfinishedAt(0, end) {
		slices.Reverse(order)
	}
	for _, k := range order {
		if s.open[k].parts > 0 {
			r.complete(k)
		}
		s.open[k].skipping = false
		r.endRecord(k)
	}
	return r.hits()
}

// skip counts lines to which no rule applies, and drops incomplete ones.
func (s *Stream) skip(block []byte) {
	n := int64(bytes.Count(block, []byte("\n")))
	if len(block) > 0 && block[len(block)-1] != '\n' {
		n++
	}
	s.counters.Lines += n
	s.counters.Evaluated += n
	s.counters.Bytes += int64(len(block))
	s.drop()
}

// drop counts what is incomplete as evaluated: no rule applies to it.
func (s *Stream) drop() {
	for i := range s.open {
		s.counters.Evaluated += s.open[i].parts
		s.open[i] = pending{}
		if rec := s.records[i]; rec != nil {
			s.counters.Evaluated += rec.parts
			s.records[i] = nil
		}
	}
}

// moment is when and where a logical line was written. Its time is parsed on demand:
// most lines match nothing.
type moment struct {
	number int64  // number of the first physical line
	parts  int64  // physical lines
	place  int64  // place of the first line in the log, if the stream has places
	stamp  []byte // nil if time holds it, unless undated is set

	time     time.Time
	own      bool // the line states the time itself
	fromText bool
	undated  bool // the line is the last of run.undated
}

// resolve returns the moment with its time. An invalid stamp is replaced by the time of
// arrival.
func (r *run) resolve(m moment) moment {
	switch {
	case m.undated:
		m.undated = false
		own := r.date()
		return r.dated(m, r.s.last, own)
	case m.stamp == nil:
		return m
	}
	t, ok := r.sc.stamps.Time(m.stamp)
	if m.stamp, m.time, m.own = nil, t, ok; !ok {
		m.time = r.now
	}
	return m
}

// run is one call of Scan, Match or Flush.
type run struct {
	s         *Stream
	sel       *selection
	sieve     *sieve // sieve of sel
	sc        *scratch
	now       time.Time
	until     time.Time // supplies the year of times without one
	buf       *Buffer   // nil if there is no hit yet, and no buffer of the caller
	everyLine bool      // the buffer keeps it
	watch     bool      // reports whether lines are searched for unmatched errors
	doubted   bool      // infrastructure rules do not trust the namespace of the stream
	searched  int       // lines without a level that may still be searched for words
	mild      int       // lines with a harmless one
	nul       bool      // there are NUL bytes
	fields    []Field   // fields of the record, beside those in its text
	number    uint64    // number of the record; zero if it has none
	inPanic   *record   // record of the panic that the line belongs to
	inBlock   bool      // the line is one of a block of klog, and tried alone
	// textAt is where in the block the text of the physical line begins, in which Lines has
	// searched already. It is -1 when anything else is matched.
	textAt int
	// TextTime: what may have a time that is not read yet. One of them is nil.
	prev    []byte // stamp of the newest envelope
	undated []byte // the lines of the block since then, or since the last that was dated
}

func (p *Program) begin(buf *Buffer, block []byte, s *Stream, now time.Time) *run {
	if buf != nil {
		buf.reset()
		buf.block = block
	}
	sc := p.scratches.Get().(*scratch)
	sc.fit(s.sel)
	r := &sc.run
	*r = run{s: s, sel: s.sel, sieve: s.sel.finder.sieve.Load(), sc: sc, now: now, until: now, buf: buf, textAt: -1}
	if !s.opt.Until.IsZero() {
		r.until = s.opt.Until
	}
	if buf != nil {
		r.everyLine, r.watch, r.searched, r.mild = buf.everyLine, buf.watch, buf.searched, buf.searched/4
		r.doubted = p.doubts != nil && s.labels["namespace"] != "" && !p.doubts.Has(s.labels["namespace"])
		if buf.searched < 0 {
			r.mild = buf.searched
		}
	}
	return r
}

// end returns the scratch to the pool, without references to the block or to hits.
func (p *Program) end(r *run) {
	r.settle()
	r.s.hits = len(r.hits())
	sc := r.sc
	sc.run = run{}
	sc.read(nil)
	p.scratches.Put(sc)
}

// hits returns what was found so far, nil if there is nothing.
func (r *run) hits() []Hit {
	if r.buf == nil || len(r.buf.hits) == 0 {
		return nil
	}
	return r.buf.hits
}

// line processes one physical line, without its newline, that starts at byte start of
// the stream.
func (r *run) line(raw []byte, start int64) {
	c := &r.s.counters
	c.Lines++
	at := moment{number: c.Lines, parts: 1, place: r.s.base + start}
	if r.nul {
		raw = r.withoutNUL(raw)
	}
	e, ok := r.unwrap(raw)
	if !ok {
		r.logical(0, trimCR(raw), r.textMoment(raw, at))
		return
	}
	if r.s.opt.TextTime {
		if r.undated != nil {
			r.date()
		}
		r.sc.prev = append(r.sc.prev[:0], e.Stamp...)
		r.prev = r.sc.prev
	}
	at.stamp = e.Stamp
	if r.textAt >= 0 {
		r.textAt += len(raw) - len(e.Text)
	}
	k := 0
	if e.Stderr {
		k = 1
	}
	if o := &r.s.open[k]; e.Partial || o.parts > 0 || o.skipping {
		r.join(k, e, at, start)
		return
	}
	r.logical(k, trimCR(e.Text), at)
}

// unwrap reads the envelope of a line. If the format is not given it is that of
// the newest line that had one; a line of the other kind changes it.
func (r *run) unwrap(raw []byte) (e lines.Envelope, ok bool) {
	s := r.s
	auto := s.opt.Format == FormatAuto
	if s.envelope != FormatDocker && s.opt.Format != FormatText {
		if e, ok = lines.CRI(raw); ok {
			s.envelope = FormatCRI
			return e, true
		}
	}
	if s.envelope == FormatDocker || auto {
		if e, ok = r.sc.docker.Read(raw); ok {
			s.envelope = FormatDocker
			r.textAt = -1 // JSON escapes letters
			return e, true
		}
	}
	if auto && s.envelope == FormatDocker {
		if e, ok = lines.CRI(raw); ok {
			s.envelope = FormatCRI
			return e, true
		}
	}
	if s.envelope == FormatCRI || s.envelope == FormatDocker {
		s.counters.Unparsed++
	}
	return e, false
}

// textMoment returns when a line without an envelope was written: the time that it
// states, the time of the line before it, or the time of arrival. resolve finds out
// which.
func (r *run) textMoment(raw []byte, at moment) moment {
	at.time = r.now
	switch {
	case !r.s.opt.TextTime:
		return at
	case r.nul, r.everyLine: // raw may not be part of the block, or its time is needed anyway
		t, ok := lines.TextTime(trimCR(raw), r.until)
		return r.dated(at, t, ok)
	case r.undated == nil:
		r.settle()
		r.undated = raw
	default:
		r.undated = r.undated[:len(r.undated)+1+len(raw)] // raw is the next line of the block
	}
	at.undated = true
	return at
}

// dated returns the moment of a line whose text states a time, if ok is set.
func (r *run) dated(at moment, t time.Time, ok bool) moment {
	at.time = r.now
	r.settle()
	switch {
	case ok:
		r.s.last = t
		at.time, at.own, at.fromText = t, true, true
	case !r.s.last.IsZero():
		at.time, at.fromText = r.s.last, true
	case r.s.assumed != nil:
		r.s.assumed.untimed = true
	}
	return at
}

// settle reads the time of the newest line that has one.
func (r *run) settle() {
	if r.prev != nil {
		if t, ok := r.sc.stamps.Time(r.prev); ok {
			r.s.last = t
		}
		r.prev = nil
	}
	if r.undated != nil {
		r.date()
	}
}

// date reads the time of the newest undated line that has one, and reports whether that
// is the last of them. No line is parsed twice.
func (r *run) date() (own bool) {
	rest := r.undated
	r.undated = nil
	for own = true; ; own = false {
		k := bytes.LastIndexByte(rest, '\n')
		if t, ok := lines.TextTime(trimCR(rest[k+1:]), r.until); ok {
			r.s.last = t
			return own
		}
		if k < 0 {
			return false
		}
		rest = rest[:k]
	}
}

// withoutNUL returns the line without NUL bytes: a file has them where the power
// failed before its blocks were written.
func (r *run) withoutNUL(raw []byte) []byte {
	if !r.nul || bytes.IndexByte(raw, 0) < 0 {
		return raw
	}
	out := r.sc.clean[:0]
	for len(raw) > 0 {
		k := bytes.IndexByte(raw, 0)
		if k < 0 {
			k = len(raw)
		}
		out = append(out, raw[:k]...)
		for raw = raw[k:]; len(raw) > 0 && raw[0] == 0; raw = raw[1:] {
		}
	}
	r.sc.clean = out
	return out
}

// trimCR removes one carriage return from the end.
func trimCR(text []byte) []byte {
	if k := len(text) - 1; k >= 0 && text[k] == '\r' {
		return text[:k]
	}
	return text
}
