package marks

import "math/bits"

const (
	// Width is how many neighbouring bytes a pattern describes.
	Width   = 6
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
	var freq [block]float64
	for i := range len(sample) {
		freq[a.codes[sample[i]&0x7f]] += 1 / float64(len(sample))
	}
	x := assigner{freq: freq, of: make([]int, len(patterns))}
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
	of      []int // the bucket of each pattern
}

func (a *assigner) assign(patterns []Pattern) {
	for i := range patterns {
		a.put(patterns, i)
	}
	for i := range patterns { // The first ones did not know the others.
		j := a.of[i]
		a.buckets[j] = bucket{}
		for k := range patterns {
			if a.of[k] == j && k != i {
				a.buckets[j].add(&patterns[k], &a.freq)
			}
		}
		a.put(patterns, i)
	}
}

// put puts a pattern into the bucket that then marks the fewest places more.
func (a *assigner) put(patterns []Pattern, i int) {
	least := 0.0
	for j := range a.buckets {
		more := a.buckets[j]
		more.add(&patterns[i], &a.freq)
		if extra := more.cost() - a.buckets[j].cost(); j == 0 || extra < least {
			a.of[i], least = j, extra
		}
	}
	a.buckets[a.of[i]].add(&patterns[i], &a.freq)
}

// bucket is the union of its patterns, and how frequent its sets are.
type bucket struct {
	has   Pattern
	share [Width]float64
}

func (b *bucket) add(p *Pattern, freq *[block]float64) {
	for j := range p {
		for more := uint64(p[j] &^ b.has[j]); more != 0; more &= more - 1 {
			b.share[j] += freq[bits.TrailingZeros64(more)] + 1e-3
		}
		b.has[j] |= p[j]
	}
}

// cost is the share of places that the bucket marks, if neighbours are independent.
func (b *bucket) cost() float64 {
	p := 1.0
	for _, s := range b.share {
		p *= s
	}
	return p
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
