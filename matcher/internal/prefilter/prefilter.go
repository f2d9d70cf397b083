// Package prefilter finds many literal texts in lines, quickly when they are long
// and rarely present.
//
// With vector instructions it tests every place of a block for the pairs of bytes with which
// texts have rare parts: see buckets.
//
// Without them it samples the line: every stride bytes it hashes one gram of q bytes and
// looks the hash up in a bit set. A text of at least stride+q-1 bytes contains
// such a sample wherever it starts, so the bit set holds the stride grams of
// one window of each text. The samples do not depend on each other, which keeps
// the processor's pipelines full; a sample whose bit is set is compared with
// the texts that put it there. A few texts that are much shorter than the others
// are located by one of their bytes instead.
package prefilter

import (
	"encoding/binary"
	"unsafe"

	"crowsnest/internal/literals"
)

// MinText is the length of the shortest text that a Filter finds.
const MinText = 3

const (
	lowerCase = 0x2020202020202020 // folds ASCII letters, and some other bytes
	topBits   = 0x8080808080808080
	prime     = 0x9E3779B97F4A7C15
)

// Filter is a set of texts, in tiers of similar length. It is immutable and safe
// for concurrent use. A nil Filter finds nothing.
type Filter struct {
	texts   []literals.Text
	buckets *buckets // nil means that the others are used
	anchors []anchor // anchors of the shortest texts
	tiers   []tier
}

type tier struct {
	stride, q int
	mask      uint64 // mask that keeps q bytes
	set       *bitSet
	slotShift uint     // hash to slot
	slots     []uint32 // first entry of each slot, and the end of the last
	entries   []entry
}

// entry is one gram of a text, and a second place of the text to look at: many
// texts begin alike.
type entry struct {
	gram      uint64
	check     uint64 // up to eight bytes at checkAt, folded
	checkMask uint64
	text      uint32
	length    uint32 // length of the text
	offset    uint32 // offset of the gram in the text
	checkAt   uint32
}

// Found is a text that is in a buffer.
type Found struct {
	Text int32 // its index
	At   int   // the byte of the buffer at which it begins
}

// Append appends the places of the texts that buf contains to dst, in no order and perhaps
// several times each. It may read beyond the buffer, up to its capacity.
func (f *Filter) Append(dst []Found, buf []byte, m *Marks) []Found {
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
		for at := t.next(buf, 0); at <= last; at = t.next(buf, at+t.stride) {
			dst = f.compare(dst, t, buf, at)
		}
	}
	return dst
}

// compare appends the texts that have the gram at this place and are there.
func (f *Filter) compare(dst []Found, t *tier, buf []byte, at int) []Found {
	x := t.load(buf, at)
	entries := t.slot(x)
	for i := range entries {
		e := &entries[i]
		if e.gram != x {
			continue
		}
		start := at - int(e.offset)
		end := start + int(e.length)
		if start < 0 || end > len(buf) {
			continue
		}
		if check := start + int(e.checkAt); check+8 <= len(buf) && (binary.LittleEndian.Uint64(buf[check:])|lowerCase)&e.checkMask != e.check {
			continue
		}
		text := &f.texts[e.text]
		if string(buf[start:end]) == text.Text || text.Fold && literals.EqualFold(buf[start:end], text.Text) {
			dst = append(dst, Found{int32(e.text), start})
		}
	}
	return dst
}

// slot returns the entries of the grams with the slot of this one.
func (t *tier) slot(gram uint64) []entry {
	k := gram * prime >> (t.slotShift & 63)
	return t.entries[t.slots[k]:t.slots[k+1]]
}

// next returns the first sample position from `at` on whose gram may be that of
// a text, or one at which no gram fits any more. It is the hot loop of the whole
// program, and a function of its own so that all of its state stays in registers. The size of
// the set is fixed so that its index needs neither a shift by a variable nor a
// check of bounds.
//
//go:noinline
func (t *tier) next(buf []byte, at int) int {
	mask, stride, set := t.mask, t.stride, t.set
	base, last := unsafe.Pointer(unsafe.SliceData(buf)), len(buf)-8
	for ; at+3*stride <= last; at += 4 * stride {
		p := unsafe.Add(base, at) // 8 bytes at p+3*stride are readable
		h0 := hash(p, mask)
		p = unsafe.Add(p, stride)
		h1 := hash(p, mask)
		p = unsafe.Add(p, stride)
		h2 := hash(p, mask)
		p = unsafe.Add(p, stride)
		h3 := hash(p, mask)
		if set.has(h0) || set.has(h1) || set.has(h2) || set.has(h3) {
			break
		}
	}
	for ; at <= last; at += stride {
		if set.has(hash(unsafe.Add(base, at), mask)) {
			return at
		}
	}
	// The last grams are shorter than what one load reads.
	for ; at+t.q <= len(buf); at += stride {
		if set.has(t.load(buf, at) * prime) {
			return at
		}
	}
	return at
}

// hash returns the hash of the gram at p, where 8 bytes must be readable.
func hash(p unsafe.Pointer, mask uint64) uint64 {
	return (binary.LittleEndian.Uint64((*[8]byte)(p)[:]) | lowerCase) & mask * prime
}

// bitSet is a set of hashes, by their first 18 bits. It fits the processor's first
// cache.
type bitSet [1 << 12]uint64

func (b *bitSet) has(hash uint64) bool { return b[hash>>52]>>(hash>>46&63)&1 != 0 }

func (b *bitSet) add(hash uint64) { b[hash>>52] |= 1 << (hash >> 46 & 63) }

// load returns the gram at a place where q bytes are left at least.
func (t *tier) load(buf []byte, at int) uint64 {
	n := len(buf)
	switch {
	case at+8 <= n:
		return (binary.LittleEndian.Uint64(buf[at:]) | lowerCase) & t.mask
	case n >= 8:
		return (binary.LittleEndian.Uint64(buf[n-8:])>>(8*uint(at+8-n)) | lowerCase) & t.mask
	}
	var b [8]byte
	copy(b[:], buf[at:])
	return (binary.LittleEndian.Uint64(b[:]) | lowerCase) & t.mask
}
