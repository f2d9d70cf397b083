package delivery

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"crowsnest/redact"
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

func TestNeutral(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		require.Equal(t, want, neutralLine(in))
		require.Equal(t, want, neutralLine(want), "again")
	}
	f("plain", "plain")
	f("err=<nil> user@host a<b>c <br>", "err=<nil> user@host a< b>c < br>")
	f("<!channel> <!here|x> <@U123> <#C1>", "< !channel> < !here|x> < @U123> < #C1>")
	f("<https://evil|click> <mailto:a@b|c> <HTTP://x>", "< https[:]//evil|click> < mailto[:]a@b|c> < HTTP[:]//x>")
	f("https://a|https://b.tld https://a,https://b.tld,https://c.tld/d https://https://b.tld", "https[:]//a|https[:]//b[.]tld https[:]//a,https[:]//b[.]tld,https[:]//c[.]tld/d https[:]//https[:]//b[.]tld")
	f("a@b.example.org, user@10.0.0.1, app@sha256:1", "a[@]b.example.org, user@10.0.0.1, app@sha256:1")
	f("otel: tel:1 [a]: //x &#58; one\ntwo", "otel: tel[:]1 [a] : //x & #58; one two")
	f("@everyone @HERE @channel @all @allison", "@ everyone @ HERE @ channel @ all @allison")
	f("`code` [a](http://x) ![](y)", "'code' [a] (http[:]//x) ![] (y)")
	f("see _https://evil.example.org/a.b?c www.evil.example.org", "see _https[:]//evil[.]example[.]org/a.b?c www[.]evil.example.org")
	f("", "")
	require.Equal(t, "run `kubectl get <pod>` [a](b)", redact.DefuseMentions("run `kubectl get <pod>` [a](b)"))
}

func TestClean(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		require.Equal(t, want, CleanLines(in))
	}
	f("1. a\n2. b", "1. a\n2. b")
	f("a\x1b[31mb\r\nc\u202ed\xff", "ab \ncd\uFFFD")
}

func FuzzNeutral(f *testing.F) {
	f.Add("<!channel>\n<<!@here> <\x1b[0m!x")
	f.Fuzz(func(t *testing.T, s string) {
		got := neutralLine(CleanLines(s))
		require.True(t, utf8.ValidString(got))
		for _, bad := range []string{"<!", "<@", "<#", "<http:", "@channel ", "`", "](", "://", "\x1b"} {
			require.NotContains(t, strings.ToLower(got), bad)
		}
	})
}
