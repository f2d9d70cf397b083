// Package text truncates texts and formats labels and numbers.
package text

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Truncate shortens s to at most n bytes without splitting a character.
func Truncate[T ~string](s T, n int) T {
	if len(s) <= n {
		return s
	}
	at := n
	for at > 0 && at > n-utf8.UTFMax && !utf8.RuneStart(s[at]) {
		at--
	}
	return s[:at]
}

// Shorten truncates s to n bytes and adds an ellipsis, if s is longer.
func Shorten[T ~string](s T, n int) T {
	if len(s) <= n {
		return s
	}
	return Truncate(s, n) + "…"
}

// Printable returns a name that others chose in a form that is safe to print: as it is if all its
// characters are visible, otherwise in quotes with escapes.
func Printable(name string) string {
	if strings.IndexFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) < 0 {
		return name
	}
	return strconv.Quote(name)
}

// Digits formats 1234567 as 1,234,567.
func Digits(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Plural writes a number with a noun: "1 line", "2 lines".
func Plural[N ~int | ~int64 | ~uint64](n N, noun string) string {
	return fmt.Sprintf("%d %s", n, Noun(n, noun))
}

// Noun returns a noun, or its plural unless n is one. A noun of several words ends with the one
// that changes.
func Noun[N ~int | ~int64 | ~uint64](n N, noun string) string {
	if n == 1 {
		return noun
	}
	last := noun[len(noun)-1]
	switch {
	case last == 'y' && !strings.ContainsAny(noun[len(noun)-2:len(noun)-1], "aeiou"):
		return noun[:len(noun)-1] + "ies"
	case last == 's' || last == 'x' || strings.HasSuffix(noun, "ch") || strings.HasSuffix(noun, "sh"):
		return noun + "es"
	}
	return noun + "s"
}

// Labels formats labels as in a selector, sorted by name: {a="b", c="d"}.
func Labels(labels map[string]string) string {
	parts := make([]string, 0, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, fmt.Sprintf("%s=%q", name, labels[name]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
