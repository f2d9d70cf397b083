// Command asm writes the vector code of package prefilter (see go:generate in vector_amd64.go).
// The code makes two passes over a chunk, 64 bytes at a time.
package main

import (
	"strconv"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const (
	block    = 64
	maxPairs = 7    // same value as in buckets.go
	hashes   = 128  // number of hashes in a table
	andAll   = 0x80 // truth table of a & b & c
)

func main() {
	hash()
	look("lookFew", 4, 1, true)
	look("lookMost", maxPairs, 1, false)
	look("lookBoth", maxPairs, 2, false)
	Generate()
}

// chunk is the loop over the blocks of a pass.
type chunk struct {
	from, blocks Register
	list, first  GPVirtual // addresses of the next position to write and of the first written position
	at           GPVirtual // offset of the current block in the chunk
}

func begin(from string) chunk {
	c := chunk{from: Load(Param(from), GP64()), blocks: Load(Param("blocks"), GP64()), list: GP64(), first: GP64(), at: GP64()}
	Load(Param("list"), c.list)
	MOVQ(c.list, c.first)
	XORL(c.at.As32(), c.at.As32())
	return c
}

// end continues the loop with the next block. After the last block it returns the number of written positions.
func (c chunk) end() {
	ADDQ(U8(block), c.from)
	ADDQ(U8(block), c.at)
	DECQ(c.blocks)
	JNZ(LabelRef("block"))
	SUBQ(c.first, c.list)
	SHRQ(U8(1), c.list)
	Store(c.list, ReturnIndex(0))
}

// write writes the positions of the set bits of a mask. Most masks have at most two set bits. These are written without
// a branch, because the processor could not predict it.
func (c chunk) write(mask OpmaskVirtual) {
	set, rest, n, count, next := GP64(), GP64(), GP64(), GP64(), GP64()
	put := func(of Register, place int) {
		TZCNTQ(of, n)
		ADDL(c.at.As32(), n.As32())
		MOVW(n.As16(), Mem{Base: c.list, Disp: 2 * place})
	}
	KMOVQ(mask, set)
	put(set, 0)
	BLSRQ(set, rest)
	put(rest, 1)
	POPCNTQ(set, count)
	LEAQ(Mem{Base: c.list, Index: count, Scale: 2}, next)
	CMPQ(count, U8(2))
	JBE(LabelRef("written"))
	BLSRQ(rest, rest)
	Label("more")
	put(rest, 2)
	ADDQ(U8(2), c.list)
	BLSRQ(rest, rest)
	JNZ(LabelRef("more"))
	Label("written")
	MOVQ(next, c.list)
}

// hash writes the code of the first pass, which hashes the text. The hash of the bytes x, y is x + 4y.
func hash() {
	TEXT("hashVBMI", NOSPLIT, "func(hashes, text *byte, blocks int, list *uint16) (n int, least uint64)")
	Doc("hashVBMI writes the hashes of the pairs of bytes that begin in the blocks, and the positions of the newlines, of which it",
		"returns the number. It reads one byte beyond the blocks. A byte of least is 0 if there is a NUL byte, and otherwise none is.")
	Pragma("noescape")
	to := Load(Param("hashes"), GP64())
	c := begin("text")
	newline, least, x, y, mask := ZMM(), ZMM(), ZMM(), ZMM(), K()
	word := GP32()
	MOVL(U32(0x0a0a0a0a), word)
	VPBROADCASTD(word, newline)
	VPTERNLOGD(U8(0xff), least, least, least)
	Label("block")
	VMOVDQU64(Mem{Base: c.from}, x)
	VMOVDQU64(Mem{Base: c.from, Disp: 1}, y)
	VPCMPEQB(newline, x, mask)
	VPMINUB(x, least, least)
	VPADDB(y, y, y)
	VPADDB(y, y, y)
	VPADDB(x, y, y)
	VMOVDQU64(y, Mem{Base: to})
	ADDQ(U8(block), to)
	c.write(mask)
	c.end()
	half, quarter, eighth, out := YMM(), XMM(), XMM(), GP64()
	VEXTRACTI64X4(U8(1), least, half)
	VPMINUB(least.AsY(), half, half)
	VEXTRACTI128(U8(1), half, quarter)
	VPMINUB(half.AsX(), quarter, quarter)
	VPSRLDQ(U8(8), quarter, eighth)
	VPMINUB(eighth, quarter, quarter)
	VMOVQ(quarter, out)
	VZEROUPPER()
	Store(out, ReturnIndex(1))
	RET()
}

// look writes the code of the second pass, which searches the hashes. It looks up the first pairs of each position in
// the tables of the groups. Narrow tables have two equal halves.
func look(name string, pairs, groups int, narrow bool) {
	TEXT(name+"VBMI", NOSPLIT, "func(tables, hashes *byte, blocks int, list *uint16) (n int)")
	Doc(name+"VBMI writes the positions of the blocks at which the tables of the first "+strconv.Itoa(pairs)+" pairs agree on a bucket,",
		"and returns their number. It reads six hashes beyond the blocks.")
	Pragma("noescape")
	tables := Load(Param("tables"), GP64())
	c := begin("hashes")
	var low, high [2][maxPairs]VecVirtual
	for g := range groups {
		for j := range pairs {
			at := (g*maxPairs + j) * hashes
			low[g][j] = ZMM()
			VMOVDQU64(Mem{Base: tables, Disp: at}, low[g][j])
			if !narrow {
				high[g][j] = ZMM()
				VMOVDQU64(Mem{Base: tables, Disp: at + hashes/2}, high[g][j])
			}
		}
	}
	// of replaces hashes with their entries in the tables.
	of := func(g, j int, x VecVirtual) {
		VMOVDQU64(Mem{Base: c.from, Disp: j}, x)
		if narrow {
			VPERMB(low[g][j], x, x)
		} else {
			VPERMI2B(high[g][j], low[g][j], x)
		}
	}
	all, one, two, mask := [2]VecVirtual{ZMM(), ZMM()}, ZMM(), ZMM(), K()
	Label("block")
	for g := range groups {
		of(g, 0, all[g])
		for j := 1; j+1 < pairs; j += 2 {
			of(g, j, one)
			of(g, j+1, two)
			VPTERNLOGD(U8(andAll), one, two, all[g])
		}
		if pairs%2 == 0 {
			of(g, pairs-1, one)
			VPANDD(one, all[g], all[g])
		}
	}
	if groups == 2 {
		VPORD(all[0], all[1], all[0])
	}
	VPTESTMB(all[0], all[0], mask)
	c.write(mask)
	c.end()
	VZEROUPPER()
	RET()
}
