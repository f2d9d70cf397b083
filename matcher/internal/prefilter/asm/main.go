//go:build ignore

// Command asm writes vector_amd64.s and the declarations of its functions: see
// go:generate in vector_amd64.go.
//
// The two functions are the passes of a Marker over a chunk, 64 bytes at a time.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// andAll is the truth table of the ternary logic instruction for a & b & c.
const andAll = 0x80

func main() {

	ConstraintExpr("amd64")
	hash()
	look("look4", 4, 1)
	look("look7", 7, 1)
	look("look14", 7, 2)
	Generate()
}

// hash writes the pass that reads the text: the hash of each pair of bytes, x + 4y, the
// newlines as bits, and whether there is a NUL byte.
func hash() {
	TEXT("hashVBMI", NOSPLIT, "func(hashes, text *byte, blocks int, newlines *uint64) (least uint64)")
	Doc("hashVBMI writes the hashes of the pairs that begin in 64 bytes a block, and a bit for each newline. It reads one byte",
		"beyond the blocks. Of least, one byte is 0 if there is a NUL byte, and otherwise none is.")
	dst := Load(Param("hashes"), GP64())
	src := Load(Param("text"), GP64())
	n := Load(Param("blocks"), GP64()).(GPVirtual)
	lines := Load(Param("newlines"), GP64())
	newline, least := ZMM(), ZMM()
	c := GP32()
	MOVL(U32(0x0a0a0a0a), c)
	VPBROADCASTD(c, newline)
	VPTERNLOGD(U8(0xff), least, least, least)
	x, y := ZMM(), ZMM()
	k := K()
	Label("block")
	VMOVDQU64(Mem{Base: src}, x)
	VMOVDQU64(Mem{Base: src, Disp: 1}, y)
	VPCMPEQB(newline, x, k)
	KMOVQ(k, Mem{Base: lines})
	VPMINUB(x, least, least)
	VPADDB(y, y, y)
	VPADDB(y, y, y)
	VPADDB(x, y, y)
	VMOVDQU64(y, Mem{Base: dst})
	ADDQ(U8(64), src)
	ADDQ(U8(64), dst)
	ADDQ(U8(8), lines)
	DECQ(n)
	JNZ(LabelRef("block"))
	half, quarter, eighth := YMM(), XMM(), XMM()
	VEXTRACTI64X4(U8(1), least, half)
	VPMINUB(least.AsY(), half, half)
	VEXTRACTI128(U8(1), half, quarter)
	VPMINUB(half.AsX(), quarter, quarter)
	VPSRLDQ(U8(8), quarter, eighth)
	VPMINUB(eighth, quarter, quarter)
	out := GP64()
	VMOVQ(quarter, out)
	VZEROUPPER()
	Store(out, ReturnIndex(0))
	RET()
}

// look writes the pass that reads the hashes: a place has a bit if one of its buckets
// contains the hashes of all pairs from there on.
func look(name string, pairs, groups int) {
	TEXT(name+"VBMI", NOSPLIT, "func(tables *byte, hashes *byte, blocks int, places *uint64)")
	Doc(name + "VBMI writes a bit for each place of 64 a block at which a text may be. It reads seven hashes beyond the blocks.")
	t := Load(Param("tables"), GP64())
	src := Load(Param("hashes"), GP64())
	n := Load(Param("blocks"), GP64()).(GPVirtual)
	dst := Load(Param("places"), GP64())
	var low, high [2][7]VecVirtual
	for g := range groups {
		for j := range pairs {
			low[g][j], high[g][j] = ZMM(), ZMM()
			VMOVDQU64(Mem{Base: t, Disp: (g*7 + j) * 128}, low[g][j])
			VMOVDQU64(Mem{Base: t, Disp: (g*7+j)*128 + 64}, high[g][j])
		}
	}
	all, one, two := [2]VecVirtual{ZMM(), ZMM()}, ZMM(), ZMM()
	k := K()
	// of looks the hashes at pair j up, which it loads over the index.
	of := func(g, j int, x VecVirtual) {
		VMOVDQU64(Mem{Base: src, Disp: j}, x)
		VPERMI2B(high[g][j], low[g][j], x)
	}
	Label("block")
	for g := range groups {
		of(g, 0, all[g])
		for j := 1; j < pairs; j += 2 {
			of(g, j, one)
			if j+1 == pairs {
				VPANDD(one, all[g], all[g])
				continue
			}
			of(g, j+1, two)
			VPTERNLOGD(U8(andAll), one, two, all[g])
		}
	}
	if groups == 2 {
		VPORD(all[0], all[1], all[0])
	}
	VPTESTMB(all[0], all[0], k)
	KMOVQ(k, Mem{Base: dst})
	ADDQ(U8(64), src)
	ADDQ(U8(8), dst)
	DECQ(n)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}
