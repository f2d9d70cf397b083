// Command asm writes the vector code of package marks: see go:generate in vector_amd64.go.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// As in package marks.
const (
	block  = 64
	width  = 8
	groups = 3
)

// Truth tables of a & b & c and a | b | c.
const (
	andAll = 0x80
	orAll  = 0xfe
)

func main() {
	classify()
	look()
	Generate()
}

// classify writes the pass over the text. Loads and lookups are masked, so that nothing is
// read behind the text, and bytes beyond ASCII and behind the text have the code 0.
func classify() {
	TEXT("classifyVBMI", NOSPLIT, "func(tables, text *byte, n int, codes *byte, kinds, seen *uint64)")
	Doc("classifyVBMI writes the codes and kinds of a text of n bytes, 1 at least, in blocks of 64. It writes the",
		"disjunctions of the kinds and of the bytes, each in 64 parts.")
	Pragma("noescape")
	tables := Load(Param("tables"), GP64())
	text := Load(Param("text"), GP64())
	n := Load(Param("n"), GP64())
	codes := Load(Param("codes"), GP64())
	kinds := Load(Param("kinds"), GP64())
	var table [4]VecVirtual
	for i := range table {
		table[i] = ZMM()
		VMOVDQU64(Mem{Base: tables, Disp: block * i}, table[i])
	}
	var bit [4]VecVirtual
	word := GP32()
	for i := range bit {
		bit[i] = ZMM()
		MOVL(U32(0x01010101<<i), word)
		VPBROADCASTD(word, bit[i])
	}
	sum, bytes := ZMM(), ZMM()
	VPXORD(sum, sum, sum)
	VPXORD(bytes, bytes, bytes)
	ones, set := GP64(), GP64()
	MOVQ(I64(-1), ones)
	inside, other := K(), K()
	x, code, kind := ZMM(), ZMM(), ZMM()
	Label("block")
	MOVQ(ones, set)
	CMPQ(n, U8(block))
	JAE(LabelRef("whole"))
	BZHIQ(n, ones, set)
	Label("whole")
	KMOVQ(set, inside)
	VMOVDQU8_Z(Mem{Base: text}, inside, x)
	VPORD(x, bytes, bytes)
	VPMOVB2M(x, other)
	KANDNQ(inside, other, inside)
	VMOVDQA64(x, code)
	VPERMI2B_Z(table[1], table[0], inside, code)
	VPERMI2B_Z(table[3], table[2], inside, x)
	VMOVDQA64(x, kind)
	VMOVDQU64(code, Mem{Base: codes})
	VPORD(kind, sum, sum)
	for i := range bit {
		of := K()
		VPTESTMB(bit[i], kind, of)
		KMOVQ(of, Mem{Base: kinds, Disp: 8 * i})
	}
	ADDQ(U8(block), text)
	ADDQ(U8(block), codes)
	ADDQ(U8(8*len(bit)), kinds)
	SUBQ(U8(block), n)
	JA(LabelRef("block"))
	seen := Load(Param("seen"), GP64())
	VMOVDQU64(sum, Mem{Base: seen})
	VMOVDQU64(bytes, Mem{Base: seen, Disp: block})
	VZEROUPPER()
	RET()
}

// look writes the pass over the codes.
func look() {
	TEXT("lookVBMI", NOSPLIT, "func(tables, codes *byte, blocks int, places *uint64)")
	Doc("lookVBMI sets the bits of the places at which the tables of all neighbours agree on a bucket. It reads seven codes beyond the blocks.")
	Pragma("noescape")
	tables := Load(Param("tables"), GP64())
	codes := Load(Param("codes"), GP64())
	blocks := Load(Param("blocks"), GP64())
	places := Load(Param("places"), GP64())
	var table [groups][width]VecVirtual
	for g := range groups {
		for j := range width {
			table[g][j] = ZMM()
			VMOVDQU64(Mem{Base: tables, Disp: (g*width + j) * block}, table[g][j])
		}
	}
	x, one, two := ZMM(), ZMM(), ZMM()
	var all [groups]VecVirtual
	for g := range groups {
		all[g] = ZMM()
	}
	mask := K()
	Label("block")
	VMOVDQU64(Mem{Base: codes}, x)
	for g := range groups {
		VPERMB(table[g][0], x, all[g])
	}
	for j := 1; j < width-1; j += 2 {
		y := ZMM()
		VMOVDQU64(Mem{Base: codes, Disp: j}, x)
		VMOVDQU64(Mem{Base: codes, Disp: j + 1}, y)
		for g := range groups {
			VPERMB(table[g][j], x, one)
			VPERMB(table[g][j+1], y, two)
			VPTERNLOGD(U8(andAll), one, two, all[g])
		}
	}
	VMOVDQU64(Mem{Base: codes, Disp: width - 1}, x)
	for g := range groups {
		VPERMB(table[g][width-1], x, one)
		VPANDD(one, all[g], all[g])
	}
	VPTERNLOGD(U8(orAll), all[1], all[2], all[0])
	VPTESTMB(all[0], all[0], mask)
	KMOVQ(mask, Mem{Base: places})
	ADDQ(U8(block), codes)
	ADDQ(U8(8), places)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}
