// Package marks finds the places of a text that match one of many short patterns, 64 places
// at a time, and the long words of a text. It knows nothing of secrets.
//
// Each byte has a code of six bits, so that a vector register holds a table of all codes. A
// pattern is a set of codes for each of a few neighbouring bytes.
package marks

import (
	"math/bits"
)

const (
	// MaxText is the length of the longest text, in bytes.
	MaxText = 16 << 10
	// Edge is the code of what is before a text. Behind it, and beyond ASCII, the code is 0.
	Edge = 63

	block = 64
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
	for i := range 8 {
		t.codes[block-1-i] = Edge
	}
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
			set &= ^uint64(0) << (end % block)
		}
	}
	return true
}

// starts returns the places of a block from which on Long bytes are of the kind Word.
func (t *Text) starts(b int) uint64 {
	x, y := t.kinds[b][3], t.kinds[b+1][3]
	for n := 1; n < Long; n *= 2 {
		x &= x>>n | y<<(block-n)
		y &= y >> n
	}
	return x
}

// wordEnd returns the first place from i on whose byte is not of the kind Word.
func (t *Text) wordEnd(i int) int {
	for {
		rest := ^t.kinds[i/block][3] >> (i % block)
		if rest != 0 {
			return i + bits.TrailingZeros64(rest)
		}
		i = (i/block + 1) * block
	}
}

// Counts are the bytes of a word that are of the kinds Upper, Lower and Digit. Changes are the
// capitals that follow a small letter of the word.
type Counts struct{ Upper, Lower, Digit, Changes int }

// Count counts the bytes between two places.
func (t *Text) Count(from, to int) (c Counts) {
	small := uint64(0) // whether the byte before is
	for from < to {
		b, n := from/block, min(to, (from/block+1)*block)-from
		mask := ^uint64(0) >> (block - n) << (from % block)
		upper, lower := t.kinds[b][0]&mask, t.kinds[b][1]&mask
		c.Upper += bits.OnesCount64(upper)
		c.Lower += bits.OnesCount64(lower)
		c.Digit += bits.OnesCount64(t.kinds[b][2] & mask)
		c.Changes += bits.OnesCount64(upper & (lower<<1 | small))
		small = lower >> (block - 1)
		from += n
	}
	return c
}
