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

// Shorten truncates s to n bytes and adds an ellipsis if s is longer.
func Shorten[T ~string](s T, n int) T {
	if len(s) <= n {
		return s
	}
	return Truncate(s, n) + "…"
}

// Printable returns a name that comes from outside the program in a form that is safe to print. A name of visible
// characters stays unchanged. Any other name is quoted with escapes.
func Printable(name string) string {
	if strings.IndexFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) < 0 {
		return name
	}
	return strconv.Quote(name)
}

// GroupThousands formats 1234567 as 1,234,567.
func GroupThousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Plural formats a number with a noun, such as "1 line" and "2 lines".
func Plural[N ~int | ~int64 | ~uint64](n N, noun string) string {
	return fmt.Sprintf("%d %s", n, PluralNoun(n, noun))
}

// PluralNoun returns a noun, or its plural unless n is one. If a noun has several words, the
// last one changes.
func PluralNoun[N ~int | ~int64 | ~uint64](n N, noun string) string {
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

// FormatLabels formats labels as a selector, sorted by name, such as {a="b", c="d"}.
func FormatLabels(labels map[string]string) string {
	parts := make([]string, 0, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, fmt.Sprintf("%s=%q", name, labels[name]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
