package prefilter

import (
	"cmp"
	"slices"

	"crowsnest/internal/literals"
)

// buckets find the positions of a chunk at which a text may occur, 64 positions at a time.
//
// Each text has a window, which is a section that is rare in typical input, and belongs to one of 8 or 16 buckets. The
// tables map the hash of a pair of neighbouring bytes to the buckets that have a text with such a pair at that position
// of its window. A position of the chunk is marked if the tables of all pairs agree on a bucket, which rarely happens
// by chance. At a marked position the texts are compared in full.
type buckets struct {
	tables  tables
	pairs   int    // number of pairs that are hashed: fewPairs with hashes of six bits, or maxPairs with hashes of seven bits
	groups  int    // number of groups of eight buckets
	windows []tier // windows of the texts, in tiers by the length of the window
}

// tables hold one bit for each bucket. They are indexed by the group of the bucket, the pair's position in the window,
// and the hash of the pair.
type tables [2][maxPairs][128]uint8

const (
	fewPairs = 4
	maxPairs = 7
)

// pairHash returns the hash of two neighbouring bytes. Only its seven lower bits are used.
func pairHash(x, y byte) byte { return x + 4*y }

// Estimated costs of a search in picoseconds. costFew, costMost and costBoth are costs per byte for each kind of
// tables. costPlace is the cost per marked position, and costCompare the cost per comparison with a text.
const (
	costFew     = 60
	costMost    = 120
	costBoth    = 210
	costPlace   = 20000
	costCompare = 4000
	maxCost     = 800 // maximum cost per byte; about the cost of sampling
	probeBytes  = 32 << 10
)

// ways are the kinds of tables for which there is vector code.
var ways = []struct{ pairs, groups, cost int }{{fewPairs, 1, costFew}, {maxPairs, 1, costMost}, {maxPairs, 2, costBoth}}

// newBuckets returns the buckets with the lowest cost on the sample. It returns nil if sampling is cheaper.
func newBuckets(texts []literals.Text, sample []byte) *buckets {
	var best *buckets
	bestCost := maxCost
	a := newAssigner(texts, sample)
	probe := sample[:min(len(sample), probeBytes)]
	for _, way := range ways {
		if way.cost >= bestCost {
			break
		}
		b := a.assign(way.pairs, way.groups)
		if cost := way.cost + b.estimateCost(probe); cost < bestCost {
			best, bestCost = b, cost
		}
	}
	return best
}

// estimateCost estimates the cost per byte of the marked positions of a text, in picoseconds.
func (b *buckets) estimateCost(text []byte) int {
	hashes := make([]byte, len(text))
	for i := 0; i+1 < len(text); i++ {
		hashes[i] = pairHash(text[i], text[i+1])
	}
	total := 0
	for at := 0; at+maxPairs < len(text); at++ {
		if !b.isMarked(hashes[at:]) {
			continue
		}
		total += costPlace
		for i := range b.windows {
			t := &b.windows[i]
			if x := t.load(text, at); t.set.has(x * prime) {
				total += costCompare * len(t.slot(x))
			}
		}
	}
	return total / max(1, len(text))
}

// isMarked reports whether a position is marked. hashes are the hashes of the pairs from that position on.
func (b *buckets) isMarked(hashes []byte) bool {
	for g := range b.groups {
		all := byte(0xff)
		for j := range b.pairs {
			all &= b.tables[g][j][hashes[j]&127]
		}
		if all != 0 {
			return true
		}
	}
	return false
}

// lengthClass holds the texts whose windows have the same length.
type lengthClass struct {
	texts  []int32
	starts []int32 // start of the window of each text
	window int
	list   []literals.Text
	b      *builder // builder for the texts in list
	grams  grams
}

type assigner struct {
	texts   []literals.Text
	sample  []byte
	freq    [128]float32 // frequency of each hash in the sample
	classes []*lengthClass
	pairs   int

	buckets []bucket
	out     *buckets
}

// bucket holds, for each pair, the hashes of its texts.
type bucket struct {
	pairBits [maxPairs][2]uint64
	p        [maxPairs]float32 // for each pair, the share of positions of the sample that have one of the hashes
	used     bool
}

func newAssigner(texts []literals.Text, sample []byte) *assigner {
	a := &assigner{texts: texts, sample: sample}
	unit := 1 / float32(len(sample)+128)
	for i := range a.freq {
		a.freq[i] = unit
	}
	for i := 0; i+1 < len(sample); i++ {
		a.freq[pairHash(sample[i], sample[i+1])&127] += unit
	}
	return a
}

// classify groups the texts by the length of their windows.
func (a *assigner) classify(pairs int) {
	if a.pairs == pairs {
		return
	}
	a.pairs, a.classes = pairs, nil
	lengths := []int{3, 4, 5, 8}
	of := map[int]*lengthClass{}
	for i, t := range a.texts {
		window := 0
		for _, n := range lengths {
			if n <= len(t.Text) && n <= pairs+1 {
				window = n
			}
		}
		c := of[window]
		if c == nil {
			c = &lengthClass{window: window}
			of[window] = c
			a.classes = append(a.classes, c)
		}
		c.texts = append(c.texts, int32(i))
		c.list = append(c.list, t)
	}
	slices.SortFunc(a.classes, func(c, d *lengthClass) int { return cmp.Compare(c.window, d.window) })
}

// assign chooses a window and a bucket for each text.
func (a *assigner) assign(pairs, groups int) *buckets {
	a.classify(pairs)
	a.out = &buckets{pairs: pairs, groups: groups}
	a.buckets = make([]bucket, 8*groups)
	first := 0
	for i, c := range a.classes {
		last := len(a.buckets)
		if i < len(a.classes)-1 {
			last = first + min(1+len(c.texts)*groups/12, 2*groups)
		}
		a.assignClass(c, first, last)
		first = last
		a.out.windows = append(a.out.windows, newTier(a.texts, c.texts, c.starts, plan{c.window, 1, c.window}))
	}
	return a.out
}

// maxTried is the maximum number of windows that are tried for each text.
const maxTried = 4

func (a *assigner) assignClass(c *lengthClass, first, last int) {
	if c.b == nil {
		c.b = newBuilder(c.list, a.sample)
		c.b.countGrams(&c.grams, c.window)
	}
	c.starts = c.starts[:0]
	clear(c.grams.used)
	for n, i := range c.texts {
		t := a.texts[i]
		var tried [maxTried]int
		k := c.rarestWindows(&tried, c.grams.ids[c.b.places[n]:int(c.b.places[n+1])-c.window+1])
		bestCost, bestStart, bestBucket := float32(-1), 0, 0
		for _, start := range tried[:k] {
			w := newWindow(t, start, c.window)
			id := c.grams.ids[int(c.b.places[n])+start]
			own := float32(c.grams.freq[id]*(1+c.grams.used[id])) / float32(len(a.sample)+1)
			for j := first; j < last; j++ {
				if cost := own + a.extraMarks(&a.buckets[j], &w); bestCost < 0 || cost < bestCost {
					bestCost, bestStart, bestBucket = cost, start, j
				}
			}
		}
		c.starts = append(c.starts, int32(bestStart))
		c.grams.used[c.grams.ids[int(c.b.places[n])+bestStart]]++
		w := newWindow(t, bestStart, c.window)
		a.addToBucket(bestBucket, &w)
	}
}

// rarestWindows finds the windows of a text that occur least in the sample. It returns their number.
func (c *lengthClass) rarestWindows(tried *[maxTried]int, ids []int32) int {
	n := 0
	cost := func(start int) int32 { return c.grams.freq[ids[start]] * (1 + c.grams.used[ids[start]]) }
	for start := range ids {
		at := n
		for at > 0 && cost(start) < cost(tried[at-1]) {
			at--
		}
		if at == maxTried {
			continue
		}
		n = min(n+1, maxTried)
		copy(tried[at+1:n], tried[at:])
		tried[at] = start
	}
	return n
}

// window holds, for each pair of adjacent bytes, the possible hashes of the pair. A pair has several hashes, because each letter can have either case.
type window struct {
	pairs  int
	hashes [maxPairs][4]byte
	count  [maxPairs]int
}

func newWindow(t literals.Text, start, n int) (w window) {
	w.pairs = n - 1
	for j := range w.pairs {
		x, y := [2]byte{t.Text[start+j]}, [2]byte{t.Text[start+j+1]}
		for _, c := range x[:bothCases(&x, t.Fold)] {
			for _, d := range y[:bothCases(&y, t.Fold)] {
				w.hashes[j][w.count[j]] = pairHash(c, d) & 127
				w.count[j]++
			}
		}
	}
	return w
}

// bothCases adds the other case of a letter to c, and returns the number of bytes.
func bothCases(c *[2]byte, fold bool) int {
	if lower := c[0] | 0x20; !fold || lower < 'a' || lower > 'z' {
		return 1
	}
	c[1] = c[0] ^ 0x20
	return 2
}

// extraMarks estimates the additional share of positions that are marked if the window is added to the bucket.
func (a *assigner) extraMarks(b *bucket, w *window) float32 {
	before, after := float32(1), float32(1)
	for j := range w.pairs {
		p := b.p[j]
		before *= p
		for _, h := range w.hashes[j][:w.count[j]] {
			if b.pairBits[j][h>>6]>>(h&63)&1 == 0 {
				p += a.freq[h]
			}
		}
		after *= p
	}
	return after - before
}

func (a *assigner) addToBucket(k int, w *window) {
	b := &a.buckets[k]
	tables, bit := &a.out.tables[k/8], byte(1)<<(k%8)
	if !b.used {
		b.used = true
		for j := w.pairs; j < maxPairs; j++ { // beyond the window every pair matches
			for h := range tables[j] {
				tables[j][h] |= bit
			}
		}
	}
	for j := range w.pairs {
		for _, h := range w.hashes[j][:w.count[j]] {
			a.putHash(k, j, h)
			if a.out.pairs == fewPairs {
				a.putHash(k, j, h^64)
			}
		}
	}
}

// putHash adds the bucket to the entry of this hash in the table of a pair.
func (a *assigner) putHash(k, pair int, hash byte) {
	b := &a.buckets[k]
	if b.pairBits[pair][hash>>6]>>(hash&63)&1 != 0 {
		return
	}
	b.pairBits[pair][hash>>6] |= 1 << (hash & 63)
	b.p[pair] += a.freq[hash]
	a.out.tables[k/8][pair][hash] |= 1 << (k % 8)
}
