package expr

import (
	"strconv"
	"strings"
)

// wideRange is the cost of a range such as [B-\x{1e000}] in a pattern that ignores case, as a number of classes such as
// \pL. Such a range is expensive, because all its characters are folded.
const wideRange = 400

// CountCostlyClasses returns the number of classes with hundreds of ranges in a pattern. It does not parse the pattern,
// because these classes make parsing slow.
func CountCostlyClasses(pattern string) int {
	n := strings.Count(pattern, `\p`) + strings.Count(pattern, `\P`)
	if !mayFold(pattern) {
		return n
	}
	n += wideRange * strings.Count(pattern, `-\x{`)
	for i := 1; i < len(pattern); i++ {
		if pattern[i-1] == '-' && pattern[i] >= 0xC4 { // first byte of the characters from U+0100 on
			n += wideRange
		}
	}
	return n
}

// mayFold reports whether a pattern sets the flag i, which makes it ignore case.
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

// QuotedClasses returns the number of costly classes in a text that contains patterns in quotes. Escapes in the quotes
// may hide the characters of a class.
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
	return max(CountCostlyClasses(text), CountCostlyClasses(b.String()))
}
