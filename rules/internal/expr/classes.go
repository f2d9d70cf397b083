package expr

import (
	"strconv"
	"strings"
)

// wideRange is how many classes such as \pL cost as much as a range such as [B-\x{1e000}]
// whose characters are all folded, because the pattern ignores case.
const wideRange = 400

// Classes returns how many costly classes a pattern has, with hundreds of ranges each, as
// they are written: it does not parse the pattern, because that is what they make slow.
func Classes(pattern string) int {
	n := strings.Count(pattern, `\p`) + strings.Count(pattern, `\P`)
	if !mayFold(pattern) {
		return n
	}
	n += wideRange * strings.Count(pattern, `-\x{`)
	for i := 1; i < len(pattern); i++ {
		if pattern[i-1] == '-' && pattern[i] >= 0xC4 { // the first byte from U+0100 on
			n += wideRange
		}
	}
	return n
}

// mayFold reports whether a pattern sets the flag i.
func mayFold(pattern string) bool {
	for {
		_, rest, ok := strings.Cut(pattern, "(?")
		if !ok {
			return false
		}
		flags := rest[:len(rest)-len(strings.TrimLeft(rest, "imsU"))]
		if strings.Contains(flags, "i") {
			return true
		}
		pattern = rest
	}
}

// QuotedClasses is Classes for a text with patterns in quotes, whose escapes may hide the
// characters of a class.
func QuotedClasses(text string) int {
	var b strings.Builder
	for rest := text; rest != ""; {
		r, _, tail, err := strconv.UnquoteChar(rest, 0)
		if err != nil {
			b.WriteByte(rest[0])
			rest = rest[1:]
			continue
		}
		b.WriteRune(r)
		rest = tail
	}
	return max(Classes(text), Classes(b.String()))
}
