package markdown

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
)

// A text reads in a terminal as it was written, and nothing in it acts as markup.
func TestInert(t *testing.T) {
	for text, want := range map[string]string{
		"cluster=prod-1 namespace=kube-system":        "cluster=prod-1 namespace=kube-system",
		"Pod shop/web-0 (2 of 3) failed: it's \"x\".": "Pod shop/web-0 (2 of 3) failed: it's \"x\".",
		"kube_pod_info at 10:00:01.5, v1.2.3":         "kube_pod_info at 10:00:01.5, v1.2.3",
		"90% of data, größer als 5 – ja":              "90% of data, größer als 5 – ja",
		"see https://evil.example/x, now":             "see `https://evil.example/x`, now",
		"by @admin and #12":                           "by `@admin` and `#12`",
		"<script>alert(1)</script>":                   "`<script>alert(1)</script>`",
		"a **b** _c_ ~d~ $e$ :tada: [f](g)":           "a `**b** _c_ ~d~ $e$ :tada`: `[f](g)`",
		"say `rm -rf`":                                "say `` `rm -rf` ``",
		"``` fence":                                   "```` ``` ```` fence",
		"- item":                                      "`-` item",
		"1. item":                                     "`1`. item",
		"# title":                                     "`#` title",
		"+ x":                                         "`+` x",
		"=== x":                                       "`===` x",
		"a|b <c>|":                                    "`a`\\|`b <c>`\\|",
		"one\ntwo\r\n# three":                         "one two `#` three",
		"a &amp; b &#64;x":                            "a `&amp;` b `&#64;x`",
		"www.example.com or me@example.com":           "`www.example.com` or `me@example.com`",
		`back\slash`:                                  "`back\\slash`",
		"":                                            "",
	} {
		require.Equal(t, want, EscapeLine(text), text)
	}
}

// Whatever a text is, a renderer makes of it only text and code, on a line of its own, in an
// item and in a table.
func FuzzInert(f *testing.F) {
	for _, s := range []string{"a `b", "`` x ` y ```", "a|`|b", "| | `", "<`>`", "_a_ `", "\x00@x", "`|`", "[`](`)", "1) x", "a http://x.y", "*", "a\\|b", "~~x~~", "&lt;", "ftp://x.y"} {
		f.Add(s)
	}
	render := goldmark.New(goldmark.WithExtensions(extension.GFM))
	element := regexp.MustCompile(`<[^>]*>`)
	allowed := map[string]bool{
		"<p>": true, "</p>": true, "<code>": true, "</code>": true, "<ul>": true, "</ul>": true, "<li>": true, "</li>": true,
		"<table>": true, "</table>": true, "<thead>": true, "</thead>": true, "<tbody>": true, "</tbody>": true, "<tr>": true, "</tr>": true,
		"<th>": true, "</th>": true, "<td>": true, "</td>": true,
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := EscapeLine(s)
		require.NotContains(t, out, "\n")
		for _, form := range []string{"%s\n", "- x: %s\n", "| a | b |\n|---|---|\n| x | %s |\n"} {
			var html strings.Builder
			require.NoError(t, render.Convert([]byte(strings.Replace(form, "%s", out, 1)), &html))
			for _, e := range element.FindAllString(html.String(), -1) {
				require.True(t, allowed[e], "%q: %s", out, html.String())
			}
			if strings.HasPrefix(form, "|") {
				require.Equal(t, 2, strings.Count(html.String(), "<td>"), "%q: %s", out, html.String())
			}
			if form == "%s\n" {
				require.NotContains(t, html.String(), "<li>", out)
			}
		}
	})
}
