package prefilter

import "golang.org/x/sys/cpu"

//go:generate go run -modfile=../../../tools/go.mod asm/main.go -out vector_amd64.s -stubs vector_stubs_amd64.go -pkg prefilter

// vector reports whether the processor looks 64 bytes up in a table of 128 at once. GODEBUG
// can turn that off, with cpu.avx2=off or cpu.avx512vbmi=off.
var vector = cpu.X86.HasAVX2 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VBMI

// hashPairs is the first pass over a chunk, of at least one block of 64 bytes.
func hashPairs(hashes, text *byte, blocks int, newlines *uint64) (least uint64) {
	return hashVBMI(hashes, text, blocks, newlines)
}

// look is the second pass.
func (b *buckets) look(hashes *byte, blocks int, places *uint64) {
	switch {
	case b.groups == 2:
		look14VBMI(&b.tables[0][0][0], hashes, blocks, places)
	case b.pairs > fewPairs:
		look7VBMI(&b.tables[0][0][0], hashes, blocks, places)
	default:
		look4VBMI(&b.tables[0][0][0], hashes, blocks, places)
	}
}
