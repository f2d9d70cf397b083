package literals

import (
	"bytes"
)

// Needle searches for a text. It searches for the bytes of the text that are rarest in log lines, because the first
// byte is often a common letter. It is immutable and safe for concurrent use.
type Needle struct {
	text []byte
	fold bool
	rare uint32 // index of the rarest byte in the text
	pair pair
}

// NewNeedle returns a needle for a text. An empty text is found in every line.
func NewNeedle(t Text) Needle {
	n := Needle{text: []byte(t.Text), fold: t.Fold}
	for i := range n.text {
		if frequency(n.text[i], t.Fold) < frequency(n.text[n.rare], t.Fold) {
			n.rare = uint32(i)
		}
	}
	if len(n.text) > 1 {
		n.pair = newPair(&n)
	}
	return n
}

// byFrequency lists the bytes that are frequent in log lines of controllers, the most frequent first.
const byFrequency = ` eaotnrisl"cdm-up=hg0f1/:2.bv3y5467k98wCSMxRPAT_INEDL,OFUKjqBV`

// frequencies are estimates of how often a byte occurs in log lines. The second table is for searches that ignore case.
// There, the frequency of a letter is the sum for both cases.
var frequencies = func() (of [2][256]int) {
	for k := range len(byFrequency) {
		of[0][byFrequency[k]] = 10_000 / (k + 1)
	}
	of[1] = of[0]
	for c := 'a'; c <= 'z'; c++ {
		const search = 100 // additional cost of searching for the second case
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

// Index returns the first index of the text in line, or -1 if the line does not contain it.
func (n *Needle) Index(line []byte) int {
	if !vector || len(n.text) < 2 {
		return n.indexPlain(line)
	}
	index, at := n.indexPair(line)
	if index < 0 && at < len(line) {
		if index = n.indexPlain(line[at:]); index >= 0 {
			index += at
		}
	}
	return index
}

// indexPlain is Index without vector instructions.
func (n *Needle) indexPlain(line []byte) int {
	if n.fold && len(n.text) > 0 {
		return n.indexFold(line)
	}
	return bytes.Index(line, n.text)
}

// indexFold returns the first index of a lower-case text in line, ignoring the case of ASCII letters. It examines each
// byte at most twice while it searches for the rarest letter, however often that letter occurs.
func (n *Needle) indexFold(line []byte) int {
	if len(line) < len(n.text) {
		return -1
	}
	rest, lo := line[n.rare:], n.text[n.rare]
	up := lo
	if 'a' <= lo && lo <= 'z' {
		up -= 'a' - 'A'
	}
	lower, searched := -1, 0 // lower is the index of the next lo; rest[:searched] does not contain up
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
