// Package clean removes control characters, ANSI sequences and invisible characters from
// text, and decodes escapes and HTML entities.
package clean

import (
	"html"
	"strconv"
	"strings"
	"unicode/utf8"

	"crowsnest/internal/lazyre"
)

// sequence matches an ANSI sequence. Such a sequence is parameters with a final byte, a string such as a window title
// that ends with BEL or ESC \, or a short sequence. If the end is missing, only the introducer matches, so that the
// sequence cannot swallow text. For the same reason a space belongs only to the sequences that are in use.
var sequence = lazyre.New(`^(?:(?:\x1b\[|\x{9b})(?:[0-?]*(?: q|[!-/]*[@-~]))?|\x1b[\]PX^_](?:[^\x00-\x1f]*(?:\x07|\x1b\\))?|\x1b(?: [FGLMN]|[!-/]+[0-~]?)|\x1b[0-~]?)`)

// maxSequence is the maximum length of an ANSI sequence in bytes.
const maxSequence = 512

// Text returns valid UTF-8 without control characters, ANSI sequences, bidirectional controls and invisible characters.
// White space becomes spaces. If keepLines is set, tabs and line ends are kept. It returns s itself if there is nothing
// to change.
func Text(s string, keepLines bool) string {
	var b strings.Builder
	copied := 0
	for at := plain(s); at < len(s); at += plain(s[at:]) {
		r, n := utf8.DecodeRuneInString(s[at:])
		with := ""
		switch {
		case r == '\x1b' || r == '\u009b':
			n = len(sequence.FindString(s[at:min(len(s), at+maxSequence)]))
		case r == utf8.RuneError && n == 1:
			with = "\uFFFD"
		case r == '\t' || r == '\n' || r == '\r' || r == '\v' || r == '\f' || r == '\u0085' || r == '\u2028' || r == '\u2029':
			with = " "
			if keepLines && (r == '\t' || r == '\n' || r == '\r') {
				with = s[at : at+n]
			}
		case !isInvisible(r):
			with = s[at : at+n]
		}
		if with != s[at:at+n] {
			b.WriteString(s[copied:at])
			b.WriteString(with)
			copied = at + n
		}
		at += n
	}
	if copied == 0 {
		return s
	}
	b.WriteString(s[copied:])
	return b.String()
}

// plain returns the length of the printable ASCII text at the start of s. It tests eight bytes at a time.
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

// invisible lists the first and the last character of each range of invisible characters. These are control characters,
// and characters without a glyph that may change how other characters are shown.
var invisible = []rune{
	0, 0x1f, 0x7f, 0x9f, 0xad, 0xad, 0x34f, 0x34f, 0x61c, 0x61c, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x180b, 0x180f, 0x200b, 0x200f,
	0x202a, 0x202e, 0x2060, 0x206f, 0x2800, 0x2800, 0x3164, 0x3164, 0xfe00, 0xfe0f, 0xfeff, 0xfeff, 0xffa0, 0xffa0, 0xfff0, 0xfffb,
	0x1d173, 0x1d17a, 0xe0000, 0xe0fff,
}

func isInvisible(r rune) bool {
	for i := 0; i < len(invisible) && r >= invisible[i]; i += 2 {
		if r <= invisible[i+1] {
			return true
		}
	}
	return false
}

var escape = lazyre.New(`\\+(?:u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2})`)

// Unescape decodes escapes such as \u003c of JSON and \x3c of nginx, at any depth of quoting. It decodes only escapes
// of printable ASCII, of white space and of the bytes of a UTF-8 character. It keeps JSON's escape of the backslash,
// and a backslash before a double quote. It removes escapes of invisible characters. It returns s itself if there is
// nothing to change.
func Unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 || !strings.Contains(s, `\u`) && !strings.Contains(s, `\x`) {
		return s
	}
	return escape.ReplaceAllStringFunc(s, func(m string) string {
		code := strings.TrimLeft(m, `\`)
		n, _ := strconv.ParseUint(code[1:], 16, 16) // the expression matches only digits, so there is no error
		r, isByte := rune(n), code[0] == 'x'
		switch {
		case r == '"' && !isByte:
			return m[:len(m)-len(code)] + `"`
		case r >= ' ' && r < 0x7f && r != '\\', r == '\n', r == '\r', r == '\t':
			return string(r)
		case isByte && (r == '\\' || r >= 0x80):
			return string([]byte{byte(r)})
		case r >= 0x80 && isInvisible(r):
			return ""
		}
		return m
	})
}

var entity = lazyre.New(`&(?:#|quot;|amp;|lt;|gt;|apos;)`)

// Entities decodes HTML entities.
func Entities(s string) string {
	if strings.IndexByte(s, '&') < 0 || !entity.MatchString(s) {
		return s
	}
	return html.UnescapeString(s)
}
