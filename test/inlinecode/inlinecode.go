// Package inlinecode helps tests to look at the text of Markdown around inline code.
package inlinecode

import "strings"

// Remove returns the text of a line of Markdown that stands outside of inline code.
func Remove(line string) string {
	var b strings.Builder
	for line != "" {
		at := strings.IndexByte(line, '`')
		if at < 0 {
			break
		}
		b.WriteString(line[:at])
		rest := strings.TrimLeft(line[at:], "`")
		run := len(line[at:]) - len(rest)
		end := 0
		for end < len(rest) {
			n := len(rest[end:]) - len(strings.TrimLeft(rest[end:], "`"))
			if n == run {
				break
			}
			end += max(n, 1)
		}
		if end >= len(rest) { // an open mark is text
			b.WriteString(line[at : at+run])
			line = rest
			continue
		}
		line = rest[end+run:]
	}
	b.WriteString(line)
	return b.String()
}
