package prefilter

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"crowsnest/internal/literals"
)

// plan states how texts of at least min bytes are sampled. Every stride bytes there is a sample of q bytes. stride + q
// - 1 must not exceed min, and q must not exceed 8.
type plan struct{ min, stride, q int }

func newPlan(minLen, q int) plan { return plan{minLen, minLen - q + 1, q} }

// New returns a filter for texts of at least MinText bytes. sample is typical input, with which New chooses the fastest
// method and the grams of each text. The sample affects speed, never results.
func New(texts []literals.Text, sample []byte) *Filter {
	if len(texts) == 0 {
		return nil
	}
	if vector {
		if b := newBuckets(texts, sample); b != nil {
			return &Filter{texts: texts, buckets: b}
		}
	}
	return newTiers(texts, sample)
}

func newTiers(texts []literals.Text, sample []byte) *Filter {
	b := newBuilder(texts, sample)
	probe := sample[:min(len(sample), 32<<10)]
	best, bestCost := b.choosePlan(0, probe)
	var anchors []anchor
	tried := 0
	for _, below := range []int{4, 5, 6, 8} {
		n := b.countShorter(below)
		if n == tried || n > maxAnchored {
			continue
		}
		tried = n
		list, cost := b.chooseAnchors(below, probe)
		if cost >= bestCost {
			continue
		}
		if plans, rest := b.choosePlan(below, probe); cost+rest < bestCost {
			best, bestCost, anchors = plans, cost+rest, list
		}
	}
	s := b.buildFilter(best)
	s.anchors = anchors
	return s
}

// choosePlan returns the cheapest plan for the texts of at least atLeast bytes, with one tier or two, and its cost.
func (b *builder) choosePlan(atLeast int, probe []byte) (best []plan, bestCost int) {
	shortest := 0
	for _, t := range b.texts {
		if n := len(t.Text); n >= atLeast && (shortest == 0 || n < shortest) {
			shortest = n
		}
	}
	if shortest == 0 {
		return nil, 0
	}
	for _, plans := range candidatePlans(shortest) {
		if cost := b.estimateCost(plans, probe); best == nil || cost < bestCost {
			best, bestCost = plans, cost
		}
	}
	return best, bestCost
}

func (b *builder) countShorter(than int) (n int) {
	for _, t := range b.texts {
		if len(t.Text) < than {
			n++
		}
	}
	return n
}

// candidatePlans returns the plans to try. In each plan, the tier of the longest texts comes first. Either all texts
// are in one tier, or texts shorter than 8, 12 or 16 bytes have a second tier. Plans with grams of the same length
// follow each other.
func candidatePlans(shortest int) [][]plan {
	var out [][]plan
	short := newPlan(shortest, min(shortest, 8, max(4, shortest/2)))
	for q := 8; q >= MinText; q-- {
		if q <= shortest && q >= min(shortest, 5) {
			out = append(out, []plan{newPlan(shortest, q)})
		}
		for _, m := range []int{8, 12, 16} {
			if m > shortest && q >= 5 {
				out = append(out, []plan{newPlan(m, q), short})
			}
		}
	}
	return out
}

// builder tries several plans for the same texts. It reuses its memory, because there may be thousands of texts and a
// dozen plans.
type builder struct {
	texts  []literals.Text
	places []int32 // offset of each text if all texts are concatenated
	sample []byte

	grams   [2]grams // grams of the tiers of the last tried plan
	members []int32  // texts of the tier for which pickWindows was called last
	starts  []int32  // start of the window of each member
	slots   []uint32 // number of grams in each slot of the tier that was tried last
	set     bitSet
}

func newBuilder(texts []literals.Text, sample []byte) *builder {
	b := &builder{texts: texts, places: make([]int32, len(texts)+1), sample: sample}
	for i, t := range texts {
		b.places[i+1] = b.places[i] + int32(len(t.Text))
	}
	b.members = make([]int32, 0, len(texts))
	b.starts = make([]int32, 0, len(texts))
	return b
}

// pickWindows chooses the windows of the texts of one tier. A text belongs to the first tier whose min it reaches. It
// reports whether the tier has texts.
func (b *builder) pickWindows(plans []plan, tier int) bool {
	b.members, b.starts = b.members[:0], b.starts[:0]
	for i, t := range b.texts {
		if slices.IndexFunc(plans, func(p plan) bool { return len(t.Text) >= p.min }) == tier {
			b.members = append(b.members, int32(i))
		}
	}
	if len(b.members) == 0 {
		return false
	}
	p, g := plans[tier], &b.grams[tier]
	b.countGrams(g, p.q)
	clear(g.used)
	for _, i := range b.members {
		ids := g.ids[b.places[i] : int(b.places[i+1])-p.q+1]
		start := g.rarestWindow(ids, p.stride)
		for _, id := range ids[start : start+p.stride] {
			g.used[id]++
		}
		b.starts = append(b.starts, int32(start))
	}
	return true
}

// estimateCost estimates the time of a scan of buf. The unit is the time of about one sample. A set bit costs 5, and a
// comparison with a text 20.
func (b *builder) estimateCost(plans []plan, buf []byte) int {
	total := 0
	for j, p := range plans {
		if !b.pickWindows(plans, j) {
			continue
		}
		g := &b.grams[j]
		t := tier{stride: p.stride, q: p.q, mask: gramMask(p.q), set: &b.set, slotShift: slotShift(len(b.members) * p.stride)}
		b.fillTier(&t, g)
		total += len(buf) / t.stride
		for at := t.nextSample(buf, 0); at <= len(buf)-t.q; at = t.nextSample(buf, at+t.stride) {
			x := t.load(buf, at)
			total += 8 + int(b.slots[x*prime>>t.slotShift])
			if id := g.find(x); id >= 0 {
				total += 4 * int(g.used[id])
			}
		}
	}
	return total
}

// slotShift returns the shift from a hash to the index of a slot, for this number of grams.
func slotShift(grams int) uint { return uint(64 - min(max(bits.Len(uint(grams)), 6), 20)) }

// fillTier computes the bit set and the number of grams in each slot, for estimateCost.
func (b *builder) fillTier(t *tier, g *grams) {
	clear(t.set[:])
	n := 1 << (64 - t.slotShift)
	b.slots = slices.Grow(b.slots[:0], n)[:n]
	clear(b.slots)
	for id, n := range g.used {
		if n > 0 {
			h := g.words[id] * prime
			t.set.add(h)
			b.slots[h>>t.slotShift] += uint32(n)
		}
	}
}

func (b *builder) buildFilter(plans []plan) *Filter {
	s := &Filter{texts: b.texts}
	for j, p := range plans {
		if b.pickWindows(plans, j) {
			s.tiers = append(s.tiers, newTier(b.texts, b.members, b.starts, p))
		}
	}
	return s
}

// newTier returns the tier of the texts with the indexes members. The window of each begins at the element of starts. A
// thousand texts set about 2 % of the bits.
func newTier(texts []literals.Text, members, starts []int32, p plan) tier {
	t := tier{stride: p.stride, q: p.q, mask: gramMask(p.q), set: new(bitSet), slotShift: slotShift(len(members) * p.stride)}
	gram := func(m, k int) uint64 { return foldedWord(texts[members[m]].Text[int(starts[m])+k:]) & t.mask }
	t.slots = make([]uint32, 1<<(64-t.slotShift)+1)
	for m := range members {
		for k := range p.stride {
			h := gram(m, k) * prime
			t.set.add(h)
			t.slots[h>>t.slotShift]++
		}
	}
	end := uint32(0)
	for i, n := range t.slots {
		end += n
		t.slots[i] = end // the loop below decreases it to the index of the first entry
	}
	t.entries = make([]entry, end)
	for m, i := range slices.Backward(members) {
		for k := p.stride - 1; k >= 0; k-- {
			e := newEntry(texts[i].Text, int(i), gram(m, k), int(starts[m])+k)
			slot := &t.slots[e.gram*prime>>t.slotShift]
			*slot--
			t.entries[*slot] = e
		}
	}
	return t
}

// newEntry returns the entry of a gram. The entry also has the end of the text that is further away from the gram,
// which distinguishes texts with the same gram.
func newEntry(text string, index int, gram uint64, offset int) entry {
	e := entry{gram: gram, text: uint32(index), length: uint32(len(text)), offset: uint32(offset)}
	if offset < len(text)/2 {
		e.checkAt = uint32(max(0, len(text)-8))
	}
	n := min(8, len(text))
	e.checkMask = ^uint64(0) >> (64 - 8*n)
	e.check = foldedWord(text[e.checkAt:]) & e.checkMask
	return e
}

// foldedWord returns the first eight bytes of a text in lower case.
func foldedWord(text string) uint64 {
	var b [8]byte
	copy(b[:], text)
	return binary.LittleEndian.Uint64(b[:]) | lowerCase
}

// grams holds all grams of one length that the texts contain.
type grams struct {
	q     int
	ids   []int32  // number of the gram at each byte of the concatenated texts
	words []uint64 // bytes of each gram
	freq  []int32  // number of occurrences of each gram in the sample
	used  []int32  // number of windows that contain each gram
	index []int32  // hash table with open addressing; an element is the number of a gram plus 1, or zero if it is free
	shift uint     // shift from a hash to an index of index
}

// countGrams finds the grams of length q, and counts them in the sample. It does nothing if they are known.
func (b *builder) countGrams(g *grams, q int) {
	if g.q == q {
		return
	}
	if g.q == 0 {
		g.reserve(int(b.places[len(b.texts)]))
	}
	clear(g.index)
	g.q, g.words = q, g.words[:0]
	mask := gramMask(q)
	for i, t := range b.texts {
		for k := 0; k+q <= len(t.Text); k++ {
			g.ids[int(b.places[i])+k] = g.add(foldedWord(t.Text[k:]) & mask)
		}
	}
	g.freq, g.used = g.freq[:len(g.words)], g.used[:len(g.words)]
	clear(g.freq)
	g.countSample(mask, b.sample)
}

func (g *grams) reserve(n int) {
	g.ids, g.words = make([]int32, n), make([]uint64, 0, n)
	g.freq, g.used = make([]int32, n), make([]int32, n)
	indexBits := bits.Len(uint(n)) + 1 // at least half of the elements stay free
	g.index, g.shift = make([]int32, 1<<indexBits), uint(64-indexBits)
}

// find returns the number of a gram, or -1.
func (g *grams) find(w uint64) int32 {
	return g.index[g.findPlace(w)] - 1
}

// findPlace returns the index of a gram in the hash table, or the index where it would be added.
func (g *grams) findPlace(w uint64) int {
	at := int(w * prime >> g.shift)
	for g.index[at] > 0 && g.words[g.index[at]-1] != w {
		if at++; at == len(g.index) {
			at = 0
		}
	}
	return at
}

// add returns the number of a gram. It adds an unknown gram.
func (g *grams) add(w uint64) int32 {
	at := g.findPlace(w)
	if g.index[at] == 0 {
		g.words = append(g.words, w)
		g.index[at] = int32(len(g.words))
	}
	return g.index[at] - 1
}

func (g *grams) countSample(mask uint64, sample []byte) {
	var known bitSet // avoids a lookup in the hash table for most of the sample
	for _, w := range g.words {
		known.add(w * prime)
	}
	for i := 0; i+8 <= len(sample); i++ {
		w := (binary.LittleEndian.Uint64(sample[i:]) | lowerCase) & mask
		if !known.has(w * prime) {
			continue
		}
		if id := g.find(w); id >= 0 {
			g.freq[id]++
		}
	}
}

// rarestWindow returns the start of the window of a text whose grams are rarest in the sample.
func (g *grams) rarestWindow(ids []int32, stride int) int {
	start, best := 0, int64(-1)
	for w := 0; w+stride <= len(ids); w++ {
		cost := int64(0)
		for _, id := range ids[w : w+stride] {
			cost += int64(g.freq[id])*int64(1+g.used[id]) + int64(min(g.used[id], 1))
		}
		if best < 0 || cost < best {
			start, best = w, cost
		}
	}
	return start
}

func gramMask(q int) uint64 { return ^uint64(0) >> (64 - 8*q) }

const (
	// quickTier is the maximum length in bytes of the windows in the first tier of NewQuick. quickSample is the number
	// of bytes of the sample that NewQuick reads.
	quickTier   = 16
	quickSample = 16 << 10
)

// NewQuick returns a filter in a tenth of the time of New, because it does not try several plans. The filter finds the
// same texts. For many sets of texts it is as fast as a filter of New. For sets with very short texts it is slower.
func NewQuick(texts []literals.Text, sample []byte) *Filter {
	if len(texts) == 0 {
		return nil
	}
	shortest := len(texts[0].Text)
	for _, t := range texts {
		shortest = min(shortest, len(t.Text))
	}
	plans := []plan{newPlan(shortest, min(shortest, 8, max(4, shortest/2)))}
	if shortest < quickTier {
		plans = []plan{newPlan(quickTier, 8), plans[0]}
	}
	return newBuilder(texts, sample[:min(len(sample), quickSample)]).buildFilter(plans)
}
