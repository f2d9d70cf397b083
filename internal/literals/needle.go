package literals

import (
	"bytes"
)

// Needle searches for a text. It looks for the byte of the text that is rarest in log lines,
// not for the first one, which is often a common letter. It is immutable and safe for
// concurrent use.
type Needle struct {
	text []byte
	fold bool
	rare int // index of the rarest byte
	pair pair
}

// NewNeedle returns a needle for a text. Every line contains an empty one.
func NewNeedle(t Text) Needle {
	n := Needle{text: []byte(t.Text), fold: t.Fold}
	for i := range n.text {
		if frequency(n.text[i], t.Fold) < frequency(n.text[n.rare], t.Fold) {
			n.rare = i
		}
	}
	n.setPair()
	return n
}

// byFrequency are the bytes that are frequent in lines of controllers, the most frequent
// first.
const byFrequency = ` eaotnrisl"cdm-up=hg0f1/:2.bv3y5467k98wCSMxRPAT_INEDL,OFUKjqBV`

// frequencies estimate how often a byte is found; the second ones, with fold, a letter of
// either case.
var frequencies = func() (of [2][256]int) {
	for k := range len(byFrequency) {
		of[0][byFrequency[k]] = 10_000 / (k + 1)
	}
	of[1] = of[0]
	for c := 'a'; c <= 'z'; c++ {
		const search = 100 // cost of a search for the other case
		of[1][c] += of[0][c-'a'+'A'] + search
	}
	return of
}()

func frequency(c byte, fold bool) int {
	if fold {
		return frequencies[1][c]
	}
	return frequencies[0][c]
}

// Index returns the first index of the text in line, -1 if there is none.
func (n *Needle) Index(line []byte) int {
	switch {
	case len(line) < len(n.text):
		return -1
	case len(n.text) == 0:
		return 0
	case vector && len(n.text) > 1:
		return n.indexPair(line)
	}
	return n.indexPlain(line)
}

// indexPlain is Index without vector instructions, for a text that is not longer than the line.
func (n *Needle) indexPlain(line []byte) int {
	if n.fold {
		return n.indexFold(line)
	}
	// A place of the rare byte in rest is a place of the text in line.
	rest, rare, at := line[n.rare:], n.text[n.rare], 0
	for range maxTries {
		k := bytes.IndexByte(rest[at:], rare)
		if k < 0 {
			return -1
		}
		if at += k; at+len(n.text) > len(line) {
			return -1
		}
		if string(line[at:at+len(n.text)]) == string(n.text) {
			return at
		}
		at++
	}
	if k := bytes.Index(line[at:], n.text); k >= 0 {
		return at + k
	}
	return -1
}

// maxTries bounds the places that are tried: a line may consist of the rare byte.
const maxTries = 24

// indexFold is Index of a lower-case text, ignoring ASCII case. It examines each byte at most
// twice for the rare letter, however often that occurs.
func (n *Needle) indexFold(line []byte) int {
	rest, lo := line[n.rare:], n.text[n.rare]
	up := lo
	if 'a' <= lo && lo <= 'z' {
		up -= 'a' - 'A'
	}
	lower, searched := -1, 0 // the next lo; there is no up before searched
	for at := 0; ; {
		if lower < at {
			lower = len(rest)
			if k := bytes.IndexByte(rest[at:], lo); k >= 0 {
				lower = at + k
			}
		}
		k := lower
		if from := max(at, searched); up != lo && from < lower {
			if j := bytes.IndexByte(rest[from:lower], up); j >= 0 {
				k = from + j
			} else {
				searched = lower
			}
		}
		if k+len(n.text) > len(line) {
			return -1
		}
		if EqualFold(line[k:k+len(n.text)], n.text) {
			return k
		}
		at = k + 1
	}
}

// Len returns the length of the text in bytes.
func (n *Needle) Len() int { return len(n.text) }

// String returns the text.
func (n *Needle) String() string { return string(n.text) }
