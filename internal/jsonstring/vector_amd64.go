package jsonstring

import (
	"slices"
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:generate go -C asm run . -out ../vector_amd64.s -stubs ../vectorstubs_amd64.go -pkg jsonstring

// vector reports whether the processor escapes 32 bytes at once. GODEBUG can turn that off:
// cpu.avx2=off.
var vector = cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2 && cpu.X86.HasPOPCNT &&
	cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512VBMI2

// escape appends the beginning of s, up to what needs more than a backslash, and returns its
// length. s must not be empty.
func escape(b []byte, s string) ([]byte, int) {
	b = slices.Grow(b, 2*len(s)+slack)
	read, written := escapeVBMI(unsafe.StringData(s), len(s), unsafe.SliceData(b[len(b):cap(b)]))
	return b[:len(b)+written], read
}
