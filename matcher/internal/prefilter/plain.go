package prefilter

import "unsafe"

// plainHashPairs is hashPairs without vectors.
func plainHashPairs(hashes, text *byte, blocks int, newlines *uint64) (least uint64) {
	from := unsafe.Slice(text, blocks*blockSize+1)
	to, lines := unsafe.Slice(hashes, blocks*blockSize), unsafe.Slice(newlines, blocks)
	clear(lines)
	least = 1<<64 - 1
	for i := range to {
		to[i] = pairHash(from[i], from[i+1])
		switch from[i] {
		case '\n':
			lines[i/blockSize] |= 1 << (i % blockSize)
		case 0:
			least = 0
		}
	}
	return least
}

// plainLook is look without vectors.
func (b *buckets) plainLook(hashes *byte, blocks int, places *uint64) {
	from, to := unsafe.Slice(hashes, blocks*blockSize+maxPairs-1), unsafe.Slice(places, blocks)
	clear(to)
	for i := range blocks * blockSize {
		if b.markedAt(from[i:]) {
			to[i/blockSize] |= 1 << (i % blockSize)
		}
	}
}
