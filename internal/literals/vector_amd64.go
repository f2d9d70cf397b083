package literals

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:generate go -C asm run . -out ../vector_amd64.s -stubs ../vectorstubs_amd64.go -pkg literals

// vector reports whether the processor compares 64 bytes at once. GODEBUG can turn that off:
// cpu.avx2=off.
var vector = cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW

// find returns the first of n places of line, of which at least one is left, where the pair may
// be; -1 if there is none.
func (p *pair) find(line []byte, n int) int {
	at := pairBW(unsafe.SliceData(line[p.at:]), n, p.distance, p.first, p.firstFold, p.second, p.secondFold)
	if at >= n {
		return -1
	}
	return at
}
