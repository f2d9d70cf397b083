// Package sieve finds many literal texts in lines, quickly when they are long
// and rarely present.
//
// It samples the line: every stride bytes it hashes one gram of q bytes and
// looks the hash up in a bit set. A text of at least stride+q-1 bytes contains
// such a sample wherever it starts, so the bit set holds the stride grams of
// one window of each text. The samples do not depend on each other, which keeps
// the processor's pipelines full; a sample whose bit is set is compared with
// the texts that put it there.
package sieve

import (
	"encoding/binary"

	"crowsnest/matcher/internal/needs"
)

// MinText is the length of the shortest text that can be looked for.
const MinText = 3

const (
	lowerCase = 0x2020202020202020 // folds ASCII letters, and some other bytes
	prime     = 0x9E3779B97F4A7C15
)

// Sieve is a set of texts, in tiers of similar length. It is immutable and safe
// for concurrent use. A nil Sieve finds nothing.
type Sieve struct {
	texts []needs.Text
	tiers []tier
}

type tier struct {
	stride, q int
	mask      uint64 // of q bytes
	shift     uint   // hash to bit
	bits      []uint64
	slotShift uint     // hash to slot
	slots     []uint32 // first entry of each slot, and the end of the last
	entries   []entry
}

type entry struct {
	gram   uint64
	text   uint32
	offset uint32 // of the gram in the text
}

// Append appends the indices of the texts that buf contains to dst, in no order
// and perhaps several times each.
func (s *Sieve) Append(dst []int32, buf []byte) []int32 {
	if s == nil {
		return dst
	}
	for i := range s.tiers {
		t := &s.tiers[i]
		last := len(buf) - t.q
		for at := t.next(buf, 0); at <= last; at = t.next(buf, at+t.stride) {
			dst = s.compare(dst, t, buf, at)
		}
	}
	return dst
}

// compare appends the texts that have the gram at this place and are there.
func (s *Sieve) compare(dst []int32, t *tier, buf []byte, at int) []int32 {
	x := t.load(buf, at)
	slot := x * prime >> (t.slotShift & 63)
	for _, e := range t.entries[t.slots[slot]:t.slots[slot+1]] {
		if e.gram != x {
			continue
		}
		start := at - int(e.offset)
		text := &s.texts[e.text]
		end := start + len(text.Text)
		if start < 0 || end > len(buf) {
			continue
		}
		if string(buf[start:end]) == text.Text || text.Fold && needs.EqualFold(buf[start:end], text.Text) {
			dst = append(dst, int32(e.text))
		}
	}
	return dst
}

// next returns the first sample position from `at` on whose gram may be that of
// a text, or one at which no gram fits any more. It is the hot loop of the whole
// program and kept apart so that all of its state stays in registers.
//
//go:noinline
func (t *tier) next(buf []byte, at int) int {
	mask, shift, stride, set := t.mask, t.shift&63, t.stride, t.bits
	for ; at+8 <= len(buf); at += stride {
		x := (binary.LittleEndian.Uint64(buf[at:]) | lowerCase) & mask
		k := x * prime >> shift
		if set[k>>6]>>(k&63)&1 != 0 {
			return at
		}
	}
	// The last grams are shorter than what one load reads.
	for ; at+t.q <= len(buf); at += stride {
		if k := t.load(buf, at) * prime >> shift; set[k>>6]>>(k&63)&1 != 0 {
			return at
		}
	}
	return at
}

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
