package web

import (
	"html/template"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/redact"
)

func TestMatchedLine(t *testing.T) {
	set, problems := buildRules("- alert: A\n  from: '{container=\"x\"}'\n  severity: info\n  match: {contains: <b>, regex: 'pod (?P<pod>\\S+) is', not: never}\n  clear: 'is'\n")
	require.Empty(t, problems)
	f := func(line, want string, captures ...matcher.NamedValue) {
		t.Helper()
		got := markMatches(set.Rules[0], redact.Text(line))
		require.Equal(t, want, string(got.HTML))
		require.Equal(t, captures, got.Captures)
	}
	f("<b> pod a&b is", "<mark>&lt;b&gt;</mark> <mark>pod a&amp;b is</mark>", matcher.NamedValue{Name: "pod", Value: "a&b", Source: "capture"})
	f("pod <b> is", "<mark>pod &lt;b&gt; is</mark>", matcher.NamedValue{Name: "pod", Value: "<b>", Source: "capture"})
	f("<b> pod a is never", "&lt;b&gt; pod a is never")
	f("it is", "it is")
	require.Equal(t, "&lt;", string(markMatches(nil, "<").HTML))
	require.Equal(t, "<mark>ab</mark><mark>c</mark>", string(withMarks("abc", []string{"bc", "ab", "b", "", "x"})))
}

func TestHighlightYAML(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		require.Equal(t, want, string(highlightYAML(text)))
	}
	f("a: b # c\n", `<span class="y-k">a</span>: b <span class="y-c"># c
</span>`)
	f("- a: 'it''s # no: comment'", `- <span class="y-k">a</span>: <span class="y-s">&#39;it&#39;&#39;s # no: comment&#39;</span>`)
	f("a: {b: \"c\\\"d\", e: <f>}", `<span class="y-k">a</span>: {<span class="y-k">b</span>: <span class="y-s">&#34;c\&#34;d&#34;</span>, <span class="y-k">e</span>: &lt;f&gt;}`)
	f("a: |\n  b: c\n\nd: e", "<span class=\"y-k\">a</span>: |\n<span class=\"y-s\">  b: c\n</span><span class=\"y-s\">\n</span><span class=\"y-k\">d</span>: e")
	f("a: it's http://x: 'y", `<span class="y-k">a</span>: it&#39;s http://x: <span class="y-s">&#39;y</span>`)
	f("\"a b\": \"c\n  d\"\ne: f", "<span class=\"y-k\">&#34;a b&#34;</span>: <span class=\"y-s\">&#34;c\n</span><span class=\"y-s\">  d&#34;</span>\n<span class=\"y-k\">e</span>: f")
	f("", "")
}

// However YAML is highlighted, its text stays.
func FuzzHighlightYAML(f *testing.F) {
	f.Add("a: |\n  b\n'c': [\"d]")
	f.Fuzz(func(t *testing.T, text string) {
		require.Equal(t, template.HTMLEscapeString(text), spanTags.ReplaceAllString(string(highlightYAML(text)), ""))
	})
}

var spanTags = regexp.MustCompile(`</?span[^>]*>`)
