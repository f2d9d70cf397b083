package marks

import "math/bits"

const (
	// Width is how many neighbouring bytes a pattern describes.
	Width   = 8
	groups  = 3
	buckets = 8 * groups
)

// Set is a set of codes, by bit.
type Set uint64

// Any is the set of all codes.
const Any = ^Set(0)

// Pattern has a set for each of a few neighbouring bytes.
type Pattern [Width]Set

// Windows find the places that match one of many patterns, and some others: each pattern is in
// one of 24 buckets, and a place is found if, for each of its neighbours, the bucket has a
// pattern with its code there. They are immutable.
type Windows struct {
	tables [groups][Width][block]uint8 // the buckets that have a code
	before int
}

// NewWindows returns windows for the patterns, whose first byte is so many bytes before the
// place that they mark, at most 8. They mark few places of texts like the sample.
func NewWindows(a *Alphabet, patterns []Pattern, before int, sample string) *Windows {
	w := &Windows{before: before}
	x := newAssigner(a, sample)
	x.assign(patterns)
	for i := range x.buckets {
		w.put(i, &x.buckets[i].has)
	}
	return w
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

// stride is a prime that spreads the patterns well: those that follow each other are alike, and
// the first ones should be of all sorts.
const stride = 32452843

// general is the share of places from which on a pattern goes into a bucket before the others.
const general = 1e-3

func (x *assigner) assign(patterns []Pattern) {
	for _, first := range []bool{true, false} {
		for i := range patterns {
			p := x.usage(&patterns[i*(stride%len(patterns))%len(patterns)])
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

// Find returns the places that the windows mark, as bits, by block. list selects one of two
// lists: the result is valid until Find is called with the same, or Read.
func (t *Text) Find(w *Windows, list int) []uint64 {
	blocks := t.blocks()
	if blocks == 0 {
		return nil
	}
	look(w, &t.codes[block-w.before], blocks, &t.places[list][0])
	return t.places[list][:blocks]
}
