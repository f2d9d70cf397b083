// Package jsonstring writes strings of JSON. It imports nothing of this module.
package jsonstring

import (
	"strings"
	"unicode/utf8"
)

// Append appends s as a string of JSON, as encoding/json does without escapes for HTML. It is
// safe for concurrent use with different b.
func Append(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		if isPlain[s[i]] {
			i++
			continue
		}
		b = append(b, s[start:i]...)
		b, i = appendEscaped(b, s, i)
		start = i
	}
	return append(append(b, s[start:]...), '"')
}

// isPlain has the bytes that stand for themselves in JSON.
var isPlain = func() (plain [256]bool) {
	for c := byte(' '); c < utf8.RuneSelf; c++ {
		plain[c] = c != '"' && c != '\\'
	}
	return plain
}()

// appendEscaped appends the character of s at i, which is not plain, and returns where the next one is.
func appendEscaped(b []byte, s string, i int) ([]byte, int) {
	switch c := s[i]; {
	case c == '"' || c == '\\':
		return append(b, '\\', c), i + 1
	case c < utf8.RuneSelf:
		return appendControl(b, c), i + 1
	}
	escape, n := notASCII(s[i:])
	if escape == "" {
		escape = s[i : i+n]
	}
	return append(b, escape...), i + n
}

func appendControl(b []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	if k := strings.IndexByte("\b\f\n\r\t", c); k >= 0 {
		return append(b, '\\', "bfnrt"[k])
	}
	return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
}

// notASCII returns how many bytes the character at the beginning of s has, and what replaces
// it; "": it stands for itself.
func notASCII(s string) (escape string, n int) {
	switch c, n := utf8.DecodeRuneInString(s); {
	case c == utf8.RuneError && n == 1:
		return `\ufffd`, n
	case c == '\u2028':
		return `\u2028`, n
	case c == '\u2029':
		return `\u2029`, n
	default:
		return "", n
	}
}
