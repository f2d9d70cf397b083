package marks

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:generate go -C asm run . -out ../vector_amd64.s -stubs ../vectorstubs_amd64.go -pkg marks

// Fast reports whether the processor reads texts 64 bytes at a time. Otherwise a text is read
// byte by byte. GODEBUG can turn that off: cpu.avx2=off.
var Fast = cpu.X86.HasAVX2 && cpu.X86.HasBMI2 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VBMI

func classify(a *Alphabet, t *Text, s string, seen *[2][8]uint64) {
	if Fast {
		classifyVBMI(&a.codes[0], unsafe.StringData(s), len(s), &t.codes[block], &t.kinds[0][0], &seen[0][0])
		return
	}
	plainClassify(a, t, s, seen)
}

func look(w *Windows, codes *byte, blocks int, places *uint64) {
	if Fast {
		lookVBMI(&w.tables[0][0][0], codes, blocks, places)
		return
	}
	plainLook(w, codes, blocks, places)
}
