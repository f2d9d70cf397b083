package text

import "unicode/utf8"

// TruncateMiddle returns s if it has at most n bytes. Otherwise it returns the beginning and the end of s with an
// ellipsis between them, in at most n bytes. The end is kept because it contains the cause of a wrapped error.
// TruncateMiddle does not change a text that it has already truncated to n bytes.
func TruncateMiddle[T ~string](s T, n int) T {
	const gap = "…"
	if len(s) <= n {
		return s
	}
	if n < 8 {
		return Truncate(s, n)
	}
	half := (n - len(gap)) / 2
	head, from := Truncate(s, half), len(s)-half
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return head + gap + s[from:]
}
