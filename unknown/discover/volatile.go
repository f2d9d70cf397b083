package discover

import (
	"strings"
)

// volatile reports whether a value differs each time that something happens, such as a number,
// a time, a duration, an address with a port, a UID or a hash. With such a value in its key, a
// rule would send an alert for each line.
func volatile(value string) bool {
	for part := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == '/' }) {
		switch classify(part) {
		case maskNumber, maskDuration, maskTime:
			return true
		}
		if host, port, ok := cutLast(part, ':'); ok && host != "" && allIn(port, "0123456789") {
			return true
		}
		if uid(part) || hash(part) || strings.HasPrefix(part, "sha256:") {
			return true
		}
	}
	return false
}

// cutLast splits a text at the last separator.
func cutLast(s string, sep byte) (before, after string, ok bool) {
	k := strings.LastIndexByte(s, sep)
	if k < 0 {
		return s, "", false
	}
	return s[:k], s[k+1:], true
}

func allIn(s, set string) bool { return s != "" && strings.Trim(s, set) == "" }

const hexDigits = "0123456789abcdef"

// uid reports whether a text is a UUID, with or without dashes.
func uid(s string) bool {
	s = strings.ToLower(s)
	if len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' {
		return allIn(strings.ReplaceAll(s, "-", ""), hexDigits)
	}
	return false
}

// minHash is the minimum length of a hash.
const minHash = 8

// hash reports whether a text is a hash, which consists of hexadecimal digits, including
// letters.
func hash(s string) bool {
	s = strings.ToLower(s)
	return len(s) >= minHash && allIn(s, hexDigits) && strings.ContainsAny(s, "0123456789") && strings.ContainsAny(s, "abcdef")
}
