package discover

import (
	"hash/maphash"

	"crowsnest/matcher"
)

// memo remembers what lines of a shape mean: most lines of a log differ from others only in
// numbers, times and ids. Its hash is seeded, so that nobody can make a complaint look like
// another line.
type memo struct {
	seed  maphash.Seed
	of    map[uint64]meaning
	shape []byte
}

// meaning is what f.line finds out about a line, as far as that depends on its shape.
type meaning struct {
	pattern   *pattern // nil: it is no complaint
	level     Level
	idle      bool // it only waits
	continues bool // it continues the line before it
	parsed    bool // pattern, level and idle are known
}

// maxMemo bounds the shapes in memory: some 3 MB.
const maxMemo = 1 << 16

func newMemo() memo { return memo{seed: maphash.MakeSeed(), of: map[uint64]meaning{}} }

// Classes of bytes in the shape of a line.
const (
	inWord = iota
	inNumber
	between
)

var classOf = func() (of [256]uint8) {
	for _, c := range []byte(" \t\"'`=,;:()[]{}<>|\\/") {
		of[c] = between
	}
	for c := '0'; c <= '9'; c++ {
		of[c] = inNumber
	}
	return of
}()

// key returns the hash of the shape of a line: words with digits become their first letter.
// A lone 0, and names such as x509 that masking preserves, stay.
func (m *memo) key(line string) uint64 {
	m.shape = appendShape(m.shape[:0], line)
	return maphash.Bytes(m.seed, m.shape)
}

func appendShape(out []byte, line string) []byte {
	from, start, digits := 0, 0, false
	for i := 0; i < len(line); i++ {
		class := classOf[line[i]]
		if class == inWord {
			continue
		}
		if class == inNumber {
			digits = true
			continue
		}
		if digits {
			out, from = appendValue(out, line, from, start, i)
			digits = false
		}
		start = i + 1
	}
	if digits {
		out, from = appendValue(out, line, from, start, len(line))
	}
	return append(out, line[from:]...)
}

// appendValue appends what precedes a word with digits, and its first letter. It returns where
// the rest begins.
func appendValue(out []byte, line string, from, start, end int) ([]byte, int) {
	if end-start <= maxKept && keepsDigits(line[start:end]) {
		return out, from
	}
	out = append(out, line[from:start]...)
	if c := line[start]; !digit(c) {
		out = append(out, c)
	}
	return append(out, '#'), end
}

// maxKept is the length of the longest name with digits that masking preserves.
const maxKept = 6

// keepsDigits reports whether a word of at most maxKept bytes with digits is more than a value.
func keepsDigits(word string) bool {
	if word == zero {
		return true
	}
	var buf [maxKept]byte
	letters := false
	for i := range len(word) {
		buf[i] = lower(word[i])
		letters = letters || letter(word[i])
	}
	return letters && fixedWords[string(buf[:len(word)])]
}

// put remembers the meaning of a shape.
func (m *memo) put(key uint64, x meaning) {
	if len(m.of) >= maxMemo {
		clear(m.of)
	}
	m.of[key] = x
}

// again processes a line whose shape is known. It returns false if the line has to be parsed.
func (f *Finder) again(fl *streamState, h *matcher.Hit, x meaning) bool {
	p := x.pattern
	switch {
	case fl.text && x.continues:
		return true
	case !x.parsed:
		return false
	case p == nil:
		fl.text = true
		return true
	case p.element == nil || p.judgement.patience&(retries|waits) != 0: // evicted, or its object counts
		return false
	}
	fl.text = true
	f.tree.recent.MoveToFront(p.element)
	f.counted(p, fl, h, &parsedLine{Level: x.level}, x.idle)
	return true
}
