// Package lineshape computes the shapes of lines: what is left of a line without the numbers,
// times, ids and names in which it differs from others of its kind.
package lineshape

import (
	"strings"
)

// Shapes computes shapes. It is immutable and safe for concurrent use.
type Shapes struct {
	read  map[string]bool // fields whose values stay
	fixed map[string]bool // words with digits that stay, in lower case
	// last has a bit for the last two letters of each of the fields.
	last [1 << 10]bool
	// lengths has for each first letter a bit for each length of a fixed word.
	lengths [256]uint8
}

// maxFixed bounds the length of the fixed words.
const maxFixed = 6

// New returns what computes shapes in which the values of some fields stay, and some words
// although they have digits. The names of fields have two letters at least. fixed is in lower
// case, and a word of more than six bytes is none of them.
func New(read, fixed []string) *Shapes {
	s := &Shapes{read: map[string]bool{}, fixed: map[string]bool{}}
	for _, name := range read {
		s.read[name] = true
		s.last[lastOf(name)] = true
	}
	for _, word := range fixed {
		if len(word) <= maxFixed {
			s.fixed[word] = true
			s.lengths[word[0]] |= 1 << len(word)
			s.lengths[upper(word[0])] |= 1 << len(word)
		}
	}
	return s
}

// lastOf returns a number for the last two letters of a name of at least two.
func lastOf(name string) int {
	n := len(name)
	return int(name[n-2]&31)<<5 | int(name[n-1]&31)
}

// Append appends the shape of a line: words with digits become their first letter and #,
// and the values of fields that nobody reads a star if they are names. A lone 0 and the
// fixed words stay.
func (s *Shapes) Append(out []byte, line string) []byte {
	from, start, digits := 0, 0, false
	for i := 0; i < len(line); i++ {
		class := classOf[line[i]]
		if class&(between|digit) == 0 {
			continue
		}
		if class&digit != 0 {
			digits = true
			continue
		}
		if digits {
			out, from = s.appendValue(out, line, from, start, i)
			digits = false
		}
		start = i + 1
		if class&quote == 0 {
			continue
		}
		if end := s.nameInField(line, i); end > 0 {
			out = append(append(out, line[from:start]...), '*')
			from, i, start = end, end, end+1
		}
	}
	if digits {
		out, from = s.appendValue(out, line, from, start, len(line))
	}
	return append(out, line[from:]...)
}

// Classes of bytes, as bits.
const (
	between = 1 << iota // words
	digit
	inName // of names: they cannot make a line another kind of line
	quote
	equals // precedes the value of a field
	zero
)

var classOf = func() (of [256]uint8) {
	for _, c := range []byte(" \t\"'`=,;:()[]{}<>|\\/") {
		of[c] = between
	}
	for c := range of {
		switch {
		case '0' <= c && c <= '9':
			of[c] = digit | inName
		case 'a' <= c|0x20 && c|0x20 <= 'z' && c < 0x80, strings.IndexByte("-_./", byte(c)) >= 0:
			of[c] |= inName
		}
	}
	of['"'] |= quote
	of['='] |= equals
	of[':'] |= equals
	of['0'] |= zero
	return of
}()

// reads reports whether the value after the = or : at stop stays: that of a field that is
// read, or of none.
func (s *Shapes) reads(line string, stop int) bool {
	if stop > 0 && line[stop-1] == '"' {
		stop--
	}
	if stop == 0 || classOf[line[stop-1]]&inName == 0 {
		return true
	}
	if stop == 1 || !s.last[lastOf(line[:stop])] {
		return stop == 1 && s.read[line[:1]]
	}
	start := stop
	for start > 0 && classOf[line[start-1]]&inName != 0 {
		start--
	}
	return s.read[line[start:stop]]
}

// stays reports whether a word with digits is more than a value.
func (s *Shapes) stays(word string) bool {
	if word == "0" {
		return true
	}
	if len(word) > maxFixed || s.lengths[word[0]]>>len(word)&1 == 0 {
		return false
	}
	var buf [maxFixed]byte
	for i := range len(word) {
		buf[i] = lower(word[i])
	}
	return s.fixed[string(buf[:len(word)])]
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		return c &^ 0x20
	}
	return c
}

// nameInField returns the end of the name that begins after the quote at i, if it is the
// value of a field that nobody reads; otherwise 0.
func (s *Shapes) nameInField(line string, i int) int {
	if i == 0 || classOf[line[i-1]]&equals == 0 {
		return 0
	}
	end := i + 1
	for end < len(line) && classOf[line[end]]&inName != 0 {
		end++
	}
	if end == i+1 || end == len(line) || line[end] != '"' || s.reads(line, i-1) {
		return 0
	}
	return end
}

// appendValue appends what precedes a word with digits, and its first letter. It returns where
// the rest begins.
func (s *Shapes) appendValue(out []byte, line string, from, start, end int) ([]byte, int) {
	if s.stays(line[start:end]) {
		return out, from
	}
	out = append(out, line[from:start]...)
	if c := line[start]; classOf[c]&digit == 0 {
		out = append(out, c)
	}
	return append(out, '#'), end
}
