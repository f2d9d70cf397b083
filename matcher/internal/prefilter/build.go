package prefilter

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"crowsnest/internal/literals"
)

// plan says how texts of at least min bytes are sampled. stride + q - 1 must not
// exceed min, and q must not exceed 8.
type plan struct{ min, stride, q int }

func planOf(minLen, q int) plan { return plan{minLen, minLen - q + 1, q} }

// New builds a filter for texts of at least MinText bytes. The sample is ordinary
// input: texts are located by grams that are rare in it, and the tiers are those that
// cost least on it. It affects speed, never results.
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

// newTiers builds a filter that samples.
func newTiers(texts []literals.Text, sample []byte) *Filter {
	b := newBuilder(texts, sample)
	probe := sample[:min(len(sample), 32<<10)]
	best, bestCost := b.choose(0, probe)
	var anchors []anchor
	tried := 0
	for _, below := range []int{4, 5, 6, 8} {
		n := b.shorter(below)
		if n == tried || n > maxAnchored {
			continue
		}
		tried = n
		list, cost := b.anchors(below, probe)
		if cost >= bestCost {
			continue
		}
		if plans, rest := b.choose(below, probe); cost+rest < bestCost {
			best, bestCost, anchors = plans, cost+rest, list
		}
	}
	s := b.build(best)
	s.anchors = anchors
	return s
}

// choose returns the cheapest way of sampling for the texts of at least so many
// bytes, and its cost.
func (b *builder) choose(atLeast int, probe []byte) (best []plan, bestCost int) {
	shortest := 0
	for _, t := range b.texts {
		if n := len(t.Text); n >= atLeast && (shortest == 0 || n < shortest) {
			shortest = n
		}
	}
	if shortest == 0 {
		return nil, 0
	}
	for _, plans := range candidates(shortest) {
		if cost := b.cost(plans, probe); best == nil || cost < bestCost {
			best, bestCost = plans, cost
		}
	}
	return best, bestCost
}

// shorter returns how many texts are shorter than that.
func (b *builder) shorter(than int) (n int) {
	for _, t := range b.texts {
		if len(t.Text) < than {
			n++
		}
	}
	return n
}

// candidates returns the ways of sampling that are tried, longest tier first: all
// texts in one tier, or those that are shorter than 8, 12 or 16 bytes in one of
// their own. Those with the same grams follow each other.
func candidates(shortest int) [][]plan {
	var out [][]plan
	short := planOf(shortest, min(shortest, 8, max(4, shortest/2)))
	for q := 8; q >= MinText; q-- {
		if q <= shortest && q >= min(shortest, 5) {
			out = append(out, []plan{planOf(shortest, q)})
		}
		for _, m := range []int{8, 12, 16} {
			if m > shortest && q >= 5 {
				out = append(out, []plan{planOf(m, q), short})
			}
		}
	}
	return out
}

// builder tries ways of sampling the same texts, all in the same memory: there
// may be thousands of texts, and a dozen ways.
type builder struct {
	texts  []literals.Text
	places []int32 // total length of the texts before each text
	sample []byte

	grams   [2]grams // grams of the tiers that were tried last
	members []int32  // members of the tier that was picked last
	starts  []int32  // start of each member's window
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

// pick chooses the windows of the texts that belong to one of the tiers: a text
// belongs to the first that it is long enough for. It reports whether there are any.
func (b *builder) pick(plans []plan, tier int) bool {
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
	b.count(g, p.q)
	clear(g.used)
	for _, i := range b.members {
		ids := g.ids[b.places[i] : int(b.places[i+1])-p.q+1]
		start := g.window(ids, p.stride)
		for _, id := range ids[start : start+p.stride] {
			g.used[id]++
		}
		b.starts = append(b.starts, int32(start))
	}
	return true
}

// cost estimates the time of a scan: a sample costs about 1, a set bit 5, and a
// comparison with a text 20.
func (b *builder) cost(plans []plan, buf []byte) int {
	total := 0
	for j, p := range plans {
		if !b.pick(plans, j) {
			continue
		}
		g := &b.grams[j]
		t := tier{stride: p.stride, q: p.q, mask: maskOf(p.q), set: &b.set, slotShift: slotShift(len(b.members) * p.stride)}
		b.fill(&t, g)
		total += len(buf) / t.stride
		for at := t.next(buf, 0); at <= len(buf)-t.q; at = t.next(buf, at+t.stride) {
			x := t.load(buf, at)
			total += 8 + int(b.slots[x*prime>>t.slotShift])
			if id := g.find(x); id >= 0 {
				total += 4 * int(g.used[id])
			}
		}
	}
	return total
}

// slotShift returns the shift that makes slots of hashes for so many grams.
func slotShift(grams int) uint { return uint(64 - min(max(bits.Len(uint(grams)), 6), 20)) }

// fill makes the bit set and the slots of a tier that is only tried.
func (b *builder) fill(t *tier, g *grams) {
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

// build makes the filter of the given tiers.
func (b *builder) build(plans []plan) *Filter {
	s := &Filter{texts: b.texts}
	for j, p := range plans {
		if b.pick(plans, j) {
			s.tiers = append(s.tiers, b.tier(p))
		}
	}
	return s
}

// tier makes the tier of the windows that were picked last. A thousand texts set
// some 2% of its bits.
func (b *builder) tier(p plan) tier { return newTier(b.texts, b.members, b.starts, p) }

// newTier makes the tier of some texts, of which the windows start there.
func newTier(texts []literals.Text, members, starts []int32, p plan) tier {
	t := tier{stride: p.stride, q: p.q, mask: maskOf(p.q), set: new(bitSet), slotShift: slotShift(len(members) * p.stride)}
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
		t.slots[i] = end // each entry moves it down, to the first in the end
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

// newEntry makes the entry of a gram. The end of the text that is further away
// distinguishes texts that share the gram.
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

// foldedWord returns the first eight bytes of a text, folded.
func foldedWord(text string) uint64 {
	var b [8]byte
	copy(b[:], text)
	return binary.LittleEndian.Uint64(b[:]) | lowerCase
}

// grams are all grams of one length of the texts.
type grams struct {
	q     int
	ids   []int32  // the gram at each byte of the texts, one after the other
	words []uint64 // words of each gram
	freq  []int32  // number of times that each gram occurs in the sample
	used  []int32  // number of windows that contain each gram
	index []int32  // 1 more than the gram, by hash: at the first free place from there; zero if there is none
	shift uint     // hash to place in index
}

// count makes the grams of one length, unless they are there.
func (b *builder) count(g *grams, q int) {
	if g.q == q {
		return
	}
	if g.q == 0 {
		g.reserve(int(b.places[len(b.texts)]))
	}
	clear(g.index)
	g.q, g.words = q, g.words[:0]
	mask := maskOf(q)
	for i, t := range b.texts {
		for k := 0; k+q <= len(t.Text); k++ {
			g.ids[int(b.places[i])+k] = g.add(foldedWord(t.Text[k:]) & mask)
		}
	}
	g.freq, g.used = g.freq[:len(g.words)], g.used[:len(g.words)]
	clear(g.freq)
	g.sample(mask, b.sample)
}

// reserve makes room for n grams.
func (g *grams) reserve(n int) {
	g.ids, g.words = make([]int32, n), make([]uint64, 0, n)
	g.freq, g.used = make([]int32, n), make([]int32, n)
	indexBits := bits.Len(uint(n)) + 1 // half of the places stay free at least
	g.index, g.shift = make([]int32, 1<<indexBits), uint(64-indexBits)
}

// find returns the number of a gram, or -1.
func (g *grams) find(w uint64) int32 {
	return g.index[g.place(w)] - 1
}

// place returns where in the index a gram is, or would be.
func (g *grams) place(w uint64) int {
	at := int(w * prime >> g.shift)
	for g.index[at] > 0 && g.words[g.index[at]-1] != w {
		if at++; at == len(g.index) {
			at = 0
		}
	}
	return at
}

// add returns the number of a gram, which it gets if it has none.
func (g *grams) add(w uint64) int32 {
	at := g.place(w)
	if g.index[at] == 0 {
		g.words = append(g.words, w)
		g.index[at] = int32(len(g.words))
	}
	return g.index[at] - 1
}

// sample counts the grams in a sample.
func (g *grams) sample(mask uint64, sample []byte) {
	var known bitSet // keeps most of the sample away from the index
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

// window returns the start of the window of a text whose grams are rarest.
func (g *grams) window(ids []int32, stride int) int {
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

func maskOf(q int) uint64 { return ^uint64(0) >> (64 - 8*q) }
