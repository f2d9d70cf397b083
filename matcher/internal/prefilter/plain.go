package prefilter

import "unsafe"

// plainHashPairs is the first pass over a chunk. It writes the hash of the pair of bytes at each position, and lists
// the positions of newlines. It reads one byte after the blocks. A byte of least is zero only if the text has a NUL
// byte.
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

// plainLook is the second pass over a chunk, which lists the marked positions. It reads six hashes after the blocks.
func (b *buckets) plainLook(hashes *byte, blocks int, list *uint16) (n int) {
	from := unsafe.Slice(hashes, blocks*blockSize+maxPairs-1)
	out := unsafe.Slice(list, blocks*blockSize)
	for i := range out {
		if b.isMarked(from[i:]) {
			out[n] = uint16(i)
			n++
		}
	}
	return n
}
