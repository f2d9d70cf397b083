package matcher

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTextOf(t *testing.T) {
	f := func(line, want string) {
		t.Helper()
		require.Equal(t, want, string(TextOf([]byte(line))))
	}
	f("", "")
	f("plain text\r", "plain text")
	f("2026-01-01T00:00:00.123456789Z stderr F E0101 text", "E0101 text")
	f("2026-01-01T00:00:00Z stdout P half", "half")
	f(`{"log":"E0101 text\n","stream":"stderr","time":"2026-01-01T00:00:00Z"}`, "E0101 text")
	f(`{"msg":"text"}`, `{"msg":"text"}`)
}

func TestFieldReader(t *testing.T) {
	var r FieldReader
	f := func(line string, json bool, want ...NamedValue) {
		t.Helper()
		r.Reset([]byte(line))
		require.Equal(t, json, r.IsJSON())
		require.Equal(t, want, r.All())
		for _, w := range want {
			v, ok := r.Lookup(w.Name)
			require.True(t, ok)
			require.Equal(t, w.Value, string(v))
		}
		_, ok := r.Lookup("none")
		require.False(t, ok)
	}
	f("", false)
	f(`E0101 10:00:00.0 1 a.go:1] "x y" a="b c"`, false, NamedValue{"msg", "x y", "field"}, NamedValue{"a", "b c", "field"})
	f(`{"msg":"x","o":{"name":"n","namespace":"s"}}`, true,
		NamedValue{"msg", "x", "field"}, NamedValue{"o", "s/n", "field"}, NamedValue{"o.name", "n", "field"}, NamedValue{"o.namespace", "s", "field"})
	f("level=info", false, NamedValue{"level", "info", "field"})
}
