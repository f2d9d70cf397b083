// Command asm writes the vector code of package literals (see go:generate in vector_amd64.go).
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const block = 64 // positions that one step compares

func main() {
	TEXT("pairBW", NOSPLIT, "func(text *byte, n, distance int, first, firstFold, second, secondFold uint32) (at int)")
	Doc("pairBW returns the first of n positions of text that holds the byte first and is followed, at the distance, by the byte second.",
		"Before a byte is compared, the bits of its fold are set. If there is no such position, pairBW returns n or more.",
		"It reads only text[:n] and text[distance:distance+n]. n must be positive.")
	Pragma("noescape")
	text, n, secondText := Load(Param("text"), GP64()), Load(Param("n"), GP64()), Load(Param("distance"), GP64())
	ADDQ(text, secondText)
	var vectors [4]VecVirtual
	for i, name := range []string{"first", "firstFold", "second", "secondFold"} {
		vectors[i] = ZMM()
		VPBROADCASTB(Load(Param(name), GP32()), vectors[i])
	}
	at, left, ones, bits := GP64(), GP64(), GP64(), GP64()
	x, in, mask := ZMM(), K(), K()
	XORL(at.As32(), at.As32())
	MOVQ(n, left)
	MOVQ(I32(-1), ones)
	Label("next")
	CMPQ(left, U8(block))
	JAE(LabelRef("whole"))
	BZHIQ(left, ones, ones)
	Label("whole")
	KMOVQ(ones, in)
	VMOVDQU8_Z(Mem{Base: text, Index: at, Scale: 1}, in, x)
	VPORD(vectors[1], x, x)
	VPCMPEQB(vectors[0], x, in, mask)
	VMOVDQU8_Z(Mem{Base: secondText, Index: at, Scale: 1}, in, x)
	VPORD(vectors[3], x, x)
	VPCMPEQB(vectors[2], x, mask, mask)
	KMOVQ(mask, bits)
	TESTQ(bits, bits)
	JNZ(LabelRef("found"))
	ADDQ(U8(block), at)
	SUBQ(U8(block), left)
	JA(LabelRef("next"))
	VZEROUPPER()
	Store(at, ReturnIndex(0))
	RET()
	Label("found")
	TZCNTQ(bits, bits)
	ADDQ(bits, at)
	VZEROUPPER()
	Store(at, ReturnIndex(0))
	RET()
	Generate()
}
