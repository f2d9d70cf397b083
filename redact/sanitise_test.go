package redact

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestSanitise(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		require.Equal(t, want, Sanitise(in))
	}
	f("", "")
	f("plain text: äöü 日本 😀", "plain text: äöü 日本 😀")
	f("a\nb\r\nc\td", "a b  c d")
	f("a\x00b\x07c\x7fd\x08e", "abcde")
	f("\x1b[31mred\x1b[0m", "red")
	f("\x1b[38;5;196mred\x1b[K", "red")
	f("\u009b31mred", "red")
	f("\x1b]0;title\x07text", "text")
	f("\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\", "link")
	f("\x1bPq\x1b\\a", "a")
	f("\x1b(Ba\x1bcb\x1b=c", "abc")
	f("a\x1b", "a")
	f("a\x1b[", "a")
	f("a\x1b[12", "a12")
	f("\x1b]0;never ends, so that it hides nothing", "0;never ends, so that it hides nothing")
	f("\x1b\x1b[31ma", "a")
	f("a\u0085b\u2028c\u2029d", "a b c d")
	f("\u202eevil\u202c \u2066a\u2069", "evil a")
	f("pa\u200bss\ufeffwo\u00adrd\u2060", "password")
	f("\U000e0041tag", "tag")
	f("a\xffb\xc3", "a\uFFFDb\uFFFD")
	f("\u3164\u115f\u2800x", "x")
	f(strings.Repeat("é", maxSanitised), strings.Repeat("é", maxSanitised/2))
	f("<b>&*_`", "<b>&*_`")
}

func FuzzSanitise(f *testing.F) {
	for _, s := range []string{"a\x1b[31mb", "\x1b]0;t\x07", "\u202ea\u200b", "\xff\x1b", "\u009b", strings.Repeat("😀", 5000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		out := Sanitise(in)
		require.True(t, utf8.ValidString(out))
		require.LessOrEqual(t, len(out), maxSanitised)
		for _, r := range out {
			require.False(t, unicode.IsControl(r), "%q", r)
			require.False(t, unicode.Is(unicode.Bidi_Control, r), "%q", r)
		}
		require.Equal(t, out, Sanitise(out))
	})
}
