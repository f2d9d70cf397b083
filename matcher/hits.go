package matcher

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"

	"crowsnest/matcher/internal/lines"
	"crowsnest/rules"
)

// line is a logical line, or a record, that has hits. The first hit computes what all
// share.
type line struct {
	text  []byte
	at    moment
	str   string
	id    uint64 // zero if not computed yet
	made  bool
	lines []line  // lines of a klog block
	skip  []*part // parts that lines of a panic fulfil
}

func (r *run) hit(pt *part, l *line) {
	if r.buf == nil {
		r.buf = new(Buffer) // the caller owns it
	}
	if r.inPanic != nil && !slices.Contains(r.inPanic.alone, pt) {
		r.inPanic.alone = append(r.inPanic.alone, pt)
	}
	if !l.made {
		l.made, l.str, l.at = true, r.buf.textOf(l.text), r.resolve(l.at)
		if l.id == 0 {
			l.id = r.fingerprint(l.text, l.at)
		}
	}
	values := r.values(pt, l)
	h := r.buf.add(r.s.hits)
	h.Rule, h.Part, h.Values, h.Labels = pt.rule, pt.role, values, r.s.labels
	h.Time, h.TextTime, h.Untimed = l.at.time, l.at.fromText, !l.at.own && !l.at.fromText
	h.Line, h.LineNumber, h.ID = l.str, l.at.number, l.id
}

// values returns the captured values of a line that matches one part of the rule.
func (r *run) values(pt *part, l *line) []string {
	names := pt.rule.CapturedNames
	if len(names) == 0 {
		return nil
	}
	sc := r.sc
	sc.values = slices.Grow(sc.values[:0], len(names))[:len(names)]
	clear(sc.values)
	if !pt.decided { // else nothing is captured, and no branch was chosen
		pt.cond.collect(sc, l.text)
	}
	out := r.buf.strings(len(names))
	for i, name := range names {
		if len(sc.values[i]) == 0 {
			if v := r.s.labels[name]; v != "" {
				out[i] = v
				continue
			}
			sc.values[i] = fieldOf(&sc.fields, pt.role.From(pt.rule), name, r.s.opt.Lenient)
		}
		out[i] = r.buf.textOf(sc.values[i])
	}
	clear(sc.values)
	if l.lines != nil && slices.Contains(out, "") {
		r.fill(out, pt, l)
	}
	return out
}

// fieldOf returns the value that a field of a line gives to a name of a part with that selector.
// unknown means that the stream may have labels that it does not state: a field in the text then
// does not stand for the place of the program.
func fieldOf(f *lines.Fields, from rules.Selector, name string, unknown bool) []byte {
	if unknown && from.StatesPlace(name) {
		return f.Beside(name)
	}
	v, _ := f.Lookup(name)
	return v
}

// fill sets the values that a record lacks to those of the first of its lines that fulfils
// the condition itself: a line within a block has fields that the record does not have.
func (r *run) fill(out []string, pt *part, l *line) {
	for x := range r.each(l) {
		if pt.cond.holds(r.sc, x.text) {
			for i, v := range r.values(pt, x) {
				out[i] = cmp.Or(out[i], v)
			}
			return
		}
	}
}

// fingerprint identifies a line across restarts. Lines that state no time are
// distinguished by arrival and number, which does not survive a restart. Equal lines of
// one time are distinguished by their places, if the source knows them.
func (r *run) fingerprint(text []byte, m moment) uint64 {
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
		id = numbered(id, s.same.number(at.UnixNano(), id, m.place))
	}
	return id
}

// identityOf hashes the labels without the ignored ones.
func identityOf(labels Labels, ignored []string) uint64 {
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
