// Package markdown writes texts that strangers can influence, such as log lines, into
// Markdown without letting them act as markup.
package markdown

import (
	"fmt"
	"strings"

	"crowsnest/redact"
)

// Inert escapes text so that it contains no markup of Markdown or HTML, and no
// mention or link for GitHub: everything but letters, digits and harmless
// punctuation becomes a character reference. Times, versions and names stay readable in
// the source: a colon or a dot between digits and an underscore between letters mean
// nothing.
func Inert(s string) string {
	var b strings.Builder
	s = redact.Sanitise(s)
	for i, c := range s {
		last := i+1 == len(s) || s[i+1] == ' '
		switch {
		case c >= 0x80, isLetter(c), isDigit(c), strings.ContainsRune(" ,;-/", c), last && (c == '.' || c == ':'),
			(c == '.' || c == ':') && between(s, i, isDigit), c == '_' && between(s, i, isLetter):
			b.WriteRune(c)
		case c == '@' || c == '#':
			fmt.Fprintf(&b, "&#%d;&#8203;", c) // GitHub looks for mentions in the rendered text
		default:
			fmt.Fprintf(&b, "&#%d;", c)
		}
	}
	return b.String()
}

// between reports whether the characters before and after s[i] are of a kind.
func between(s string, i int, kind func(rune) bool) bool {
	return i > 0 && i+1 < len(s) && kind(rune(s[i-1])) && kind(rune(s[i+1]))
}

func isDigit(c rune) bool  { return c >= '0' && c <= '9' }
func isLetter(c rune) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// Block returns a fenced block of a language, which may be "". block ends with a newline,
// and its lines are sanitised. The fence is longer than any run of backticks in it.
func Block(language, block string) string {
	fence := strings.Repeat("`", max(3, longestRun(block, '`')+1))
	return fence + language + "\n" + block + fence + "\n"
}

func longestRun(s string, of byte) int {
	longest, run := 0, 0
	for i := range len(s) {
		if s[i] != of {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}
