package sieve

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"crowsnest/matcher/internal/needs"
)

// plan says how texts of at least min bytes are sampled. stride + q - 1 must not
// exceed min, and q must not exceed 8.
type plan struct{ min, stride, q int }

func planOf(minLen, q int) plan { return plan{minLen, minLen - q + 1, q} }

// New builds a sieve for texts of at least MinText bytes. The sample is ordinary
// input: texts are looked for by grams that are rare in it, and the tiers are
// those that cost least on it. It changes speed, never results.
func New(texts []needs.Text, sample []byte) *Sieve {
	if len(texts) == 0 {
		return nil
	}
	b := builder{texts: texts, sample: sample, grams: map[int]*grams{}}
	shortest := len(texts[0].Text)
	for _, t := range texts {
		shortest = min(shortest, len(t.Text))
	}
	probe := sample[:min(len(sample), 32<<10)]
	var best *Sieve
	bestCost := 0
	for _, plans := range candidates(shortest) {
		s := b.build(plans)
		if cost := s.cost(probe); best == nil || cost < bestCost {
			best, bestCost = s, cost
		}
	}
	return best
}

// candidates returns the ways of sampling that are tried: all texts in one tier,
// or those that are shorter than 8, 12 or 16 bytes in one of their own.
func candidates(shortest int) [][]plan {
	var out [][]plan
	short := planOf(shortest, min(shortest, 8, max(4, shortest/2)))
	for _, m := range []int{shortest, 8, 12, 16} {
		for q := min(m, 8); q >= max(MinText, min(m, 5)); q-- {
			switch {
			case m == shortest:
				out = append(out, []plan{planOf(m, q)})
			case m > shortest:
				out = append(out, []plan{planOf(m, q), short})
			}
		}
	}
	return out
}

// builder makes sieves of the same texts in different ways.
type builder struct {
	texts  []needs.Text
	sample []byte
	grams  map[int]*grams // by their length
}

// build makes a sieve of the given tiers, longest first. Each text goes to the
// first tier that it is long enough for.
func (b *builder) build(plans []plan) *Sieve {
	s := &Sieve{texts: b.texts}
	members := make([][]int, len(plans))
	for i, t := range b.texts {
		j := slices.IndexFunc(plans, func(p plan) bool { return len(t.Text) >= p.min })
		members[j] = append(members[j], i)
	}
	for j, p := range plans {
		if len(members[j]) > 0 {
			s.tiers = append(s.tiers, b.tier(p, members[j]))
		}
	}
	return s
}

// cost estimates the time of a scan: a sample costs about 1, a set bit 5, and a
// comparison with a text 20.
func (s *Sieve) cost(buf []byte) int {
	total := 0
	for i := range s.tiers {
		t := &s.tiers[i]
		total += len(buf) / t.stride
		for at := t.next(buf, 0); at <= len(buf)-t.q; at = t.next(buf, at+t.stride) {
			total += 8
			x := t.load(buf, at)
			slot := x * prime >> t.slotShift
			for _, e := range t.entries[t.slots[slot]:t.slots[slot+1]] {
				total++
				if e.gram == x {
					total += 4
				}
			}
		}
	}
	return total
}

func (b *builder) tier(p plan, members []int) tier {
	t := tier{stride: p.stride, q: p.q, mask: maskOf(p.q)}
	g := b.gramsOf(p.q)
	used := make([]int32, len(g.words)) // windows that a gram is in
	all := make([]entry, 0, len(members)*p.stride)
	for _, i := range members {
		ids := g.ids[i]
		start := g.window(ids, p.stride, used)
		for k, id := range ids[start : start+p.stride] {
			used[id]++
			all = append(all, newEntry(b.texts[i].Text, i, g.words[id], start+k))
		}
	}
	t.index(all)
	return t
}

// newEntry makes the entry of a gram. Texts that share it are told apart by the
// end of theirs that is further away.
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
	ids   [][]int32 // of each text, the gram at each place
	words []uint64  // of each gram
	freq  []int32   // how often it occurs in the sample
}

func (b *builder) gramsOf(q int) *grams {
	if g := b.grams[q]; g != nil {
		return g
	}
	g := &grams{ids: make([][]int32, len(b.texts))}
	known := map[uint64]int32{}
	mask := maskOf(q)
	for i, t := range b.texts {
		for k := 0; k+q <= len(t.Text); k++ {
			w := foldedWord(t.Text[k:]) & mask
			id, ok := known[w]
			if !ok {
				id = int32(len(g.words))
				known[w] = id
				g.words = append(g.words, w)
			}
			g.ids[i] = append(g.ids[i], id)
		}
	}
	g.count(known, mask, b.sample)
	b.grams[q] = g
	return g
}

// count counts the grams in the sample.
func (g *grams) count(ids map[uint64]int32, mask uint64, sample []byte) {
	g.freq = make([]int32, len(g.words))
	var known [1 << 12]uint64 // keeps most of the sample away from the map
	for _, w := range g.words {
		h := w * prime >> 46
		known[h>>6] |= 1 << (h & 63)
	}
	for i := 0; i+8 <= len(sample); i++ {
		w := (binary.LittleEndian.Uint64(sample[i:]) | lowerCase) & mask
		if h := w * prime >> 46; known[h>>6]>>(h&63)&1 == 0 {
			continue
		}
		if id, ok := ids[w]; ok {
			g.freq[id]++
		}
	}
}

// window returns the start of the window of a text whose grams are rarest.
func (g *grams) window(ids []int32, stride int, used []int32) int {
	start, best := 0, int64(-1)
	for w := 0; w+stride <= len(ids); w++ {
		cost := int64(0)
		for _, id := range ids[w : w+stride] {
			cost += int64(g.freq[id])*int64(1+used[id]) + int64(min(used[id], 1))
		}
		if best < 0 || cost < best {
			start, best = w, cost
		}
	}
	return start
}

// index puts the entries into the bit set, of which a thousand texts set some
// 2%, and into slots by hash.
func (t *tier) index(all []entry) {
	t.set = new(bitSet)
	slotBits := min(max(bits.Len(uint(len(all))), 6), 20)
	t.slotShift = uint(64 - slotBits)
	t.slots = make([]uint32, 1<<slotBits+1)
	for i := range all {
		h := all[i].gram * prime
		t.set.add(h)
		t.slots[h>>t.slotShift+1]++
	}
	for i := 1; i < len(t.slots); i++ {
		t.slots[i] += t.slots[i-1]
	}
	t.entries = make([]entry, len(all))
	next := slices.Clone(t.slots)
	for i := range all {
		slot := all[i].gram * prime >> t.slotShift
		t.entries[next[slot]] = all[i]
		next[slot]++
	}
}

func maskOf(q int) uint64 { return ^uint64(0) >> (64 - 8*q) }
