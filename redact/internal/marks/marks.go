// Package marks finds the places of a text that match one of many short patterns, 64 places
// at a time, and the long words of a text. It knows nothing of secrets.
//
// Each byte has a code of six bits, so that a vector register holds a table of all codes. A
// pattern is a set of codes for each of a few neighbouring bytes.
package marks

import (
	"encoding/binary"
	"math/bits"
)

const (
	// MaxText is the length of the longest text, in bytes.
	MaxText = 16 << 10
	// Edge is the code of what is before a text. Behind it, and beyond ASCII, the code is 0.
	Edge = 63

	block = 64
	edges = Edge * 0x0101010101010101
)

// Kinds of bytes. An alphabet may have four more above these.
const (
	Upper uint8 = 1 << iota
	Lower
	Digit
	Word

	placed = 4 // kinds whose places are kept: those above
)

// Alphabet has the code and the kinds of each byte. It is immutable.
type Alphabet struct{ codes, kinds [2 * block]byte }

// NewAlphabet returns the alphabet that the two functions define for ASCII. Codes are less
// than 64.
func NewAlphabet(code, kinds func(byte) uint8) *Alphabet {
	a := &Alphabet{}
	for c := range a.codes {
		a.codes[c], a.kinds[c] = code(byte(c)), kinds(byte(c))
	}
	return a
}

// Text is what was read of a text. Its zero value is ready. It is not safe for concurrent
// use.
type Text struct {
	n      int
	codes  [block + MaxText + block]byte            // of the text, after a block of edges; 0 behind it
	kinds  [MaxText/block + 2][placed]uint64        // the places of each kind, by block; 0 behind the text
	places [2][(MaxText + block - 1) / block]uint64 // of patterns
}

// Read replaces what was read before. It returns the kinds of all bytes, and whether they are
// ASCII. A text may have MaxText bytes.
func (t *Text) Read(a *Alphabet, s string) (kinds uint8, ascii bool) {
	t.Clear()
	binary.LittleEndian.PutUint64(t.codes[block-8:block], edges)
	if len(s) == 0 {
		return 0, true
	}
	if len(s) > MaxText {
		panic("marks: the text is too long") // the vector code checks no bounds
	}
	t.n = len(s)
	var seen [2][8]uint64
	classify(a, t, s, &seen)
	return uint8(fold(&seen[0])), fold(&seen[1])&0x80 == 0
}

// fold returns the disjunction of the bytes of a vector.
func fold(v *[8]uint64) byte {
	x := v[0] | v[1] | v[2] | v[3] | v[4] | v[5] | v[6] | v[7]
	x |= x >> 32
	x |= x >> 16
	return byte(x | x>>8)
}

// Clear forgets the text.
func (t *Text) Clear() {
	blocks := t.blocks()
	clear(t.codes[block : (1+blocks)*block])
	clear(t.kinds[:blocks])
	t.n = 0
}

func (t *Text) blocks() int { return (t.n + block - 1) / block }

// Long is the length of the shortest word that Words finds.
const Long = 16

// Words calls found for each sequence of at least Long bytes of the kind Word that no other
// byte of this kind precedes or follows, in order. It returns false once found does.
func (t *Text) Words(found func(from, to int) bool) bool {
	end := 0
	for b := range t.blocks() {
		for set := t.starts(b); set != 0; {
			from := b*block + bits.TrailingZeros64(set)
			if from >= end {
				end = t.wordEnd(from + Long)
				if !found(from, end) {
					return false
				}
			}
			if end >= (b+1)*block {
				break
			}
			set &= ^uint64(0) << (uint(end) % block)
		}
	}
	return true
}

// starts returns the places of a block from which on Long bytes are of the kind Word.
func (t *Text) starts(b int) uint64 {
	x, y := t.kinds[b][3], t.kinds[b+1][3]
	x, y = x&(x>>1|y<<(block-1)), y&(y>>1)
	x, y = x&(x>>2|y<<(block-2)), y&(y>>2)
	x, y = x&(x>>4|y<<(block-4)), y&(y>>4)
	return x & (x>>8 | y<<(block-8))
}

// wordEnd returns the first place from i on whose byte is not of the kind Word.
func (t *Text) wordEnd(i int) int {
	for {
		rest := ^t.kinds[uint(i)/block][3] >> (uint(i) % block)
		if rest != 0 {
			return i + bits.TrailingZeros64(rest)
		}
		i = (i/block + 1) * block
	}
}

// Counts are the bytes of a word that are of the kinds Upper, Lower and Digit.
type Counts struct{ Upper, Lower, Digit int }

// Count counts the bytes between two places.
func (t *Text) Count(from, to int) (c Counts) {
	for from < to {
		here, n := &t.kinds[uint(from)/block], min(to, (from/block+1)*block)-from
		mask := ^uint64(0) >> uint(block-n) << (uint(from) % block)
		c.Upper += bits.OnesCount64(here[0] & mask)
		c.Lower += bits.OnesCount64(here[1] & mask)
		c.Digit += bits.OnesCount64(here[2] & mask)
		from += n
	}
	return c
}

// Order is how the kinds of the bytes of a word follow each other.
type Order struct {
	Capitals int  // that follow a small letter
	Shifts   int  // digits that follow a small letter, and small letters that follow a digit
	Run      bool // MinRun letters and digits follow each other
}

const (
	// MaxOrder is the length of the longest word of which Order is known.
	MaxOrder = block
	// MinRun is the least length of a run.
	MinRun = 20
)

// Order returns the order of the bytes between two places, which are not farther from each
// other than MaxOrder.
func (t *Text) Order(from, to int) Order {
	here, next, shift := &t.kinds[uint(from)/block], &t.kinds[uint(from)/block+1], uint(from)%block
	mask := ^uint64(0) >> (uint(from-to) % block)
	upper := (here[0]>>shift | next[0]<<1<<(block-1-shift)) & mask
	lower := (here[1]>>shift | next[1]<<1<<(block-1-shift)) & mask
	digit := (here[2]>>shift | next[2]<<1<<(block-1-shift)) & mask
	run := upper | lower | digit
	run &= run >> 1
	run &= run >> 2
	run &= run >> 4
	run &= run >> 8
	run &= run >> (MinRun - 16)
	return Order{bits.OnesCount64(upper & (lower << 1)), bits.OnesCount64(digit&(lower<<1) | lower&(digit<<1)), run != 0}
}
