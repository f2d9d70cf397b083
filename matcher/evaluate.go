package matcher

import (
	"bytes"
	"math/bits"
	"slices"

	"crowsnest/matcher/internal/lines"
	"crowsnest/matcher/internal/prefilter"
)

// scratch is the working memory of a call. The next call reuses the memory, but not the content.
type scratch struct {
	run    run
	clean  []byte // copy of a line without its NUL bytes
	prev   []byte // timestamp of the newest envelope
	docker lines.Docker
	stamps lines.Stamps
	fields lines.Fields
	quotes lines.Quotes

	blockMarks prefilter.Marks       // marks of the whole block, see prefilter
	lineMarks  prefilter.Marks       // marks of a text that is not part of the block, see prefilter
	found      []prefilter.FoundText // texts of the sieve that the line contains
	// inField are the texts of the sieve that a field of a record contains.
	inField []prefilter.FoundText
	marks   []uint64 // bit set of the parts to try; all bits are zero between lines
	states  []condState
	part    int32 // index of the part that is being tried
	// branches are the texts of the branches of the current part, as in sieve.branches. It is nil if the texts are
	// unknown.
	branches [][]int32
	places   []int // first positions of the texts of a condition

	complaint []prefilter.FoundText // complaint words that the line contains

	values  [][]byte // values of one hit
	buffers [][]byte // buffers for values that consist of several pieces

	dice uint64 // random number that selects the evaluations that are timed
}

// Limits of the memory that is kept for the next call, in bytes and in number of buffers.
const (
	maxKept    = 64 << 10
	maxBuffers = 4
)

// resize makes the scratch large enough for the parts of a selection, and frees buffers that an unusual line enlarged.
func (sc *scratch) resize(sel *selection) {
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

func (r *run) matchLine(text []byte, m moment) {
	r.s.counters.Evaluated += m.parts
	if len(text) > MaxLine {
		text = text[:MaxLine]
		r.s.counters.Truncated++
	}
	before := len(r.hits())
	if r.markParts(text) {
		r.tryParts(&line{text: text, at: m})
	}
	if r.watch && r.inPanic == nil && !r.hitSince(before) {
		r.keepComplaint(text, m)
	}
}

// markParts marks the parts of rules whose conditions have to be evaluated on a text. It returns false if there is no
// such part.
func (r *run) markParts(text []byte) bool {
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
		sc.markTried(v.users[t.Text])
	}
	sc.markTried(v.always)
	if escaped {
		sc.markTried(v.escaped)
	}
	return true
}

// markByFields marks the parts that have a required text in an additional field of the record. It skips parts with
// decided set, because these have no condition on fields.
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
					sc.markTried([]int32{k})
					marked = true
				}
			}
		}
	}
	return marked
}

func (sc *scratch) markTried(parts []int32) {
	for _, k := range parts {
		sc.marks[k>>6] |= 1 << (k & 63)
	}
}

func (r *run) tryParts(l *line) {
	sc := r.sc
	sc.prepare(l.text, r.fields...)
	copied, before := r.isCopy(l.text), len(r.hits())
	for w, mask := range sc.marks {
		if sc.marks[w] = 0; copied {
			continue
		}
		for ; mask != 0 && !r.hasEnoughHits(before); mask &= mask - 1 {
			r.tryPart(r.nextPart(w<<6|bits.TrailingZeros64(mask)), l)
		}
	}
}

// hasEnoughHits reports whether further hits of the line are not needed. before is the number of hits before the line.
func (r *run) hasEnoughHits(before int) bool {
	return r.buf != nil && r.buf.everyLine && len(r.buf.hits) > before
}

// isCopy reports whether a line is a log shipper's record about a pod other than the shipper's own. A collector that
// writes its output to its own log would repeat lines of tenants.
func (r *run) isCopy(text []byte) bool {
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

func (sc *scratch) prepare(text []byte, more ...lines.Field) {
	sc.fields.Reset(text, more...)
	sc.quotes.Reset(text)
	sc.quotes.Block = sc.run.inBlock
}

// holds reports whether a text satisfies the condition of the part. The part must be the one that sc.part names.
func (pt *part) holds(sc *scratch, text []byte) bool {
	return pt.decided && sc.saysText(pt.cond.voices) || pt.cond.holds(sc, text)
}

// saysText reports whether a text that made the sieve choose the current part is in one of the voices.
func (sc *scratch) saysText(voices lines.Voice) bool {
	v := sc.run.sieve
	return voices == everyVoice || slices.ContainsFunc(sc.found, func(t prefilter.FoundText) bool {
		return slices.Contains(v.users[t.Text], sc.part) && sc.quotes.HasVoice(t.At, t.At+len(v.texts[t.Text].Text), voices)
	})
}

func (r *run) nextPart(k int) *part {
	r.sc.part, r.sc.branches = int32(k), nil
	if r.sieve.branches != nil {
		r.sc.branches = r.sieve.branches[k]
	}
	return r.sel.parts[k]
}

// mayHold returns false if the texts found in the line prove that a branch of the current part cannot hold. cond is the
// index of the branch's condition.
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

// tryPart evaluates one part. After maxPanics panics the rule is quarantined. Other rules are not affected.
func (r *run) tryPart(pt *part, l *line) {
	if pt.meter.isQuarantined() {
		return
	}
	if a := findAlone(l.aloneHits, pt); a != nil && !a.isTriedOnWhole() {
		return
	}
	defer func() {
		if recover() != nil {
			pt.meter.state.Add(1)
		}
	}()
	clock := r.sel.clock
	if clock == nil {
		r.addIfHolds(pt, l)
		return
	}
	weight := r.sc.drawSample(pt.meter, len(l.text))
	if weight == 0 {
		r.addIfHolds(pt, l)
		return
	}
	began := clock()
	r.addIfHolds(pt, l)
	pt.meter.addSample(pt.rule, clock()-began, weight, len(l.text))
}

// addIfHolds adds a hit if the line satisfies the condition of a part. If the line is a klog block that does not
// satisfy it as a whole, its lines are tried one by one.
func (r *run) addIfHolds(pt *part, l *line) {
	if len(r.sc.states) < pt.conds {
		r.sc.states = make([]condState, pt.conds)
	}
	if pt.holds(r.sc, l.text) {
		r.addHit(pt, l)
		return
	}
	if l.lines == nil {
		return
	}
	for x := range r.recordLines(l) {
		if pt.cond.holds(r.sc, x.text) {
			r.addHit(pt, x)
		}
	}
}
