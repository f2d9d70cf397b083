package prefilter

import "golang.org/x/sys/cpu"

//go:generate go -C asm run . -out ../vector_amd64.s -stubs ../vectorstubs_amd64.go -pkg prefilter

// vector reports whether the processor can look up 64 bytes in a table of 128 with one
// instruction. GODEBUG=cpu.avx2=off disables it.
var vector = cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasPOPCNT &&
	cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VBMI

func hashPairs(hashes, text *byte, blocks int, list *uint16) (n int, least uint64) {
	if !vector {
		return plainHashPairs(hashes, text, blocks, list)
	}
	return hashVBMI(hashes, text, blocks, list)
}

func (b *buckets) look(hashes *byte, blocks int, list *uint16) (n int) {
	tables := &b.tables[0][0][0]
	switch {
	case !vector:
		return b.plainLook(hashes, blocks, list)
	case b.groups == 2:
		return lookBothVBMI(tables, hashes, blocks, list)
	case b.pairs > fewPairs:
		return lookMostVBMI(tables, hashes, blocks, list)
	}
	return lookFewVBMI(tables, hashes, blocks, list)
}
