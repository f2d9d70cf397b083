package marks

import "golang.org/x/sys/cpu"

//go:generate go -C asm run . -out ../vector_amd64.s -stubs ../vectorstubs_amd64.go -pkg marks

// Fast reports whether the processor reads texts 64 bytes at a time. Otherwise a text is read
// byte by byte. GODEBUG can turn that off: cpu.avx512bw=off.
var Fast = cpu.X86.HasBMI2 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VBMI

func classify(a *Alphabet, text *byte, n int, codes *byte, kinds, seen *uint64) {
	if Fast {
		classifyVBMI(&a.codes[0], text, n, codes, kinds, seen)
		return
	}
	plainClassify(a, text, n, codes, kinds, seen)
}

func look(w *Windows, codes *byte, blocks int, places *uint64) {
	if Fast {
		lookVBMI(&w.tables[0][0][0], codes, blocks, places)
		return
	}
	plainLook(w, codes, blocks, places)
}
