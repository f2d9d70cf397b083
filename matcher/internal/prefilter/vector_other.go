//go:build !amd64

package prefilter

// vector has the meaning of that in vector_amd64.go. Without it New makes no buckets, because
// they would be slow.
const vector = false

func hashPairs(hashes, text *byte, blocks int, list *uint16) (n int, least uint64) {
	return plainHashPairs(hashes, text, blocks, list)
}

func (b *buckets) look(hashes *byte, blocks int, list *uint16) (n int) {
	return b.plainLook(hashes, blocks, list)
}
