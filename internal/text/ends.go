package text

import "unicode/utf8"

// Ends returns s if it has at most n bytes, otherwise its beginning and its end with an
// ellipsis between them, of at most n bytes in all: the cause of a wrapped error stands at
// its end. Doing so again changes nothing.
func Ends[T ~string](s T, n int) T {
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
