package lineshape

import (
	"math/bits"
	"slices"
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:generate go -C asm run . -out ../vector_amd64.s -stubs ../vectorstubs_amd64.go -pkg lineshape

// vector reports whether the processor classifies and compresses 64 bytes at once. GODEBUG
// can turn that off: cpu.avx2=off.
var vector = cpu.X86.HasAVX2 && cpu.X86.HasPOPCNT && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VBMI && cpu.X86.HasAVX512VBMI2

const (
	inBlock = 64
	all     = ^uint64(0)
)

// appendVector is appendPlain with bits instead of bytes: what the lines of a log have in
// common is the length of none of their words, which is what a branch would depend on. The
// line must not be empty.
func (s *Shapes) appendVector(out []byte, line string, m *Masks) []byte {
	blocks := m.grow((len(line) + inBlock - 1) / inBlock)
	text, tail := unsafe.StringData(line), all>>(-len(line)&(inBlock-1))
	classifyVBMI(text, len(blocks), tail, &classOf[0], &blocks[0].between)
	s.hide(line, blocks)
	blocks[len(blocks)-1].between |= ^tail // ends the last word
	number(blocks)
	s.keep(line, blocks)
	blocks[len(blocks)-1].keep &= tail
	n := len(out)
	out = slices.Grow(out, len(line)+inBlock)[:n+len(line)+inBlock]
	return out[:n+compressVBMI(text, len(blocks), tail, &blocks[0].between, &out[n])]
}

// appendWordsVector is appendWordsPlain with bits instead of bytes. The line must not be empty.
func appendWordsVector(out []byte, line string, m *Masks) []byte {
	blocks := m.grow((len(line) + inBlock - 1) / inBlock)
	text, tail := unsafe.StringData(line), all>>(-len(line)&(inBlock-1))
	classifyVBMI(text, len(blocks), tail, &wordClassOf[0], &blocks[0].between)
	for i := range blocks {
		b := &blocks[i]
		b.between = ^(b.digit | b.name | b.quote)
	}
	number(blocks)
	dropped := keepWords(blocks)
	last := &blocks[len(blocks)-1]
	last.keep, last.star = last.keep&tail, last.star&tail
	n := len(out)
	out = slices.Grow(out, len(line)+inBlock)[:n+len(line)+inBlock]
	out = out[:n+compressVBMI(text, len(blocks), tail, &blocks[0].between, &out[n])]
	if dropped>>(uint(len(line)-1)%inBlock)&1 == 0 {
		out = append(out, '*') // ends the last word
	}
	return out
}

// keepWords sets keep to the letters of words without digits and to what ends such words, which
// a star replaces, once number has run. It returns what it drops of the last block.
func keepWords(blocks []block) (last uint64) {
	inner := false // whether a word that has a digit goes on in the block after it
	for i := len(blocks) - 1; i >= 0; i-- {
		b := &blocks[i]
		from := b.number
		if inner {
			from |= 1 << (inBlock - 1) & ^b.between
		}
		b.number = down(from, ^b.between) | b.keep // all that is dropped
		inner = b.number&1 != 0
	}
	dropped := uint64(0)
	for i := range blocks {
		b := &blocks[i]
		b.star = b.between &^ (b.number<<1 | dropped>>(inBlock-1))
		b.keep = b.name&^b.number | b.star
		dropped, b.number = b.number, 0
	}
	return dropped
}

// hide finds names that are values of fields that nobody reads. They have no digits any more.
func (s *Shapes) hide(line string, blocks []block) {
	carry := uint64(0)
	for i := range blocks {
		b := &blocks[i]
		opens := b.quote & (b.equals<<1 | carry)
		carry = b.equals >> (inBlock - 1)
		for ; opens != 0; opens &= opens - 1 {
			at := i*inBlock + bits.TrailingZeros64(opens)
			end := nameEnd(blocks, at+1)
			if end == at+1 || end >= len(line) || line[end] != '"' || s.reads(line, at-1) {
				continue
			}
			blocks[(at+1)/inBlock].star |= 1 << ((at + 1) % inBlock)
			for k, mask := range ranges(at+1, end) {
				blocks[k].hidden |= mask
				blocks[k].digit &^= mask
			}
		}
	}
}

// nameEnd returns the first place from at on that is no part of a name.
func nameEnd(blocks []block, at int) int {
	for k := at / inBlock; k < len(blocks); k++ {
		if rest := ^blocks[k].name >> (at % inBlock); rest != 0 {
			return at + bits.TrailingZeros64(rest)
		}
		at = (k + 1) * inBlock
	}
	return at
}

// ranges yields the blocks of a stretch of bytes, with masks of it.
func ranges(from, to int) func(yield func(int, uint64) bool) {
	return func(yield func(int, uint64) bool) {
		for from < to {
			k := from / inBlock
			end := min(to, (k+1)*inBlock)
			if !yield(k, all>>(inBlock-(end-from))<<(from%inBlock)) {
				return
			}
			from = end
		}
	}
}

// number sets number to the first digit of each word that has some, and keep, for now, to
// that and what follows it in the word. Additions do that for all words of a block at once:
// a bit that is added to a run of ones moves to the zero behind it.
func number(blocks []block) {
	var word, start, after uint64 // carries
	for i := range blocks {
		b := &blocks[i]
		words := ^b.between
		starts := words &^ (words<<1 | word)
		word = words >> (inBlock - 1)
		var sum uint64
		sum, start = bits.Add64(words&^b.digit, starts, start)
		b.number = sum & b.digit
		sum, after = bits.Add64(words, b.number, after)
		b.keep = words &^ sum
	}
}

// keep sets keep to what is left of the line, once number has run.
func (s *Shapes) keep(line string, blocks []block) {
	next := uint64(1) // whether no word goes on in the block after it
	inner := false    // whether one that has a digit there does
	for i := len(blocks) - 1; i >= 0; i-- {
		b := &blocks[i]
		words, before := ^b.between, uint64(0)
		if i > 0 {
			before = ^blocks[i-1].between >> (inBlock - 1)
		}
		starts := words &^ (words<<1 | before)
		from := b.number
		if inner {
			from |= 1 << (inBlock - 1)
		}
		drop := down(from, words) | b.keep
		if lone := starts & b.zero & (b.between>>1 | next<<(inBlock-1)); lone != 0 {
			drop, b.number = drop&^lone, b.number&^lone
		}
		next, inner = b.between&1, drop&1 != 0 && starts&1 == 0
		first := starts & drop &^ b.digit // of words that have a digit later
		b.keep = (^drop|first|b.number)&^b.hidden | b.star
		for ; first != 0; first &= first - 1 {
			at := i*inBlock + bits.TrailingZeros64(first)
			if s.lengths[line[at]] != 0 {
				s.restore(line, blocks, at)
			}
		}
	}
}

// down extends bits to the beginnings of their words.
func down(x, words uint64) uint64 {
	for shift := 1; shift < inBlock; shift *= 2 {
		x |= x >> shift & words
		words &= words >> shift
	}
	return x
}

// restore keeps the word that starts at a place if it is a fixed one.
func (s *Shapes) restore(line string, blocks []block, at int) {
	end := at + 1
	for end < len(line) && end-at <= maxFixed && classOf[line[end]]&between == 0 {
		end++
	}
	if end-at > maxFixed || !s.stays(line[at:end]) {
		return
	}
	for k, mask := range ranges(at, end) {
		blocks[k].keep |= mask
		blocks[k].number &^= mask
	}
}
