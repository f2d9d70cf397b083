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
// place that they mark, at most 8. Bytes are taken to be as frequent as in the sample.
func NewWindows(a *Alphabet, patterns []Pattern, before int, sample string) *Windows {
	w := &Windows{before: before}
	var x assigner
	for i := range x.freq {
		x.freq[i] = 1e-3
	}
	for i := range len(sample) {
		x.freq[a.codes[sample[i]&0x7f]] += 1 / float64(len(sample))
	}
	x.assign(patterns)
	for i := range x.buckets {
		w.put(i, &x.buckets[i].has)
	}
	return w
}

// assigner assigns patterns to buckets such that few places are marked.
type assigner struct {
	freq    [block]float64
	buckets [buckets]bucket
}

// stride is a prime that spreads the patterns well: those that follow each other are alike, and
// the first ones should be of all sorts.
const stride = 32452843

// general is the share of places from which on a pattern goes into a bucket before the others.
const general = 1e-3

func (a *assigner) assign(patterns []Pattern) {
	for _, first := range []bool{true, false} {
		for i := range patterns {
			p := &patterns[i*(stride%len(patterns))%len(patterns)]
			if is := (&bucket{}).costWith(p, &a.freq) >= general; is == first {
				a.put(p)
			}
		}
	}
}

// put puts a pattern into the bucket that then marks the fewest places more.
func (a *assigner) put(p *Pattern) {
	best, least := 0, 0.0
	for j := range a.buckets {
		if extra := a.buckets[j].costWith(p, &a.freq) - a.buckets[j].cost; j == 0 || extra < least {
			best, least = j, extra
		}
	}
	a.buckets[best].add(p, &a.freq)
}

// bucket is the union of its patterns, and how frequent its sets are.
type bucket struct {
	has   Pattern
	share [Width]float64
	cost  float64 // the share of places that it marks, if neighbours are independent
}

func (b *bucket) add(p *Pattern, freq *[block]float64) {
	b.cost = b.costWith(p, freq)
	for j := range p {
		b.share[j] += shareOf(p[j]&^b.has[j], freq)
		b.has[j] |= p[j]
	}
}

// costWith is the cost with one more pattern.
func (b *bucket) costWith(p *Pattern, freq *[block]float64) float64 {
	cost := 1.0
	for j := range p {
		cost *= b.share[j] + shareOf(p[j]&^b.has[j], freq)
	}
	return cost
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
