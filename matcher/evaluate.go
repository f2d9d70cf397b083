package matcher

import (
	"bytes"
	"math/bits"
	"slices"

	"crowsnest/matcher/internal/lines"
	"crowsnest/matcher/internal/prefilter"
)

// scratch is the working memory of a call. Nothing in it survives a call but memory to
// reuse.
type scratch struct {
	run    run
	clean  []byte // line without NUL bytes
	prev   []byte // stamp of the newest envelope
	docker lines.Docker
	stamps lines.Stamps
	fields lines.Fields
	quotes lines.Quotes

	blockMarks prefilter.Marks   // marks of the block
	lineMarks  prefilter.Marks   // marks of a text that is searched alone
	found      []prefilter.Found // texts in the line
	// inField are the texts in a field of a record.
	inField []prefilter.Found
	marks   []uint64 // parts to try, as bits; all unset between lines
	states  []condState
	part    int32 // index of the part that is tried
	// branches are those of the part, as in sieve; nil if nothing is known.
	branches [][]int32
	places   []int // first places of the texts of a condition

	complaint []prefilter.Found // words in the line

	values  [][]byte // values of one hit
	buffers [][]byte // buffers in which values are joined

	dice uint64 // which tries are timed
}

// Bounds of the memory that is kept for the next call, in bytes or elements.
const (
	maxKept    = 64 << 10
	maxBuffers = 4
)

// fit makes the scratch large enough for the parts of a selection, and frees buffers
// that an unusual line made large.
func (sc *scratch) fit(sel *selection) {
	if n := (len(sel.parts) + 63) / 64; len(sc.marks) < n {
		sc.marks = make([]uint64, n)
	}
	sc.docker.Free(maxKept)
	if cap(sc.clean) > maxKept {
		sc.clean = nil
	}
}

func (sc *scratch) takeBuffer() []byte {
	n := len(sc.buffers)
	if n == 0 {
		return nil
	}
	b := sc.buffers[n-1]
	sc.buffers = sc.buffers[:n-1]
	return b[:0]
}

func (sc *scratch) giveBuffer(b []byte) {
	if len(sc.buffers) < maxBuffers {
		sc.buffers = append(sc.buffers, b)
	}
}

// evaluate matches one logical line.
func (r *run) evaluate(text []byte, at moment) {
	r.s.counters.Evaluated += at.parts
	if len(text) > MaxLine {
		text = text[:MaxLine]
		r.s.counters.Truncated++
	}
	if r.everyLine {
		r.keep(text, at, r.mark(text) && r.covered(text))
		return
	}
	before := len(r.hits())
	if r.mark(text) {
		r.try(&line{text: text, at: at})
	}
	if r.watch && r.inPanic == nil && !r.watched(before) {
		r.complain(text, at)
	}
}

// mark marks the parts to try on a text. It returns false if there are none.
func (r *run) mark(text []byte) bool {
	v, sc := r.sieve, r.sc
	if r.textAt >= 0 {
		sc.found = v.prefilter.AppendWithin(sc.found[:0], text, r.textAt, &sc.blockMarks)
	} else {
		sc.found = v.prefilter.Append(sc.found[:0], text, &sc.lineMarks)
	}
	escaped := len(v.escaped) > 0 && lines.HasLetterEscape(text)
	if !r.markByFields() && len(sc.found) == 0 && len(v.always) == 0 && !escaped {
		return false
	}
	for _, t := range sc.found {
		sc.mark(v.users[t.Text])
	}
	sc.mark(v.always)
	if escaped {
		sc.mark(v.escaped)
	}
	return true
}

// markByFields marks the parts of which a text is in a field of the record. A part that a
// text in the line decides has no condition on fields.
func (r *run) markByFields() (marked bool) {
	sel, sc := r.sel, r.sc
	for _, f := range r.fields {
		if !sel.fields[string(f.Name)] {
			continue
		}
		sc.inField = r.sieve.prefilter.Append(sc.inField[:0], f.Value, &sc.lineMarks)
		for _, t := range sc.inField {
			for _, k := range r.sieve.users[t.Text] {
				if !sel.parts[k].decided {
					sc.mark([]int32{k})
					marked = true
				}
			}
		}
	}
	return marked
}

func (sc *scratch) mark(parts []int32) {
	for _, k := range parts {
		sc.marks[k>>6] |= 1 << (k & 63)
	}
}

// try tries the marked parts in order.
func (r *run) try(l *line) {
	sc := r.sc
	sc.read(l.text, r.fields...)
	copied := r.copied(l.text)
	for w, mask := range sc.marks {
		if sc.marks[w] = 0; copied {
			continue
		}
		for ; mask != 0; mask &= mask - 1 {
			r.tryPart(r.part(w<<6|bits.TrailingZeros64(mask)), l)
		}
	}
}

// copied reports whether a line is the record of a log shipper about another pod than the one
// that writes it: a collector whose output is its own log repeats what tenants say.
func (r *run) copied(text []byte) bool {
	pod := r.s.labels["pod"]
	if pod == "" || len(text) == 0 || text[0] != '{' || !bytes.Contains(text, []byte(`"kubernetes"`)) {
		return false
	}
	for _, name := range []string{"kubernetes.pod_name", "kubernetes.pod.name"} {
		if of, ok := r.sc.fields.Lookup(name); ok {
			return string(of) != pod
		}
	}
	return false
}

// read prepares the fields and quotations of a text for conditions.
func (sc *scratch) read(text []byte, more ...lines.Field) {
	sc.fields.Reset(text, more...)
	sc.quotes.Reset(text)
	sc.quotes.Block = sc.run.inBlock
}

// holds reports whether a text fulfils the condition of the part that is tried.
func (pt *part) holds(sc *scratch, text []byte) bool {
	return pt.decided && sc.saysText(pt.cond.voices) || pt.cond.holds(sc, text)
}

// saysText reports whether a text that the part was found by is in one of the voices.
func (sc *scratch) saysText(voices lines.Voice) bool {
	v := sc.run.sieve
	return voices == everyVoice || slices.ContainsFunc(sc.found, func(t prefilter.Found) bool {
		return slices.Contains(v.users[t.Text], sc.part) && sc.quotes.Says(t.At, t.At+len(v.texts[t.Text].Text), voices)
	})
}

// part returns a part that is tried next.
func (r *run) part(k int) *part {
	r.sc.part, r.sc.branches = int32(k), nil
	if r.sieve.branches != nil {
		r.sc.branches = r.sieve.branches[k]
	}
	return r.sel.parts[k]
}

// mayHold returns false if the texts in the line exclude the branch with a condition of the
// part that is tried.
func (sc *scratch) mayHold(cond int) bool {
	if sc.branches == nil || sc.branches[cond] == nil {
		return true
	}
	for _, t := range sc.found {
		if slices.Contains(sc.branches[cond], t.Text) {
			return true
		}
	}
	return false
}

// tryPart tries one part. After maxPanics panics its rule is quarantined; other rules
// are not affected.
func (r *run) tryPart(pt *part, l *line) {
	if pt.meter.quarantined() || slices.Contains(l.skip, pt) {
		return
	}
	defer func() {
		if recover() != nil {
			pt.meter.state.Add(1)
		}
	}()
	clock := r.sel.clock
	if clock == nil {
		r.confirm(pt, l)
		return
	}
	weight := r.sc.draw(pt.meter, len(l.text))
	if weight == 0 {
		r.confirm(pt, l)
		return
	}
	began := clock()
	r.confirm(pt, l)
	pt.meter.add(clock()-began, maxTry(pt.rule, len(l.text)), weight, len(l.text))
}

// confirm adds a hit if the line fulfils the condition of a part. If a record does not as a
// whole, its lines are tried one by one.
func (r *run) confirm(pt *part, l *line) {
	if len(r.sc.states) < pt.conds {
		r.sc.states = make([]condState, pt.conds)
	}
	if pt.holds(r.sc, l.text) {
		r.hit(pt, l)
		return
	}
	if l.lines == nil {
		return
	}
	for x := range r.each(l) {
		if pt.cond.holds(r.sc, x.text) {
			r.hit(pt, x)
		}
	}
}
