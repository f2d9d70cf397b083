package text

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTruncate(t *testing.T) {
	f := func(s string, n int, want string) {
		t.Helper()
		require.Equal(t, want, Truncate(s, n))
	}
	f("abc", 3, "abc")
	f("abc", 2, "ab")
	f("aé😀", 2, "a")
	f("aé😀", 6, "aé")
	f("aé😀", 0, "")
	f("\x80\x80\x80\x80\x80\x80", 5, "\x80")
}

func TestDigits(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 12: "12", -123: "-123", 1000: "1,000", -1234567: "-1,234,567"} {
		require.Equal(t, want, GroupThousands(n))
	}
}

func TestLabels(t *testing.T) {
	require.Equal(t, `{}`, FormatLabels(nil))
	require.Equal(t, `{a="b\"", c="d"}`, FormatLabels(map[string]string{"c": "d", "a": `b"`}))
}

func TestPrintable(t *testing.T) {
	for name, want := range map[string]string{
		"a/b c.log": "a/b c.log", "é": "é", "a\x1b[2Jb": `"a\x1b[2Jb"`, "a\nb": `"a\nb"`, "\u202egol": `"\u202egol"`, "\xff": `"\xff"`,
	} {
		require.Equal(t, want, Printable(name))
	}
}

func TestPluralForms(t *testing.T) {
	for want, got := range map[string]string{
		"1 line": Plural(1, "line"), "0 lines": Plural(0, "line"), "2 matched lines": Plural(int64(2), "matched line"),
		"3 matches": Plural(uint64(3), "match"), "2 queries": Plural(2, "query"), "2 days": Plural(2, "day"), "2 boxes": Plural(2, "box"), "1 query": Plural(1, "query"),
	} {
		require.Equal(t, want, got)
	}
}
