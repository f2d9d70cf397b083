package prefilter

import (
	"bytes"
	"math/bits"
)

// chunk is how many bytes are marked at a time: few enough for the processor's first cache.
const chunk = 4 << 10

const blockSize = 64

// Marks is working memory of the methods of a Filter. Its zero value is ready. It is not safe
// for concurrent use.
type Marks struct {
	// NUL is set while Lines is at a line of a block in which it has seen a NUL byte.
	NUL bool

	newlines [chunk/blockSize + 1]uint64 // a bit for each byte of the chunk
	marked   [chunk / blockSize]uint64   // where a text may be
	hashes   [chunk + blockSize]byte     // of the pairs of bytes that begin there
	padded   [chunk + 2*blockSize]byte   // a chunk without readable memory beyond it
	least    uint64                      // one of its bytes is 0 if the chunk, or what is beyond it, has a NUL byte
	found    []int32
}

// mark marks the first bytes of text, and returns how many. It may read what is beyond the
// text, up to its capacity; that affects no mark.
func (b *buckets) mark(m *Marks, text []byte) int {
	n := min(len(text), chunk)
	blocks := (n + blockSize - 1) / blockSize
	read := (blocks+1)*blockSize + 1 // texts that begin in the last block may end in one more
	from := m.padded[:read]
	if cap(text) >= read {
		from = text[:read]
	} else {
		clear(from[copy(from, text[:n]):])
	}
	m.least = hashPairs(&m.hashes[0], &from[0], blocks+1, &m.newlines[0])
	b.look(&m.hashes[0], blocks, &m.marked[0])
	if rest := n % blockSize; rest > 0 {
		mask := uint64(1)<<rest - 1
		m.newlines[blocks-1] &= mask
		m.marked[blocks-1] &= mask
	}
	return n
}

// hasZero reports whether a byte of the word is 0.
func hasZero(x uint64) bool { return (x-0x0101010101010101)&^x&topBits != 0 }

// Marks reports whether Lines looks for texts. If not, every line may contain one, unless f is nil.
func (f *Filter) Marks() bool { return f != nil && f.buckets != nil }

// Lines calls line for each line of a block, in order. A newline is not part of its line. may
// is set if the line may contain a text.
func (f *Filter) Lines(m *Marks, block []byte, line func(start, end int, may bool)) {
	if f == nil || f.buckets == nil {
		f.plainLines(m, block, line)
		return
	}
	m.NUL = false
	start, may := 0, false
	for from := 0; from < len(block); {
		n := f.buckets.mark(m, block[from:])
		m.NUL = m.NUL || hasZero(m.least) && bytes.IndexByte(block[from:from+n], 0) >= 0
		for w := range (n + blockSize - 1) / blockSize {
			places, newlines := m.marked[w], m.newlines[w]
			for at := from + w*blockSize; newlines != 0; newlines &= newlines - 1 {
				k := bits.TrailingZeros64(newlines)
				before := places & (1<<k - 1)
				places ^= before
				line(start, at+k, may || before != 0 && f.anyAt(m, block, at, before))
				start, may = at+k+1, false
			}
			may = may || places != 0 && f.anyAt(m, block, from+w*blockSize, places)
		}
		from += n
	}
	if start < len(block) {
		line(start, len(block), may)
	}
}

// plainLines is Lines for a filter that searches each line alone.
func (f *Filter) plainLines(m *Marks, block []byte, line func(start, end int, may bool)) {
	m.NUL = bytes.IndexByte(block, 0) >= 0
	for start := 0; start < len(block); {
		end := len(block)
		if k := bytes.IndexByte(block[start:], '\n'); k >= 0 {
			end = start + k
		}
		line(start, end, f != nil)
		start = end + 1
	}
}

// anyAt reports whether a text is at one of the places, which are bits from `at` on.
func (f *Filter) anyAt(m *Marks, buf []byte, at int, places uint64) bool {
	m.found = m.found[:0]
	for ; places != 0 && len(m.found) == 0; places &= places - 1 {
		m.found = f.appendAt(m.found, buf, at+bits.TrailingZeros64(places))
	}
	return len(m.found) > 0
}

// appendMarked is Append with buckets.
func (f *Filter) appendMarked(dst []int32, buf []byte, m *Marks) []int32 {
	for from := 0; from < len(buf); {
		n := f.buckets.mark(m, buf[from:])
		for w, places := range m.marked[:(n+blockSize-1)/blockSize] {
			for ; places != 0; places &= places - 1 {
				dst = f.appendAt(dst, buf, from+w*blockSize+bits.TrailingZeros64(places))
			}
		}
		from += n
	}
	return dst
}

// appendAt appends the texts whose window begins at a place.
func (f *Filter) appendAt(dst []int32, buf []byte, at int) []int32 {
	for i := range f.buckets.windows {
		t := &f.buckets.windows[i]
		if at+t.q <= len(buf) && t.set.has(t.load(buf, at)*prime) {
			dst = f.compare(dst, t, buf, at)
		}
	}
	return dst
}
