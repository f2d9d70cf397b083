// Package text truncates texts and formats labels.
package text

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Truncate shortens s to at most n bytes without splitting a character.
func Truncate(s string, n int) string {
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
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Truncate(s, n) + "…"
}

// Labels formats labels as in a selector, sorted by name: {a="b", c="d"}.
func Labels(labels map[string]string) string {
	parts := make([]string, 0, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, fmt.Sprintf("%s=%q", name, labels[name]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
