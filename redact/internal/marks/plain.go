package marks

import "unsafe"

// plainClassify writes codes and kinds of the n bytes of a text. It writes to seen what kinds
// and what bits of bytes there are.
func plainClassify(a *Alphabet, text *byte, n int, codes *byte, kinds, seen *uint64) {
	from, to := unsafe.Slice(text, n), unsafe.Slice(codes, n)
	places := unsafe.Slice(kinds, (n+block-1)/block*placed)
	sums := unsafe.Slice(seen, 2*8)
	for i, c := range from {
		sums[8] |= uint64(c)
		if c >= 0x80 {
			continue
		}
		to[i] = a.codes[c]
		kind := a.kinds[c]
		sums[0] |= uint64(kind)
		for k := range placed {
			places[i/block*placed+k] |= uint64(kind>>k&1) << (i % block)
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
