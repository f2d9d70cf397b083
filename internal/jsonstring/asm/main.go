// Command asm writes the vector code of package jsonstring: see go:generate in
// vector_amd64.go.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const atOnce = 32 // bytes: with a backslash before each they fill a vector

func main() {
	TEXT("escapeVBMI", NOSPLIT, "func(text *byte, n int, out *byte) (read, written int)")
	Doc("escapeVBMI copies n bytes with a backslash before quotes and backslashes, up to the first one that is a control",
		"character or not ASCII. It writes 64 bytes more than it returns, at most. n is positive.")
	Pragma("noescape")
	text, left, out := Load(Param("text"), GP64()), Load(Param("n"), GP64()), Load(Param("out"), GP64())
	first, start := GP64(), GP64()
	MOVQ(text, first)
	MOVQ(out, start)
	space, quote, backslash, before := repeat(' ', YMM()), repeat('"', YMM()), repeat('\\', YMM()), ZMM()
	word := GP32()
	MOVL(U32('\\'), word)
	VPBROADCASTW(word, before)
	even, ones := constant(0x5555555555555555), constant(1<<64-1)

	x, wide, keep := YMM(), ZMM(), K()
	in, stop, escape, mask := K(), K(), K(), K()
	count, stops, chosen, part := GP64(), GP64(), GP64(), GP64()
	Label("next")
	MOVQ(U32(atOnce), count)
	CMPQ(left, count)
	CMOVQLT(left, count)
	BZHIQ(count, ones, part)
	KMOVQ(part, in)
	VMOVDQU8_Z(Mem{Base: text}, in, x)
	VPCMPB(U8(1), space, x, in, stop) // less than a space, as signed numbers
	KMOVQ(stop, stops)
	TESTQ(stops, stops)
	JNZ(LabelRef("stop"))
	Label("write")
	VPCMPEQB(quote, x, in, escape)
	VPCMPEQB(backslash, x, in, mask)
	KORQ(mask, escape, escape)

	// Each byte behind a backslash; the backslashes that are not needed are dropped.
	VPMOVZXBW(x, wide)
	VPSLLW(U8(8), wide, wide)
	VPORD(before, wide, wide)
	KMOVQ(escape, chosen)
	PDEPQ(even, chosen, chosen)
	PDEPQ(even, part, part)
	ADDQ(part, part)
	ORQ(part, chosen)
	KMOVQ(chosen, keep)
	VPCOMPRESSB_Z(wide, keep, wide)
	VMOVDQU64(wide, Mem{Base: out})
	POPCNTQ(chosen, chosen)
	ADDQ(chosen, out)
	ADDQ(count, text)
	SUBQ(count, left)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	SUBQ(first, text)
	Store(text, ReturnIndex(0))
	SUBQ(start, out)
	Store(out, ReturnIndex(1))
	RET()

	Label("stop")
	TZCNTQ(stops, count)
	MOVQ(count, left)
	BZHIQ(count, ones, part)
	KMOVQ(part, in)
	JMP(LabelRef("write"))
	Generate()
}

// repeat returns a vector of equal bytes.
func repeat(c byte, to VecVirtual) VecVirtual {
	word := GP32()
	MOVL(U32(uint32(c)), word)
	VPBROADCASTB(word, to)
	return to
}

func constant(x uint64) GPVirtual {
	to := GP64()
	MOVQ(U64(x), to)
	return to
}
