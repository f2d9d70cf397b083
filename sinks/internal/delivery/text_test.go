package delivery

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTexts(t *testing.T) {
	require.Equal(t, map[string]string{"a": "own", "b": "x", "x": "1"},
		Labels(map[string]string{"a": "own", "b": "x", "bad-name": "x", "empty": ""}, map[string]string{"a": "external", "x": "1"}))
	long := Labels(map[string]string{"a": strings.Repeat("ä", 500)}, nil)["a"]
	require.LessOrEqual(t, len(long), MaxValue)
	require.True(t, strings.HasSuffix(long, "ä…"))
	got := Annotations(map[string]string{"summary": "<!channel> \x1b[31mred\nx", "line": "`x` <@U1>", "runbook_url": "https://x/y", "bad-name": "x"})
	require.Equal(t, map[string]string{"summary": "< !channel> red\nx", "line": "'x' < @U1>", "runbook_url": "https://x/y"}, got)
	require.Equal(t, "a b", Excerpt("a\x00\r\n\tb"))
}

func TestAnnotations(t *testing.T) {
	f := func(in, want map[string]string) {
		t.Helper()
		require.Equal(t, want, Annotations(in))
	}
	f(nil, map[string]string{})
	f(map[string]string{"summary": "", "a-b": "x", "description": "1\n2"}, map[string]string{"description": "1\n2"})
	f(map[string]string{"line": "\x1b[1mx `y` <!here>", "remediation": "run `z` <nil>", "logs_url": "https://g/<!here>"},
		map[string]string{"line": "x 'y' < !here>", "remediation": "run `z` <nil>", "logs_url": "https://g/<!here>"})
	f(map[string]string{"d": strings.Repeat("ä", 1024) + "x"}, map[string]string{"d": strings.Repeat("ä", 1022) + "…"})

	many := map[string]string{"summary": "kept", "runbook_url": "kept"}
	for i := range 100 {
		many[fmt.Sprint("a", i)] = "x"
	}
	got := Annotations(many)
	require.Len(t, got, maxAnnotations)
	require.Equal(t, "kept", got["summary"])
	require.Equal(t, "kept", got["runbook_url"])
}

func TestBaseURL(t *testing.T) {
	f := func(raw, want string) {
		t.Helper()
		_, err := BaseURL(raw, "http://x")
		if want == "" {
			require.NoError(t, err)
			return
		}
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret")
	}
	f("http://a/b", "")
	f("http://a/b?c=d", "remove what follows the path")
	f("https://a:1", "")
	f("a:9093", "no scheme")
	f("http://", "no host")
	f("http://u:secret@a", "no credentials")
	f("http://a#b", "remove")
	f("http://a:%secret", "invalid address")
}
