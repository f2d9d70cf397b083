package marks

import (
	"unicode/utf8"
	"unsafe"
)

// plainClassify writes codes and kinds of a text, which are 0 before. It writes to seen what
// kinds and what bits of bytes there are.
func plainClassify(a *Alphabet, t *Text, s string, seen *[2][8]uint64) {
	for i := range len(s) {
		c := s[i]
		seen[1][0] |= uint64(c)
		if c >= utf8.RuneSelf {
			continue
		}
		kind := a.kinds[c]
		seen[0][0] |= uint64(kind)
		t.codes[block+i] = a.codes[c]
		for k := range placed {
			t.kinds[i/block][k] |= uint64(kind>>k&1) << (i % block)
		}
	}
}

// plainLook sets the bits of the places at which the tables of all neighbours agree on a
// bucket. It reads seven codes beyond the blocks.
func plainLook(w *Windows, codes *byte, blocks int, places *uint64) {
	from, to := unsafe.Slice(codes, blocks*block+Width-1), unsafe.Slice(places, blocks)
	clear(to)
	for i := range blocks * block {
		for g := range w.tables {
			all := uint8(0xff)
			for j := range Width {
				all &= w.tables[g][j][from[i+j]]
			}
			if all != 0 {
				to[i/block] |= 1 << (i % block)
			}
		}
	}
}
