// Package prefilter finds many literal texts in lines. It is fast if the texts are long and rare.
//
// With vector instructions it tests every position of a block for pairs of bytes that occur in rare sections of the
// texts; see buckets.
//
// Without vector instructions it samples the line. Every stride bytes it hashes one gram, which is a sequence of q
// bytes, and looks the hash up in a bit set. The window of a text is a section of stride+q-1 bytes that is rare in
// typical input. The bit set holds the stride grams of the window of each text, so one sample falls on one of these
// grams wherever the text begins. The samples do not depend on each other, which keeps the processor's pipelines full.
// If the bit of a sample is set, the line is compared with the texts of that gram. Texts of similar length form a tier
// with its own stride and bit set. A few texts that are much shorter than the others are located by one of their bytes
// instead, their anchor.
package prefilter

import (
	"encoding/binary"
	"unsafe"

	"crowsnest/internal/literals"
)

// MinText is the minimum length in bytes of the texts of a Filter.
const MinText = 3

const (
	lowerCase = 0x2020202020202020 // makes ASCII letters lower case, and changes some other bytes too
	topBits   = 0x8080808080808080
	prime     = 0x9E3779B97F4A7C15
)

// Filter is a set of texts to search for. It is immutable and safe for concurrent use. A nil Filter finds nothing.
type Filter struct {
	texts   []literals.Text
	buckets *buckets // nil if tiers and anchors are used instead
	anchors []anchor // anchors of the shortest texts
	tiers   []tier
}

type tier struct {
	stride, q int
	mask      uint64 // mask for the q bytes of a gram
	set       *bitSet
	slotShift uint     // shift from a hash to the index of a slot
	slots     []uint32 // index of the first entry of each slot; the last element is the number of entries
	entries   []entry
}

// entry is one gram of a text. It also has a second section of the text to compare, because many texts begin alike.
type entry struct {
	gram      uint64
	check     uint64 // up to eight bytes of the text at checkAt, in lower case
	checkMask uint64
	text      uint32
	length    uint32
	offset    uint32 // offset of the gram in the text
	checkAt   uint32
}

// FoundText is an occurrence of a text in a buffer.
type FoundText struct {
	Text int32 // index of the text
	At   int   // offset in the buffer of the text's first byte
}

// Append appends the occurrences of the texts in buf to dst, in no particular order. An occurrence may be appended more
// than once. It may read memory after the buffer, up to the buffer's capacity.
func (f *Filter) Append(dst []FoundText, buf []byte, m *Marks) []FoundText {
	switch {
	case f == nil:
		return dst
	case f.buckets != nil:
		return f.appendMarked(dst, buf, m)
	}
	for i := range f.anchors {
		dst = f.appendAnchored(dst, &f.anchors[i], buf)
	}
	for i := range f.tiers {
		t := &f.tiers[i]
		last := len(buf) - t.q
		for at := t.nextSample(buf, 0); at <= last; at = t.nextSample(buf, at+t.stride) {
			dst = f.appendWithGram(dst, t, buf, at)
		}
	}
	return dst
}

// appendWithGram appends the texts that contain the gram at pos and occur there.
func (f *Filter) appendWithGram(dst []FoundText, t *tier, buf []byte, pos int) []FoundText {
	x := t.load(buf, pos)
	entries := t.slot(x)
	for i := range entries {
		e := &entries[i]
		if e.gram != x {
			continue
		}
		start := pos - int(e.offset)
		end := start + int(e.length)
		if start < 0 || end > len(buf) {
			continue
		}
		if check := start + int(e.checkAt); check+8 <= len(buf) && (binary.LittleEndian.Uint64(buf[check:])|lowerCase)&e.checkMask != e.check {
			continue
		}
		text := &f.texts[e.text]
		if string(buf[start:end]) == text.Text || text.Fold && literals.EqualFold(buf[start:end], text.Text) {
			dst = append(dst, FoundText{int32(e.text), start})
		}
	}
	return dst
}

// slot returns the entries of all grams that share the gram's slot.
func (t *tier) slot(gram uint64) []entry {
	k := gram * prime >> (t.slotShift & 63)
	return t.entries[t.slots[k]:t.slots[k+1]]
}

// nextSample returns the first sampled position from i on whose gram may belong to a text. If there is none, it returns
// a position after which no whole gram is left. It is the hot loop of the whole program. It is a separate function so
// that its state stays in registers. The size of the bit set is fixed so that its index needs neither a variable shift
// nor a bounds check.
//
//go:noinline
func (t *tier) nextSample(buf []byte, i int) int {
	mask, stride, set := t.mask, t.stride, t.set
	base, last := unsafe.Pointer(unsafe.SliceData(buf)), len(buf)-8
	for ; i+3*stride <= last; i += 4 * stride {
		p := unsafe.Add(base, i) // 8 bytes are readable at p+3*stride
		h0 := hashGram(p, mask)
		p = unsafe.Add(p, stride)
		h1 := hashGram(p, mask)
		p = unsafe.Add(p, stride)
		h2 := hashGram(p, mask)
		p = unsafe.Add(p, stride)
		h3 := hashGram(p, mask)
		if set.has(h0) || set.has(h1) || set.has(h2) || set.has(h3) {
			break
		}
	}
	for ; i <= last; i += stride {
		if set.has(hashGram(unsafe.Add(base, i), mask)) {
			return i
		}
	}
	// At the end of the buffer, fewer bytes may be left than one load reads.
	for ; i+t.q <= len(buf); i += stride {
		if set.has(t.load(buf, i) * prime) {
			return i
		}
	}
	return i
}

// hashGram returns the hash of the gram at p. 8 bytes must be readable at p.
func hashGram(p unsafe.Pointer, mask uint64) uint64 {
	return (binary.LittleEndian.Uint64((*[8]byte)(p)[:]) | lowerCase) & mask * prime
}

// bitSet is a set of hashes, by their first 18 bits. It fits into the processor's L1 cache.
type bitSet [1 << 12]uint64

func (b *bitSet) has(hash uint64) bool { return b[hash>>52]>>(hash>>46&63)&1 != 0 }

func (b *bitSet) add(hash uint64) { b[hash>>52] |= 1 << (hash >> 46 & 63) }

// load returns the gram at i. The buffer must contain at least q bytes from i on.
func (t *tier) load(buf []byte, i int) uint64 {
	n := len(buf)
	switch {
	case i+8 <= n:
		return (binary.LittleEndian.Uint64(buf[i:]) | lowerCase) & t.mask
	case n >= 8:
		return (binary.LittleEndian.Uint64(buf[n-8:])>>(8*uint(i+8-n)) | lowerCase) & t.mask
	}
	var b [8]byte
	copy(b[:], buf[i:])
	return (binary.LittleEndian.Uint64(b[:]) | lowerCase) & t.mask
}
