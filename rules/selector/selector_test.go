package selector

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/rules/internal/expr"
)

func TestParseSelector(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		s, err := Parse(in)
		require.NoError(t, err, in)
		require.Equal(t, want, s.String())
		again, err := Parse(s.String())
		require.NoError(t, err)
		require.Equal(t, s.String(), again.String())
		require.True(t, s.Equal(again))
	}
	f(`{a="b"}`, `{a="b"}`)
	f(`{a="b",}`, `{a="b"}`)
	f(`{a="b", c!="d",e=~"f|g" , h!~"i.*" , }`, `{a="b", c!="d", e=~"f|g", h!~"i.*"}`)
	f("{a=`b\\d`}", `{a="b\\d"}`)
	f("{a=~`b\\d+`}", `{a=~"b\\d+"}`)
	f(`{a="\"\\\t\n\u00e9é"}`, `{a="\"\\\t\néé"}`)
	f(`{a="b", a!="c"}`, `{a="b", a!="c"}`)
	f(`{a="b", a="b"}`, `{a="b", a="b"}`)
	f(`{_A9=~".+"}`, `{_A9=~".+"}`)
	f(`{a="x}"}`, `{a="x}"}`)
	f(`{a!=""}`, `{a!=""}`)
	f(`{a="b", c=""}`, `{a="b", c=""}`)
	f("{\ta=\"b\"\n}\n", `{a="b"}`)
	f(`{a=~"a\nb"}`, `{a=~"a\nb"}`)
	f(`{a="日本"}`, `{a="日本"}`)
}

func TestParseSelectorErrors(t *testing.T) {
	f := func(in string, offset int, message, fix string) {
		t.Helper()
		_, err := Parse(in)
		var se *expr.SyntaxError
		require.ErrorAs(t, err, &se, in)
		require.Contains(t, se.Message, message, in)
		require.Contains(t, se.Fix, fix, in)
		require.Equal(t, offset, se.Offset, in)
	}
	f(``, 0, "empty", "namespace=")
	f(`  `, 2, "empty", "namespace=")
	f(`{}`, 0, "at least one matcher", "namespace=")
	f(`{ , }`, 2, "comma", "remove")
	f(`{a="b",,}`, 7, "comma", "remove")
	f(`a="b"`, 0, "start with {", `{a="b"}`)
	f(`up{a="b"}`, 0, "no name before", "remove")
	f(`{a="b"`, 6, "no closing }", "}")
	f(`{`, 1, "no closing }", "}")
	f(`{a`, 2, "no closing }", "}")
	f(`{a=`, 3, "value is missing", "quotes")
	f(`{a=}`, 3, "not quoted", "quotes")
	f(`{a==“b”}`, 2, "==", "=")
	f(`{a=="b"}`, 2, "==", "=")
	f(`{a="b"} |= "c"`, 8, "filter follows", "match")
	f(`{a="b"}[5m]`, 7, "range follows", "within")
	f(`{a="b"} x`, 8, "follows", "remove")
	f(`{a="b" c="d"}`, 7, "expected a comma or }", "commas")
	f(`{a='b'}`, 3, "single quotes", "double")
	f(`{a=b}`, 3, "not quoted", "double")
	f(`{a="b}`, 3, "closing quote", `"`)
	f("{a=`b}", 3, "closing backtick", "`")
	f("{a=\"b\n\"}", 3, "closing quote", `"`)
	f(`{a=~"*b"}`, 4, "not a regular expression", "glob")
	f(`{a=~"b("}`, 4, "missing closing )", "")
	f(`{a=~"b)|(c"}`, 4, "unexpected )", "")
	f(`{a=~"b\.c"}`, 6, "unknown escape", `\\`)
	f(`{a="\xff"}`, 4, "not valid UTF-8", "")
	f("{a=\"\xff\"}", 4, "not valid UTF-8", "")
	f(`{app.kubernetes.io/name="b"}`, 4, "'.'", "app_kubernetes_io_name")
	f(`{app-name="b"}`, 4, "'-'", "letters")
	f(`{9a="b"}`, 1, "'9'", "letters")
	f(`{"a"="b"}`, 1, "name is in quotes", "without quotes")
	f(`{a~"b"}`, 2, "not an operator", "=~")
	f(`{a=~".*"}`, 0, "accepts a stream without", `".+"`)
	f(`{a=""}`, 0, "accepts a stream without", `component=""`)
	f(`{a!="b", c!~"d"}`, 0, "accepts a stream without", "")
	f(`{a="b", a="c.d"}`, 8, `no stream has a="b" and a="c.d"`, `a=~"b|c\\.d"`)
	f(`{a="b"}{c="d"}`, 7, "follows", "remove")
}

func TestSelectorMatches(t *testing.T) {
	f := func(sel string, labels map[string]string, strict, lenient bool) {
		t.Helper()
		s, err := Parse(sel)
		require.NoError(t, err)
		require.Equal(t, strict, s.Matches(labels, false), "strict %s %v", sel, labels)
		require.Equal(t, lenient, s.Matches(labels, true), "lenient %s %v", sel, labels)
	}
	type l = map[string]string
	f(`{a="b"}`, l{"a": "b"}, true, true)
	f(`{a="b"}`, l{"a": "c"}, false, false)
	f(`{a="b"}`, l{}, false, true)
	f(`{a="b"}`, nil, false, true)
	f(`{a="b"}`, l{"a": ""}, false, true)
	f(`{a="b", c=""}`, l{"a": "b"}, true, true)
	f(`{a="b", c=""}`, l{"a": "b", "c": "d"}, false, false)
	f(`{a="b", c!="d"}`, l{"a": "b"}, true, true)
	f(`{a="b", c!="d"}`, l{"a": "b", "c": "d"}, false, false)
	f(`{a="b", c!=""}`, l{"a": "b"}, false, true)
	f(`{a=~"b|c"}`, l{"a": "bc"}, false, false)
	f(`{a=~"b|c"}`, l{"a": "c"}, true, true)
	f(`{a=~"b.*"}`, l{"a": "b\nc"}, true, true)
	f(`{a=~".+", b!~"x.*"}`, l{"a": "1", "b": "xy"}, false, false)
	f(`{a=~".+", b!~"x.*"}`, l{"a": "1"}, true, true)
	f(`{a=~".+", b=~".*"}`, l{"a": "1"}, true, true)
	f(`{a=~"(?i)B"}`, l{"a": "b"}, true, true)
	// Logs of containers, units and files alike, but no Events.
	f(`{container=~"c|", unit=~"u|", component=""}`, l{"container": "c"}, true, true)
	f(`{container=~"c|", unit=~"u|", component=""}`, l{"unit": "u"}, true, true)
	f(`{container=~"c|", unit=~"u|", component=""}`, l{}, true, true)
	f(`{container=~"c|", unit=~"u|", component=""}`, l{"container": "d"}, false, false)
	f(`{container=~"c|", unit=~"u|", component=""}`, l{"component": "events"}, false, false)
	f(`{component=~"events|"}`, l{"component": "events"}, true, true)
	require.True(t, Selector{}.Matches(nil, false))
	require.True(t, Selector{}.Matches(l{"a": "b"}, true))
	require.Equal(t, "{}", Selector{}.String())
	require.Empty(t, Selector{}.Matchers())
}

func TestDemands(t *testing.T) {
	for text, want := range map[string]bool{`{a="b"}`: true, `{a=~".*", b!=""}`: true, `{component=""}`: false, `{a=~"b|", component=~"events|"}`: false} {
		s, err := Parse(text)
		require.NoError(t, err)
		require.Equal(t, want, s.DemandsAny(), text)
	}
}

func TestSelectorIsImmutable(t *testing.T) {
	s, err := Parse(`{a="b"}`)
	require.NoError(t, err)
	s.Matchers()[0].Name = "changed"
	require.Equal(t, `{a="b"}`, s.String())
}

func TestSelectorsOfConformancePacks(t *testing.T) {
	files, _ := filepath.Glob("../../../shared/conformance/*.yaml")
	if len(files) == 0 {
		t.Skip("no conformance packs beside the repository")
	}
	from := regexp.MustCompile(`(?m)^\s*from: '(.*)'$`)
	for _, name := range files {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, m := range from.FindAllSubmatch(b, -1) {
			_, err := Parse(string(m[1]))
			require.NoError(t, err, "%s: %s", name, m[1])
		}
	}
}

func FuzzParseSelector(f *testing.F) {
	for _, s := range []string{`{a="b"}`, "{a=`b`,}", `{a=~"b|c", d!~"e"}`, `{a="\u00e9\""}`, `{a`, `{}`, `x{a="b"}`, `{a="b"} |= "c"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		s, err := Parse(in)
		if err != nil {
			var se *expr.SyntaxError
			require.True(t, errors.As(err, &se))
			require.True(t, se.Offset >= 0 && se.Offset <= len(in))
			require.NotEmpty(t, se.Message)
			return
		}
		require.False(t, s.Matches(nil, false), "an accepted selector chooses streams without labels: %q", in)
		again, err := Parse(s.String())
		require.NoError(t, err)
		require.Equal(t, s.String(), again.String())
	})
}
