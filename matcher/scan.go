package matcher

import (
	"bytes"
	"slices"
	"time"

	"crowsnest/matcher/internal/lines"
)

// Scan matches a block of whole lines and returns the hits, in the order in which the lines are completed. The last
// line counts as a whole line even without its newline. now is the time of arrival. Scan does not keep a reference to
// the block.
//
// A line that matches nothing causes no allocation.
func (p *Program) Scan(s *Stream, block []byte, now time.Time) []Hit {
	return p.ScanInto(nil, s, block, now)
}

// ScanInto is Scan, but buf owns the memory of the hits. The hits and their texts are valid until the next call with
// the same buffer, as long as the block does not change. If buf is nil, the hits own their memory.
func (p *Program) ScanInto(buf *Buffer, s *Stream, block []byte, now time.Time) []Hit {
	s.chooseRules(p)
	if len(s.sel.parts) == 0 && !buf.wantsEveryLine() {
		s.skipBlock(block)
		buf.dropComplaints()
		return nil
	}
	s.sel.finder.keepSample(p, block)
	r := p.beginRun(buf, block, s, now)
	defer p.endRun(r)
	r.sieve.prefilter.Lines(&r.sc.blockMarks, block, func(start, end int, may bool) {
		r.nul = r.sc.blockMarks.NUL
		if raw := block[start:end]; !r.passOver(raw, may) {
			if r.textAt = start; r.nul || !r.sieve.prefilter.HasTexts() {
				r.textAt = -1
			}
			r.scanLine(raw, s.counters.Bytes+int64(start))
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

// Match matches one record. Its result is like that of Scan.
func (p *Program) Match(s *Stream, rec Record) []Hit { return p.MatchInto(nil, s, rec) }

// MatchInto is Match, but buf owns the memory of the hits, as in ScanInto. The text of the record must not change while
// the hits are used.
func (p *Program) MatchInto(buf *Buffer, s *Stream, rec Record) []Hit {
	s.chooseRules(p)
	s.counters.Lines++
	s.counters.Bytes += int64(len(rec.Text))
	if len(s.sel.parts) == 0 && !buf.wantsEveryLine() {
		s.counters.Evaluated++
		s.dropIncomplete()
		buf.dropComplaints()
		return nil
	}
	s.sel.finder.keepSample(p, rec.Text)
	r := p.beginRun(buf, rec.Text, s, rec.Time)
	defer p.endRun(r)
	r.nul = bytes.IndexByte(rec.Text, 0) >= 0
	r.fields, r.number = rec.Fields, rec.Number
	at := moment{number: s.counters.Lines, parts: 1, place: s.base + s.counters.Bytes - int64(len(rec.Text)), own: !rec.Time.IsZero(), time: rec.Time}
	text := trimCR(r.withoutNUL(rec.Text))
	if rec.Time.IsZero() && s.opt.TextTime {
		t, ok := lines.TextTime(text, r.until)
		at = r.datedMoment(at, t, ok)
	}
	r.acceptLine(0, text, at)
	return r.hits()
}

// Flush matches the incomplete lines and records of the stream as if they were complete. Its result is like that of
// Scan.
func (p *Program) Flush(s *Stream, now time.Time) []Hit { return p.FlushInto(nil, s, now) }

// FlushInto is Flush, but buf owns the memory of the hits, as in ScanInto.
func (p *Program) FlushInto(buf *Buffer, s *Stream, now time.Time) []Hit {
	s.chooseRules(p)
	r := p.beginRun(buf, nil, s, now)
	defer p.endRun(r)
	order := []int{0, 1}
	if s.firstUnfinished(1) < s.firstUnfinished(0) {
		slices.Reverse(order)
	}
	for _, k := range order {
		if s.open[k].parts > 0 {
			r.completeLine(k)
		}
		s.open[k].skipping = false
		r.endRecord(k)
	}
	return r.hits()
}

// skipBlock counts the lines of a block to which no rule applies, and drops incomplete lines.
func (s *Stream) skipBlock(block []byte) {
	n := int64(bytes.Count(block, []byte("\n")))
	if len(block) > 0 && block[len(block)-1] != '\n' {
		n++
	}
	s.counters.Lines += n
	s.counters.Evaluated += n
	s.counters.Bytes += int64(len(block))
	s.dropIncomplete()
}

// dropIncomplete counts incomplete lines as evaluated, because no rule applies to them.
func (s *Stream) dropIncomplete() {
	for i := range s.open {
		s.counters.Evaluated += s.open[i].parts
		s.open[i] = pendingLine{}
		if rec := s.records[i]; rec != nil {
			s.counters.Evaluated += rec.parts
			s.records[i] = nil
		}
	}
}

// moment is the time and the place at which a logical line was written. The time is parsed only when it is needed,
// because most lines match nothing.
type moment struct {
	number int64  // number of the first physical line in the stream
	parts  int64  // number of physical lines
	place  int64  // offset of the first line in the log, if the source reports offsets
	stamp  []byte // unparsed timestamp; nil if time is known or undated is set

	time     time.Time
	own      bool // whether the line itself has the time
	fromText bool
	undated  bool // whether the line is the last of run.undated, so that its time is not known yet
}

// resolveTime returns the moment with its time. If the timestamp is invalid, the time is the time of arrival.
func (r *run) resolveTime(m moment) moment {
	switch {
	case m.undated:
		m.undated = false
		own := r.readUndated()
		return r.datedMoment(m, r.s.last, own)
	case m.stamp == nil:
		return m
	}
	t, ok := r.sc.stamps.Time(m.stamp)
	if m.stamp, m.time, m.own = nil, t, ok; !ok {
		m.time = r.now
	}
	return m
}

// run is the state of one call of Scan, Match or Flush.
type run struct {
	s        *Stream
	sel      *selection
	sieve    *sieve
	sc       *scratch
	now      time.Time
	until    time.Time // determines the year of times in texts without a year, as the argument now of TimeOf
	buf      *Buffer   // memory of the hits; nil until the first hit if the caller passed no buffer
	watch    bool      // whether lines are searched for complaints
	doubted  bool      // whether infrastructure rules do not trust the namespace of the stream
	searched int       // number of lines without a level that may still be searched for words
	mild     int       // number of lines with a harmless level that may still be searched for words
	nul      bool      // whether the block has NUL bytes
	fields   []Field   // fields of the record in addition to the fields in its text
	number   uint64    // number of the record; zero if it has none
	inPanic  *record   // record of the panic to which the line belongs; nil if there is none
	inBlock  bool      // whether the line is one line of a klog block that is matched separately
	// textAt is the offset in the block of the text of the current physical line, if prefilter.Lines has searched it.
	// It is -1 if any other text is matched.
	textAt int
	// With TextTime, prev or undated holds a time that is not parsed yet. At most one of them is not nil.
	prev    []byte // timestamp of the newest envelope
	undated []byte // lines of the block in which the newest time has not been searched for yet
}

func (p *Program) beginRun(buf *Buffer, block []byte, s *Stream, now time.Time) *run {
	if buf != nil {
		buf.reset()
		buf.block = block
	}
	sc := p.scratches.Get().(*scratch)
	sc.resize(s.sel)
	r := &sc.run
	*r = run{s: s, sel: s.sel, sieve: s.sel.finder.sieve.Load(), sc: sc, now: now, until: now, buf: buf, textAt: -1}
	if !s.opt.Until.IsZero() {
		r.until = s.opt.Until
	}
	if buf != nil {
		r.watch, r.searched, r.mild = buf.watch, buf.searched, buf.searched/4
		r.doubted = p.trusted != nil && s.labels["namespace"] != "" && !p.trusted.Has(s.labels["namespace"])
		if buf.searched < 0 {
			r.mild = buf.searched
		}
	}
	return r
}

// endRun returns the scratch to the pool, after dropping its references to the block and to hits.
func (p *Program) endRun(r *run) {
	r.readNewestTime()
	r.s.hits = len(r.hits())
	sc := r.sc
	sc.run = run{}
	sc.prepare(nil)
	p.scratches.Put(sc)
}

func (r *run) hits() []Hit {
	if r.buf == nil || len(r.buf.hits) == 0 {
		return nil
	}
	return r.buf.hits
}

// passOver counts a line that needs no other work. Such a line is a whole logical line in a usual CRI envelope, and is
// no hit, no part of a record and no complaint. Most lines are like this, so they must cost very little. If the line
// needs more work, passOver returns false and changes nothing. may is the argument of the function that
// prefilter.Filter.Lines calls.
func (r *run) passOver(raw []byte, may bool) bool {
	s := r.s
	if may && r.sieve.prefilter.HasTexts() || r.nul || r.undated != nil || s.envelope == FormatDocker || s.opt.Format == FormatText {
		return false
	}
	stderr, ok := lines.FullCRI(raw)
	if !ok {
		return false
	}
	k := 0
	if stderr {
		k = 1
	}
	if o := &s.open[k]; o.parts > 0 || o.skipping || s.records[k] != nil {
		return false
	}
	text := trimCR(raw[lines.HeaderCRI:])
	if len(text) > MaxLine || s.opt.Join != JoinNone && opensRecord(text) || r.mayMatch(text, may) {
		return false
	}
	if searched, mild := r.searched, r.mild; r.watch && r.complains(text) {
		r.searched, r.mild = searched, mild // keepComplaint will count the line again
		return false
	}
	s.envelope = FormatCRI
	s.counters.Lines++
	s.counters.Evaluated++
	if s.opt.TextTime {
		r.prev = raw[:lines.StampCRI]
	}
	return true
}

// mayMatch reports whether some part of a rule has to be tried on a text. may is set if the text may contain a text of
// the prefilter.
func (r *run) mayMatch(text []byte, may bool) bool {
	v, sc := r.sieve, r.sc
	if len(v.always) > 0 || len(v.escaped) > 0 && lines.HasLetterEscape(text) {
		return true
	}
	if may {
		sc.found = v.prefilter.Append(sc.found[:0], text, &sc.lineMarks)
	}
	return may && len(sc.found) > 0
}

// scanLine processes one physical line without its newline. The line begins at byte start of the stream.
func (r *run) scanLine(raw []byte, start int64) {
	c := &r.s.counters
	c.Lines++
	at := moment{number: c.Lines, parts: 1, place: r.s.base + start}
	if r.nul {
		raw = r.withoutNUL(raw)
	}
	e, ok := r.readEnvelope(raw)
	if !ok {
		r.acceptLine(0, trimCR(raw), r.textMoment(raw, at))
		return
	}
	if r.s.opt.TextTime {
		if r.undated != nil {
			r.readUndated()
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
		r.addPart(k, e, at, start)
		return
	}
	r.acceptLine(k, trimCR(e.Text), at)
}

// readEnvelope reads the envelope of a line. With FormatAuto, it first tries the format of the newest line that had an
// envelope. A line in the other of the two formats becomes the new first choice.
func (r *run) readEnvelope(raw []byte) (e lines.Envelope, ok bool) {
	s := r.s
	auto := s.opt.Format == FormatAuto
	if s.envelope != FormatDocker && s.opt.Format != FormatText {
		if e, ok = lines.ReadCRI(raw); ok {
			s.envelope = FormatCRI
			return e, true
		}
	}
	if s.envelope == FormatDocker || auto {
		if e, ok = r.sc.docker.Read(raw); ok {
			s.envelope = FormatDocker
			r.textAt = -1 // JSON may write letters as escapes, so the text has to be searched again
			return e, true
		}
	}
	if auto && s.envelope == FormatDocker {
		if e, ok = lines.ReadCRI(raw); ok {
			s.envelope = FormatCRI
			return e, true
		}
	}
	if s.envelope == FormatCRI || s.envelope == FormatDocker {
		s.counters.Unparsed++
	}
	return e, false
}

// textMoment returns the moment of a line without an envelope. Its time is the time in the line, otherwise the time of
// the previous line, otherwise the time of arrival. resolveTime finds out which one applies.
func (r *run) textMoment(raw []byte, m moment) moment {
	m.time = r.now
	switch {
	case !r.s.opt.TextTime:
		return m
	case r.nul: // raw may be a copy outside the block
		t, ok := lines.TextTime(trimCR(raw), r.until)
		return r.datedMoment(m, t, ok)
	case r.undated == nil:
		r.readNewestTime()
		r.undated = raw
	default:
		r.undated = r.undated[:len(r.undated)+1+len(raw)] // raw is the next line of the block
	}
	m.undated = true
	return m
}

// datedMoment sets the time in the moment of a line. If ok is set, the time is t, which was read from the text of the
// line. Otherwise it is the time of an earlier line, or the time of arrival.
func (r *run) datedMoment(m moment, t time.Time, ok bool) moment {
	m.time = r.now
	r.readNewestTime()
	switch {
	case ok:
		r.s.last = t
		m.time, m.own, m.fromText = t, true, true
	case !r.s.last.IsZero():
		m.time, m.fromText = r.s.last, true
	case r.s.assumed != nil:
		r.s.assumed.untimed = true
	}
	return m
}

func (r *run) readNewestTime() {
	if r.prev != nil {
		if t, ok := r.sc.stamps.Time(r.prev); ok {
			r.s.last = t
		}
		r.prev = nil
	}
	if r.undated != nil {
		r.readUndated()
	}
}

// readUndated reads the time of the newest undated line that has one, and reports whether that line is the last undated
// line. It parses no line twice.
func (r *run) readUndated() (own bool) {
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

// withoutNUL returns the line without NUL bytes. After a power failure, a file may contain NUL bytes in place of blocks
// that were not written.
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

func trimCR(text []byte) []byte {
	if k := len(text) - 1; k >= 0 && text[k] == '\r' {
		return text[:k]
	}
	return text
}
