package sinks

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestNeutral(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		require.Equal(t, want, NeutralLine(in))
		require.Equal(t, want, NeutralLine(want), "again")
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
	require.Equal(t, "run `kubectl get <pod>` [a](b)", NeutraliseText("run `kubectl get <pod>` [a](b)"))
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
		got := NeutralLine(CleanLines(s))
		require.True(t, utf8.ValidString(got))
		for _, bad := range []string{"<!", "<@", "<#", "<http:", "@channel ", "`", "](", "://", "\x1b"} {
			require.NotContains(t, strings.ToLower(got), bad)
		}
	})
}
