//go:build !amd64

package prefilter

// vector is as in vector_amd64.go. Without it New makes no buckets: they would be slow.
const vector = false

func hashPairs(hashes, text *byte, blocks int, newlines *uint64) (least uint64) {
	return plainHashPairs(hashes, text, blocks, newlines)
}

func (b *buckets) look(hashes *byte, blocks int, places *uint64) { b.plainLook(hashes, blocks, places) }
