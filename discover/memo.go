package discover

import (
	"hash/maphash"
	"slices"
	"strings"

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

// key returns the hash of the shape of a line: words with digits become their first letter,
// and names in fields that nobody reads a star. A lone 0, and names such as x509 that masking
// preserves, stay.
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
		if end := nameInField(line, i); end > 0 {
			out = append(append(out, line[from:start]...), '*')
			from, i, start = end, end, end+1
		}
	}
	if digits {
		out, from = appendValue(out, line, from, start, len(line))
	}
	return append(out, line[from:]...)
}

// nameInField returns the end of the name that begins after the quote at i, if it is the
// value of a field that readLine does not read; otherwise 0. In a message it would be a
// placeholder.
func nameInField(line string, i int) int {
	if line[i] != '"' || i == 0 || line[i-1] != '=' && line[i-1] != ':' {
		return 0
	}
	end := i + 1
	for end < len(line) && inName[line[end]] {
		end++
	}
	if end == i+1 || end == len(line) || line[end] != '"' {
		return 0
	}
	stop := i - 1
	if stop > 0 && line[stop-1] == '"' {
		stop--
	}
	start := stop
	for start > 0 && inName[line[start-1]] {
		start--
	}
	if start == stop || readKeys[line[start:stop]] {
		return 0
	}
	return end
}

// inName are the bytes of names. They cannot make a line another kind of line.
var inName = func() (of [256]bool) {
	for c := range of {
		of[c] = letterOrDigit(byte(c)) || strings.IndexByte("-_./", byte(c)) >= 0
	}
	return of
}()

// readKeys are the fields whose values readLine reads.
var readKeys = func() map[string]bool {
	of := map[string]bool{typeKey: true}
	for _, key := range slices.Concat(messageKeys, errorKeys, levelKeys) {
		of[key] = true
	}
	return of
}()

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
func (f *Finder) again(fl *streamState, l *matcher.Line, x meaning) bool {
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
	f.counted(p, fl, l, &parsedLine{Level: x.level}, x.idle)
	return true
}
