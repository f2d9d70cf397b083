// Package jsonstring writes strings of JSON. It imports nothing of this module.
package jsonstring

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// vectorFrom is from which length on vector instructions are faster.
	vectorFrom = 16

	// slack is what escape may write behind its result.
	slack = 64
)

// Append appends s as a string of JSON, as encoding/json does without escapes for HTML. It may
// write to the memory behind its result, up to the capacity of b. It is safe for concurrent use
// with different b.
func Append(b []byte, s string) []byte {
	b = append(b, '"')
	if !vector || len(s) < vectorFrom {
		return append(appendPlain(b, s), '"')
	}
	for i := 0; i < len(s); {
		var n int
		b, n = escape(b, s[i:])
		i += n
		for i < len(s) { // characters that are not ASCII follow each other
			if b, i = appendEscaped(b, s, i); i < len(s) && s[i] < utf8.RuneSelf {
				break
			}
		}
	}
	return append(b, '"')
}

// appendPlain appends s without quotes around it. It copies eight bytes, and goes on at the
// first of them that is to be escaped.
func appendPlain(b []byte, s string) []byte {
	i := 0
	for i+8 <= len(s) {
		n := len(b)
		if cap(b)-n < 16 {
			b = slices.Grow(b, len(s)-i+16)
		}
		w := word(s[i:])
		binary.LittleEndian.PutUint64(b[n:n+8], w)
		special := specials(w)
		if special == 0 {
			b = b[:n+8]
			i += 8
			continue
		}
		literal := bits.TrailingZeros64(special) / 8
		n, i = n+literal, i+literal
		if c := s[i]; c == '"' || c == '\\' { // the usual ones
			b = b[:n+2]
			b[n], b[n+1] = '\\', c
			i++
			continue
		}
		b, i = appendEscaped(b[:n], s, i)
	}
	for i < len(s) {
		b, i = appendEscaped(b, s, i)
	}
	return b
}

// specials returns a word whose lowest bit, if any, is in the first of eight bytes that does
// not stand for itself in JSON: quotes, backslashes, control characters and what is not
// ASCII.
func specials(w uint64) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote, backslash := w^ones*'"', w^ones*'\\'
	// Below the lowest top bit that is set, no byte is special: a byte that borrows from the
	// next is special itself.
	return (w | (w - ones*' ') | (quote - ones) | (backslash - ones)) & tops
}

// appendEscaped appends the character of s at i, and returns where the next one is.
func appendEscaped(b []byte, s string, i int) ([]byte, int) {
	switch c := s[i]; {
	case c == '"' || c == '\\':
		return append(b, '\\', c), i + 1
	case c < ' ':
		return appendControl(b, c), i + 1
	case c < utf8.RuneSelf:
		return append(b, c), i + 1
	}
	escape, n := notASCII(s[i:])
	if escape == "" {
		escape = s[i : i+n]
	}
	return append(b, escape...), i + n
}

// word returns the first eight bytes of s, the first one lowest: one load.
func word(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
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
