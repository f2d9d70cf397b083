package literals

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:generate go -C asm run . -out ../vector_amd64.s -stubs ../vectorstubs_amd64.go -pkg literals

// vector reports whether the processor can compare 64 bytes with one instruction. GODEBUG=cpu.avx2=off disables it.
var vector = cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW

// find returns the first of n positions of line that has the pair, or -1 if there is none. n must be positive, and the
// text must fit at each of the positions.
func (p *pair) find(line []byte, n int) int {
	at := pairBW(unsafe.SliceData(line[p.offset:]), n, int(p.distance), uint32(p.first), uint32(p.firstFold), uint32(p.second), uint32(p.secondFold))
	if at >= n {
		return -1
	}
	return at
}
