//go:build !amd64

package prefilter

// vector reports that there is no vector code for this processor. New then makes no buckets, because they would be
// slow.
const vector = false

func hashPairs(hashes, text *byte, blocks int, list *uint16) (n int, least uint64) {
	return plainHashPairs(hashes, text, blocks, list)
}

func (b *buckets) look(hashes *byte, blocks int, list *uint16) (n int) {
	return b.plainLook(hashes, blocks, list)
}
