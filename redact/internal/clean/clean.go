// Package clean removes control characters, ANSI sequences and invisible characters from
// text, and decodes escapes and HTML entities.
package clean

import (
	"encoding/hex"
	"html"
	"strings"
	"unicode/utf8"
)

// Text returns valid UTF-8 without control characters, ANSI sequences, bidirectional
// controls and invisible characters. White space becomes spaces; keepLines keeps tabs
// and line ends. It returns s itself if there is nothing to do.
func Text(s string, keepLines bool) string {
	at := unchanged(s, keepLines)
	if at == len(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	b.WriteString(s[:at])
	for at < len(s) {
		r, n := utf8.DecodeRuneInString(s[at:])
		switch {
		case r == '\x1b' || r == '\u009b':
			at += sequence(s[at:], n)
			continue
		case r == utf8.RuneError && n == 1:
			b.WriteRune(utf8.RuneError)
		case keepLines && (r == '\t' || r == '\n' || r == '\r'):
			b.WriteRune(r)
		case r == '\t' || r == '\n' || r == '\r' || r == '\v' || r == '\f' || r == '\u0085' || r == '\u2028' || r == '\u2029':
			b.WriteByte(' ')
		case !isInvisible(r):
			b.WriteRune(r)
		}
		at += n
	}
	return b.String()
}

// unchanged returns the length of the start of s in which Text finds nothing to do.
func unchanged(s string, keepLines bool) int {
	at := 0
	for {
		at += plain(s[at:])
		r, n := utf8.DecodeRuneInString(s[at:])
		switch {
		case keepLines && (r == '\t' || r == '\n' || r == '\r'):
		case r < utf8.RuneSelf || r == utf8.RuneError || isInvisible(r) || r == '\u2028' || r == '\u2029':
			return at
		}
		at += n
	}
}

// plain returns the length of the printable ASCII at the start of s. It checks
// eight bytes at a time for a high bit, a byte below the space, and DEL.
func plain(s string) int {
	const high, space, one = 0x8080808080808080, 0x2020202020202020, 0x0101010101010101
	at := 0
	for ; len(s)-at >= 8; at += 8 {
		b := s[at : at+8]
		x := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		if (x|(x-space)|(x+one))&high != 0 {
			break
		}
	}
	for at < len(s) && s[at] >= ' ' && s[at] < 0x7f {
		at++
	}
	return at
}

// sequence returns the length of the ANSI sequence at the start of s, whose
// introducer has n bytes. For a sequence without an end it returns only n, so that
// the sequence cannot swallow text.
func sequence(s string, n int) int {
	i := n
	if s[0] == '\x1b' {
		if i == len(s) {
			return i
		}
		switch c := s[i]; {
		case c == '[':
			i++
		case c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_':
			return controlString(s, i+1)
		case c >= ' ' && c <= '/': // such as ESC ( B
			for i < len(s) && s[i] >= ' ' && s[i] <= '/' {
				i++
			}
			if i < len(s) && s[i] >= '0' && s[i] <= '~' {
				i++
			}
			return i
		case c >= '0' && c <= '~':
			return i + 1
		default:
			return i
		}
	}
	from := i
	for i < len(s) && s[i] >= ' ' && s[i] <= '?' && i-from < 64 {
		i++
	}
	if i < len(s) && s[i] >= '@' && s[i] <= '~' {
		return i + 1
	}
	return from
}

// controlString returns the end of a string such as a window title, which BEL or
// ESC \ ends.
func controlString(s string, from int) int {
	for i := from; i < len(s) && i-from < 512; i++ {
		switch {
		case s[i] == '\a':
			return i + 1
		case s[i] == '\x1b' && i+1 < len(s) && s[i+1] == '\\':
			return i + 2
		case s[i] < ' ':
			return from
		}
	}
	return from
}

// isInvisible reports whether a character is a control, or has no glyph but may
// change how others are shown.
func isInvisible(r rune) bool {
	switch {
	case r < ' ', r >= 0x7f && r <= 0x9f:
	case r == 0xad, r == 0x34f, r == 0x61c, r == 0x115f, r == 0x1160, r == 0x17b4, r == 0x17b5:
	case r >= 0x180b && r <= 0x180f, r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x206f:
	case r == 0x2800, r == 0x3164, r == 0xfeff, r == 0xffa0, r >= 0xfe00 && r <= 0xfe0f, r >= 0xfff0 && r <= 0xfffb:
	case r >= 0x1d173 && r <= 0x1d17a, r >= 0xe0000 && r <= 0xe0fff:
	default:
		return false
	}
	return true
}

// Unescape decodes escapes such as \u003c of JSON and \x3c of nginx, at any depth of quoting, if
// they represent printable ASCII, white space, or a byte of a character. A backslash of JSON
// stays, and so does one before a double quote. It removes escapes of invisible characters, and returns s itself if there is
// no such escape.
func Unescape(s string) string {
	var b strings.Builder
	for from := 0; ; {
		at := strings.IndexByte(s[from:], '\\')
		if at < 0 {
			break
		}
		at += from
		from = at + 1
		r, n, ok := escaped(s[from:])
		if !ok {
			continue
		}
		switch {
		case r >= ' ' && r < 0x7f && r != '\\', r == '\n', r == '\r', r == '\t':
			text := strings.TrimRight(s[:at], `\`)
			if r == '"' && n == len("u0022") {
				text = s[:from]
			}
			b.WriteString(text)
			b.WriteRune(r)
		case n == len("x22") && (r == '\\' || r >= 0x80): // a byte
			b.WriteString(strings.TrimRight(s[:at], `\`))
			b.WriteByte(byte(r))
		case r >= 0x80 && isInvisible(r):
			b.WriteString(strings.TrimRight(s[:at], `\`))
		default:
			b.WriteString(s[:from+n])
		}
		s, from = s[from+n:], 0
	}
	if b.Len() == 0 {
		return s
	}
	b.WriteString(s)
	return b.String()
}

// escaped decodes an escape after its backslash, and returns its length.
func escaped(s string) (r rune, n int, ok bool) {
	switch {
	case strings.HasPrefix(s, "u"):
		r, ok = unhex4(s[1:])
		return r, len("u0022"), ok
	case strings.HasPrefix(s, "x") && len(s) >= len("x22"):
		r, ok = unhex4("00" + s[1:3])
		return r, len("x22"), ok
	}
	return 0, 0, false
}

// unhex4 reads four hexadecimal digits.
func unhex4(s string) (r rune, ok bool) {
	var b [2]byte
	if len(s) < 4 {
		return 0, false
	}
	_, err := hex.Decode(b[:], []byte(s[:4]))
	return rune(b[0])<<8 | rune(b[1]), err == nil
}

// Entities decodes HTML entities.
func Entities(s string) string {
	at := strings.IndexByte(s, '&')
	if at < 0 {
		return s
	}
	for _, e := range [...]string{"&#", "&quot;", "&amp;", "&lt;", "&gt;", "&apos;"} {
		if strings.Contains(s[at:], e) {
			return html.UnescapeString(s)
		}
	}
	return s
}
