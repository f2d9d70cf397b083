package sieve

import (
	"cmp"
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
	shortest := len(texts[0].Text)
	for _, t := range texts {
		shortest = min(shortest, len(t.Text))
	}
	probe := sample[:min(len(sample), 32<<10)]
	var best []plan
	bestCost := 0
	for _, plans := range candidates(shortest) {
		if cost := build(texts, plans, probe).cost(probe); best == nil || cost < bestCost {
			best, bestCost = plans, cost
		}
	}
	return build(texts, best, sample)
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

// build makes a sieve of the given tiers, longest first. Each text goes to the
// first tier that it is long enough for.
func build(texts []needs.Text, plans []plan, sample []byte) *Sieve {
	s := &Sieve{texts: texts}
	members := make([][]int, len(plans))
	for i, t := range texts {
		j := slices.IndexFunc(plans, func(p plan) bool { return len(t.Text) >= p.min })
		members[j] = append(members[j], i)
	}
	for j, p := range plans {
		if len(members[j]) > 0 {
			s.tiers = append(s.tiers, s.tier(p, members[j], sample))
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
			total += 5
			x := t.load(buf, at)
			slot := x * prime >> t.slotShift
			for _, e := range t.entries[t.slots[slot]:t.slots[slot+1]] {
				total++
				if e.gram == x {
					total += 20
				}
			}
		}
	}
	return total
}

func (s *Sieve) tier(p plan, members []int, sample []byte) tier {
	t := tier{stride: p.stride, q: p.q, mask: ^uint64(0) >> (64 - 8*p.q)}
	freq := s.frequencies(&t, members, sample)
	used := map[uint64]int{} // windows that a gram is in
	var all []entry
	for _, i := range members {
		text := s.texts[i].Text
		start := t.window(text, freq, used)
		for k := range t.stride {
			g := t.gram(text[start+k:])
			used[g]++
			all = append(all, entry{g, uint32(i), uint32(start + k)})
		}
	}
	t.index(all)
	return t
}

// window returns the start of the window of a text whose grams are rarest.
func (t *tier) window(text string, freq, used map[uint64]int) int {
	start, best := 0, -1
	for w := 0; w+t.stride+t.q-1 <= len(text); w++ {
		cost := 0
		for k := range t.stride {
			g := t.gram(text[w+k:])
			cost += freq[g] * (1 + used[g])
			if used[g] > 0 {
				cost++
			}
		}
		if best < 0 || cost < best {
			start, best = w, cost
		}
	}
	return start
}

// frequencies counts the grams of the texts in the sample.
func (s *Sieve) frequencies(t *tier, members []int, sample []byte) map[uint64]int {
	freq := map[uint64]int{}
	for _, i := range members {
		text := s.texts[i].Text
		for k := 0; k+t.q <= len(text); k++ {
			freq[t.gram(text[k:])] = 0
		}
	}
	var known [1 << 12]uint64 // keeps most of the sample away from the map
	for g := range freq {
		h := g * prime >> 46
		known[h>>6] |= 1 << (h & 63)
	}
	for i := 0; i+8 <= len(sample); i++ {
		g := (binary.LittleEndian.Uint64(sample[i:]) | lowerCase) & t.mask
		if h := g * prime >> 46; known[h>>6]>>(h&63)&1 == 0 {
			continue
		}
		if n, ok := freq[g]; ok {
			freq[g] = n + 1
		}
	}
	return freq
}

// index puts the entries into the bit set, of which they set less than 2%, and
// into slots by hash.
func (t *tier) index(all []entry) {
	size := min(max(bits.Len(uint(len(all)*64)), 15), 18)
	t.shift = uint(64 - size)
	t.bits = make([]uint64, 1<<(size-6))
	slotBits := min(max(bits.Len(uint(len(all))), 6), 20)
	t.slotShift = uint(64 - slotBits)
	slices.SortStableFunc(all, func(a, b entry) int {
		return cmp.Compare(a.gram*prime>>t.slotShift, b.gram*prime>>t.slotShift)
	})
	t.entries = all
	t.slots = make([]uint32, 1<<slotBits+1)
	for _, e := range all {
		h := e.gram * prime
		t.bits[h>>t.shift>>6] |= 1 << (h >> t.shift & 63)
		t.slots[h>>t.slotShift+1]++
	}
	for i := 1; i < len(t.slots); i++ {
		t.slots[i] += t.slots[i-1]
	}
}

// gram returns the gram at the start of a text.
func (t *tier) gram(text string) uint64 {
	var b [8]byte
	copy(b[:], text)
	return (binary.LittleEndian.Uint64(b[:]) | lowerCase) & t.mask
}
