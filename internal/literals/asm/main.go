// Command asm writes the vector code of package literals: see go:generate in
// vector_amd64.go.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const atOnce = 64 // places

func main() {
	TEXT("pairBW", NOSPLIT, "func(text *byte, n, distance int, first, firstFold, second, secondFold uint32) (at int)")
	Doc("pairBW returns the first of n places at which a byte is first, and the byte at a distance behind it second, after the",
		"bits of their folds are set in both; n or more if there is none. It reads no other bytes. n is positive.")
	Pragma("noescape")
	text, n, behind := Load(Param("text"), GP64()), Load(Param("n"), GP64()), Load(Param("distance"), GP64())
	ADDQ(text, behind)
	var of [4]VecVirtual
	for i, name := range []string{"first", "firstFold", "second", "secondFold"} {
		of[i] = ZMM()
		VPBROADCASTB(Load(Param(name), GP32()), of[i])
	}
	at, left, ones, some := GP64(), GP64(), GP64(), GP64()
	x, in, mask := ZMM(), K(), K()
	XORL(at.As32(), at.As32())
	MOVQ(n, left)
	MOVQ(I32(-1), ones)
	Label("next")
	CMPQ(left, U8(atOnce))
	JAE(LabelRef("whole"))
	BZHIQ(left, ones, ones)
	Label("whole")
	KMOVQ(ones, in)
	VMOVDQU8_Z(Mem{Base: text, Index: at, Scale: 1}, in, x)
	VPORD(of[1], x, x)
	VPCMPEQB(of[0], x, in, mask)
	VMOVDQU8_Z(Mem{Base: behind, Index: at, Scale: 1}, in, x)
	VPORD(of[3], x, x)
	VPCMPEQB(of[2], x, mask, mask)
	KMOVQ(mask, some)
	TESTQ(some, some)
	JNZ(LabelRef("found"))
	ADDQ(U8(atOnce), at)
	SUBQ(U8(atOnce), left)
	JA(LabelRef("next"))
	VZEROUPPER()
	Store(at, ReturnIndex(0))
	RET()
	Label("found")
	TZCNTQ(some, some)
	ADDQ(some, at)
	VZEROUPPER()
	Store(at, ReturnIndex(0))
	RET()
	Generate()
}
