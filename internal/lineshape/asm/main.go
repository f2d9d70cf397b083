// Command asm writes the vector code of package lineshape: see go:generate in vector_amd64.go.
// The code works on 64 bytes at a time; of the last ones, tail has a bit for each that is
// part of the line.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Sizes and places of fields in lineshape.block, in bytes.
const (
	bytesIn = 64
	table   = 128
	classes = 6 // masks of classes come first, one bit of a class each
	hidden  = 8 * classes
	star    = hidden + 8
	number  = star + 8
	keep    = number + 8
	size    = keep + 8
)

func main() {
	classify()
	compress()
	Generate()
}

// line is the loop over the blocks of a line.
type line struct {
	text, blocks, masks Register
	tail, ones          GPVirtual
	in                  OpmaskVirtual // bytes of the block that are part of the line
}

func begin() line {
	l := line{text: Load(Param("text"), GP64()), blocks: Load(Param("n"), GP64()), masks: Load(Param("masks"), GP64()), tail: GP64(), ones: GP64(), in: K()}
	Load(Param("tail"), l.tail)
	MOVQ(I32(-1), l.ones)
	return l
}

// load starts a block.
func (l line) load(to VecVirtual) {
	Label("block")
	CMPQ(l.blocks, U8(1))
	CMOVQEQ(l.tail, l.ones)
	KMOVQ(l.ones, l.in)
	VMOVDQU8_Z(Mem{Base: l.text}, l.in, to)
}

func (l line) end() {
	ADDQ(U8(bytesIn), l.text)
	ADDQ(U8(size), l.masks)
	DECQ(l.blocks)
	JNZ(LabelRef("block"))
	VZEROUPPER()
}

// repeat sets every byte of a vector.
func repeat(c byte, to VecVirtual) {
	word := GP32()
	MOVL(U32(0x01010101*uint32(c)), word)
	VPBROADCASTD(word, to)
}

func classify() {
	TEXT("classifyVBMI", NOSPLIT, "func(text *byte, n int, tail uint64, table *byte, masks *uint64)")
	Doc("classifyVBMI writes the masks of the classes of the bytes of n blocks, and clears what is hidden.")
	Pragma("noescape")
	of := Load(Param("table"), GP64())
	l := begin()
	low, high, x, ascii := ZMM(), ZMM(), ZMM(), K()
	VMOVDQU64(Mem{Base: of}, low)
	VMOVDQU64(Mem{Base: of, Disp: table / 2}, high)
	var bit [classes]VecVirtual
	for i := range bit {
		bit[i] = ZMM()
		repeat(1<<i, bit[i])
	}
	l.load(x)
	VPMOVB2M(x, ascii)
	KNOTQ(ascii, ascii)
	VPERMI2B_Z(high, low, ascii, x)
	mask, out := K(), GP64()
	for i := range bit {
		VPTESTMB(bit[i], x, mask)
		KMOVQ(mask, out)
		MOVQ(out, Mem{Base: l.masks, Disp: 8 * i})
	}
	MOVQ(U32(0), Mem{Base: l.masks, Disp: hidden})
	MOVQ(U32(0), Mem{Base: l.masks, Disp: star})
	l.end()
	RET()
}

func compress() {
	TEXT("compressVBMI", NOSPLIT, "func(text *byte, n int, tail uint64, masks *uint64, out *byte) (written int)")
	Doc("compressVBMI writes the bytes of n blocks that are to be kept, with # and * in their places. It writes 64 bytes more",
		"than it returns, at most.")
	Pragma("noescape")
	l := begin()
	out, first, count := GP64(), GP64(), GP64()
	Load(Param("out"), out)
	MOVQ(out, first)
	hash, asterisk, x, y, mask := ZMM(), ZMM(), ZMM(), ZMM(), K()
	repeat('#', hash)
	repeat('*', asterisk)
	l.load(x)
	KMOVQ(Mem{Base: l.masks, Disp: number}, mask)
	VMOVDQU8(hash, mask, x)
	KMOVQ(Mem{Base: l.masks, Disp: star}, mask)
	VMOVDQU8(asterisk, mask, x)
	KMOVQ(Mem{Base: l.masks, Disp: keep}, mask)
	VPCOMPRESSB_Z(x, mask, y)
	VMOVDQU64(y, Mem{Base: out})
	POPCNTQ(Mem{Base: l.masks, Disp: keep}, count)
	ADDQ(count, out)
	l.end()
	SUBQ(first, out)
	Store(out, ReturnIndex(0))
	RET()
}
