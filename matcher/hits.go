package matcher

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"

	"crowsnest/matcher/internal/lines"
	"crowsnest/rules"
)

// line is a logical line or a record on which parts are tried. The first hit computes the values that all its hits
// share.
type line struct {
	text      []byte
	at        moment
	str       string
	id        uint64 // fingerprint; zero if it is not computed yet
	made      bool
	lines     []line     // lines of a klog block
	aloneHits []aloneHit // hits of single lines of a panic
}

func (r *run) addHit(pt *part, l *line) {
	if r.buf == nil {
		r.buf = new(Buffer) // a new buffer, so that the caller owns the memory of the hits
	}
	if !l.made {
		l.made, l.str, l.at = true, r.buf.copyText(l.text), r.resolveTime(l.at)
		if l.id == 0 {
			l.id = r.lineFingerprint(l.text, l.at)
		}
	}
	values, at, id := r.captureValues(pt, l), l.at, l.id
	if a := findAlone(l.aloneHits, pt); a != nil {
		at, id = a.at, ^a.id
		copy(values, a.key)
	}
	if r.inPanic != nil {
		r.inPanic.noteAlone(pt, l, values)
	}
	h := r.buf.appendHit(r.s.hits)
	h.Rule, h.Part, h.Values, h.Labels = pt.rule, pt.role, values, r.s.labels
	h.Time, h.TextTime, h.Untimed = at.time, at.fromText, !at.own && !at.fromText
	h.Line, h.LineNumber, h.ID = l.str, at.number, id
}

func (r *run) captureValues(pt *part, l *line) []string {
	names := pt.rule.CapturedNames
	if len(names) == 0 {
		return nil
	}
	sc := r.sc
	sc.values = slices.Grow(sc.values[:0], len(names))[:len(names)]
	clear(sc.values)
	if !pt.decided { // if part.decided is set, the condition captures nothing and may not have been evaluated
		pt.cond.setCaptures(sc, l.text)
	}
	out := r.buf.makeStrings(len(names))
	for i, name := range names {
		if len(sc.values[i]) == 0 {
			if v := r.s.labels[name]; v != "" {
				out[i] = v
				continue
			}
			sc.values[i] = streamField(&sc.fields, pt.role.SelectorOf(pt.rule), name, r.s.opt.Lenient)
		}
		out[i] = r.buf.copyText(sc.values[i])
	}
	clear(sc.values)
	if l.lines != nil && slices.Contains(out, "") {
		r.fillFromRecord(out, pt, l)
	}
	return out
}

// streamField returns the value of a field of the line, for a name that is neither captured nor a label. unknown means
// that the stream may have labels that are not stated. Then a field in the text is ignored if the name describes where
// the program runs, such as pod.
func streamField(f *lines.Fields, from rules.Selector, name string, unknown bool) []byte {
	if unknown && from.StatesPlace(name) {
		return f.LookupOutside(name)
	}
	v, _ := f.Lookup(name)
	return v
}

// fillFromRecord adds the values that a record as a whole lacks. The values come from the first line of the record that
// satisfies the condition by itself, because a line of a block may have fields that the block as a whole lacks.
func (r *run) fillFromRecord(out []string, pt *part, l *line) {
	for x := range r.recordLines(l) {
		if pt.cond.holds(r.sc, x.text) {
			for i, v := range r.captureValues(pt, x) {
				out[i] = cmp.Or(out[i], v)
			}
			return
		}
	}
}

// lineFingerprint returns a hash that identifies a line across restarts. For a line without a time, the time of arrival
// and the line number are used, so its hash does not survive a restart. Equal lines with the same time get different
// hashes if the source reports offsets.
func (r *run) lineFingerprint(text []byte, m moment) uint64 {
	if r.buf != nil && r.buf.withoutIDs {
		return 0
	}
	at, number := m.time, uint64(0)
	if !m.own {
		at, number = r.now, uint64(m.number)+1
	}
	var b [32]byte
	binary.LittleEndian.PutUint64(b[0:], r.s.identity)
	binary.LittleEndian.PutUint64(b[8:], uint64(at.UnixNano()))
	binary.LittleEndian.PutUint64(b[16:], number)
	binary.LittleEndian.PutUint64(b[24:], xxhash.Sum64(text))
	id := xxhash.Sum64(b[:])
	if r.number > 0 {
		binary.LittleEndian.PutUint64(b[0:], id)
		binary.LittleEndian.PutUint64(b[8:], r.number)
		return xxhash.Sum64(b[:16])
	}
	if s := r.s; s.placed && m.own {
		if s.assumed != nil && s.assumed.first == 0 {
			s.assumed.first = at.UnixNano()
		}
		id = numberedFingerprint(id, s.same.countEqual(at.UnixNano(), id, m.place))
	}
	return id
}

func hashLabels(labels Labels, ignored []string) uint64 {
	var names []string
	for name := range labels {
		if !slices.Contains(ignored, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var b []byte
	for _, name := range names {
		for _, s := range []string{name, labels[name]} {
			b = binary.AppendUvarint(b, uint64(len(s)))
			b = append(b, s...)
		}
	}
	return xxhash.Sum64(b)
}

// maxSame is the maximum number of different lines with the same time whose repetitions are counted.
const maxSame = 4096

// sameTimeLines counts equal lines with the same time, because some container runtimes give the same time to all lines
// that they read at once. It holds only lines that have the newest time and a hit.
type sameTimeLines struct {
	at    int64 // time of the lines in nanoseconds since 1970; zero if there was no line yet
	newer int64 // place of the newest line
	first equalLine
	more  map[uint64]equalLine // all lines by fingerprint; nil if there is only one
}

type equalLine struct {
	id    uint64
	place int64 // place of the newest equal line
	n     uint32
}

// SetOffset sets the offset in the log of the stream's next byte. Afterwards, equal lines with the same time are
// different lines if their offsets differ, and a line that is read again is recognized. A source that does not know
// offsets does not call it. Then equal lines with the same time count as one line.
func (s *Stream) SetOffset(offset int64) { s.base, s.placed = offset-s.counters.Bytes, true }

// countEqual returns the number of equal lines of the same time before the line at place. If place is before the newest
// line, the log is being read again and the count restarts.
func (g *sameTimeLines) countEqual(t int64, id uint64, place int64) uint32 {
	if g.at != t || place < g.newer {
		*g = sameTimeLines{at: t, newer: place, first: equalLine{id: id, place: place}}
		return 0
	}
	g.newer = place
	e, known := g.first, g.first.id == id
	if !known {
		e, known = g.more[id]
	}
	switch {
	case !known && len(g.more) >= maxSame:
		return 0
	case !known:
		e = equalLine{id: id, place: place}
	case place > e.place:
		e.place, e.n = place, e.n+1
	}
	if e.id == g.first.id {
		g.first = e
		return e.n
	}
	if g.more == nil {
		g.more = map[uint64]equalLine{}
	}
	g.more[id] = e
	return e.n
}

// numberedFingerprint returns the fingerprint of a line before which n equal lines with the same time were read. id is
// the fingerprint without this number.
func numberedFingerprint(id uint64, n uint32) uint64 {
	if n == 0 {
		return id
	}
	var b [12]byte
	binary.LittleEndian.PutUint64(b[0:], id)
	binary.LittleEndian.PutUint32(b[8:], n)
	return xxhash.Sum64(b[:])
}
