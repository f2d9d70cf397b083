package matcher

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"

	"crowsnest/matcher/internal/lines"
	"crowsnest/rules"
)

// line is a logical line or a record with hits. The first hit computes the values that all hits
// share.
type line struct {
	text  []byte
	at    moment
	str   string
	id    uint64 // zero if not computed yet
	made  bool
	lines []line     // lines of a klog block
	alone []aloneHit // hits of single lines of a panic
}

func (r *run) addHit(pt *part, l *line) {
	if r.buf == nil {
		r.buf = new(Buffer) // the caller owns its memory
	}
	if !l.made {
		l.made, l.str, l.at = true, r.buf.copyText(l.text), r.resolveTime(l.at)
		if l.id == 0 {
			l.id = r.lineFingerprint(l.text, l.at)
		}
	}
	values, at, id := r.captureValues(pt, l), l.at, l.id
	if a := findAlone(l.alone, pt); a != nil {
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

// captureValues returns the captured values of a line that matches one part of the rule.
func (r *run) captureValues(pt *part, l *line) []string {
	names := pt.rule.CapturedNames
	if len(names) == 0 {
		return nil
	}
	sc := r.sc
	sc.values = slices.Grow(sc.values[:0], len(names))[:len(names)]
	clear(sc.values)
	if !pt.decided { // a decided part captures nothing and has chosen no branch
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

// streamField returns the value that a field of the line gives to a name of a part with that
// selector. unknown means that the stream may have labels that it does not state. Then a field
// in the text does not state where the program runs.
func streamField(f *lines.Fields, from rules.Selector, name string, unknown bool) []byte {
	if unknown && from.StatesPlace(name) {
		return f.LookupOutside(name)
	}
	v, _ := f.Lookup(name)
	return v
}

// fillFromRecord takes values that a record lacks from the first of its lines that fulfils the
// condition itself, because a line of a block has fields that the record does not have.
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

// lineFingerprint identifies a line across restarts. Lines without a time are distinguished by
// their arrival and number, which do not survive a restart. Equal lines with the same time are
// distinguished by their places, if the source knows places.
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

// hashLabels hashes all labels except the ignored ones.
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
