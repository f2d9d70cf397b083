package prefilter

import "unsafe"

// plainHashPairs makes the first pass over a chunk. It writes the hashes of the pairs of bytes
// that begin in the blocks, and lists the newlines. It reads one byte beyond the blocks. A
// byte of least is 0 if there is a NUL byte, and otherwise none is.
func plainHashPairs(hashes, text *byte, blocks int, list *uint16) (n int, least uint64) {
	from, to := unsafe.Slice(text, blocks*blockSize+1), unsafe.Slice(hashes, blocks*blockSize)
	out := unsafe.Slice(list, len(to))
	least = 1<<64 - 1
	for i := range to {
		to[i] = pairHash(from[i], from[i+1])
		switch from[i] {
		case '\n':
			out[n] = uint16(i)
			n++
		case 0:
			least = 0
		}
	}
	return n, least
}

// plainLook makes the second pass: it lists the marked places. It reads six hashes beyond
// the blocks.
func (b *buckets) plainLook(hashes *byte, blocks int, list *uint16) (n int) {
	from := unsafe.Slice(hashes, blocks*blockSize+maxPairs-1)
	out := unsafe.Slice(list, blocks*blockSize)
	for i := range out {
		if b.markedAt(from[i:]) {
			out[n] = uint16(i)
			n++
		}
	}
	return n
}
