package marks

import (
	"math/bits"
	"math/rand/v2"
)

// NewWindows returns windows for the patterns, whose first byte is so many bytes before the
// place that they mark, at most 8. They mark few places of texts like the sample: the patterns
// are assigned in so many orders, and the best result is taken. That takes time: programs load
// the Tables that a test has made.
func NewWindows(a *Alphabet, patterns []Pattern, before int, sample string, orders int) *Windows {
	x := newAssigner(a, sample)
	var best [buckets]bucket
	for order := range orders {
		x.buckets = [buckets]bucket{}
		x.assign(patterns, order)
		if order == 0 || cost(&x.buckets) < cost(&best) {
			best = x.buckets
		}
	}
	w := &Windows{before: before}
	for i := range best {
		w.put(i, &best[i].has)
	}
	return w
}

// cost is how much the buckets mark, by their chances and in the sample.
func cost(all *[buckets]bucket) (sum float64) {
	for i := range all {
		sum += all[i].chance + all[i].share
	}
	return sum
}

// inSample is how much of a sample is looked at, in blocks.
const inSample = 16

// places are a set of places in the sample.
type places [inSample]uint64

var everywhere = func() (all places) {
	for i := range all {
		all[i] = ^uint64(0)
	}
	return all
}()

func (p *places) or(q *places) {
	for i := range p {
		p[i] |= q[i]
	}
}

// assigner assigns patterns to buckets such that few places are marked.
type assigner struct {
	freq    [block]float64       // of codes
	codeAt  [Width][block]places // where a neighbour has a code
	buckets [buckets]bucket
}

func newAssigner(a *Alphabet, sample string) *assigner {
	x := &assigner{}
	for i := range x.freq {
		x.freq[i] = 1e-3
	}
	sample = sample[:min(len(sample), inSample*block)]
	for i := range len(sample) {
		code := a.codes[sample[i]&0x7f]
		x.freq[code] += 1 / float64(len(sample))
		for j := range min(Width, i+1) {
			at := i - j
			x.codeAt[j][code][at/block] |= 1 << (at % block)
		}
	}
	return x
}

// general is the share of places from which on a pattern goes into a bucket before the others.
const general = 1e-3

// assign assigns the patterns in one of the orders, which all have different patterns after each
// other: those that follow each other in the list are alike.
func (x *assigner) assign(patterns []Pattern, order int) {
	shuffled := rand.New(rand.NewPCG(1, uint64(order))).Perm(len(patterns))
	for _, first := range []bool{true, false} {
		for _, i := range shuffled {
			p := x.usage(&patterns[i])
			if is := (&bucket{}).chanceWith(&p, &x.freq) >= general; is == first {
				x.put(&p)
			}
		}
	}
}

// put puts a pattern into the bucket that then marks the fewest places more.
func (x *assigner) put(p *usage) {
	best, least := 0, 2.0
	for j := range x.buckets {
		b := &x.buckets[j]
		if extra := b.chanceWith(p, &x.freq) - b.chance; extra < least {
			if extra += b.shareWith(p) - b.share; extra < least {
				best, least = j, extra
			}
		}
	}
	x.buckets[best].add(p, &x.freq)
}

// usage is a pattern with the places of each of its sets.
type usage struct {
	of Pattern
	in [Width]places
}

func (x *assigner) usage(p *Pattern) usage {
	u := usage{of: *p}
	for j, set := range p {
		if set == Any {
			u.in[j] = everywhere
			continue
		}
		for ; set != 0; set &= set - 1 {
			u.in[j].or(&x.codeAt[j][bits.TrailingZeros64(uint64(set))])
		}
	}
	return u
}

// bucket is the union of its patterns.
type bucket struct {
	has    Pattern
	in     [Width]places
	often  [Width]float64 // how often its sets occur
	chance float64        // that it marks a place, if neighbours were independent of each other
	share  float64        // of the sample that it marks
}

func (b *bucket) add(p *usage, freq *[block]float64) {
	b.chance, b.share = b.chanceWith(p, freq), b.shareWith(p)
	for j := range p.of {
		b.often[j] += shareOf(p.of[j]&^b.has[j], freq)
		b.has[j] |= p.of[j]
		b.in[j].or(&p.in[j])
	}
}

// chanceWith is the chance with one more pattern.
func (b *bucket) chanceWith(p *usage, freq *[block]float64) float64 {
	chance := 1.0
	for j := range p.of {
		chance *= b.often[j] + shareOf(p.of[j]&^b.has[j], freq)
	}
	return chance
}

// shareWith is the share with one more pattern.
func (b *bucket) shareWith(p *usage) float64 {
	marked := 0
	for i := range inSample {
		all := ^uint64(0)
		for j := range p.of {
			all &= b.in[j][i] | p.in[j][i]
		}
		marked += bits.OnesCount64(all)
	}
	return float64(marked) / (inSample * block)
}

func shareOf(s Set, freq *[block]float64) (share float64) {
	for ; s != 0; s &= s - 1 {
		share += freq[bits.TrailingZeros64(uint64(s))]
	}
	return share
}

func (w *Windows) put(bucket int, p *Pattern) {
	for j := range p {
		for c := range block {
			if p[j]>>c&1 != 0 {
				w.tables[bucket/8][j][c] |= 1 << (bucket % 8)
			}
		}
	}
}
