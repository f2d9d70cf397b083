package hostile

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"crowsnest/test/fakeam"
)

// markupRules use the text in every possible way.
const markupRules = `pack: {name: markup, version: "1.0.0", rules: 2}
defaults: {severity: critical}
rules:
- alert: TextInTexts
  from: '{container="markup"}'
  match: {regex: 'text n=(?P<n>\d+) (?P<rest>[^\n]*)'}
  by: [n]
  limit: 500
  keep_firing_for: 1h
  annotations:
    summary: "{{ $vars.rest }}"
    description: "first {{ $vars.rest }} then {{ $line }}"
    logs_url: "https://logs.example.org/"
  remediation: {summary: "see {{ $vars.rest }}", runbook_url: "https://runbooks.example.org/x", steps: ["kubectl get {{ $vars.rest }}"]}
- alert: TextInLabels
  from: '{container="markup"}'
  match: {regex: 'label n=\d+ (?P<text>[^\n]{1,80})'}
  by: [text, namespace, pod]
  limit: 500
  keep_firing_for: 1h
  labels: {copy: "{{ $labels.text }}"}
`

func markup(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile("testdata/markup.txt")
	require.NoError(t, err)
	hex := regexp.MustCompile(`‹([0-9a-f]+)›`)
	var out []string
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSuffix(line, "\n"); line == "" || strings.HasPrefix(line, "# ") {
			continue
		}
		line = hex.ReplaceAllStringFunc(line, func(s string) string {
			n, err := strconv.ParseUint(strings.Trim(s, "‹›"), 16, 32)
			require.NoError(t, err)
			return string(rune(n))
		})
		out = append(out, strings.ReplaceAll(line, "␛", "\x1b"))
	}
	require.Greater(t, len(out), 60)
	return out
}

// TestMarkupIsText: text that would act as markup in a browser, a chat, a
// terminal or a template is shown as text on every page and in every alert.
func TestMarkupIsText(t *testing.T) {
	d := newVictim(t, false, map[string]string{"markup.yaml": markupRules})
	all := markup(t)
	c := d.container("tenant-a", "app-0", "markup", time.Minute)
	lines := 0
	for i, text := range all {
		c.Write("stdout", fmt.Sprintf("text n=%d %s", i, text))
		c.Write("stdout", fmt.Sprintf("label n=%d %s", i, text))
		lines += 2
	}
	require.NoError(t, c.Err)
	named := d.container(`<b>ns`, `"><img src=x onerror=alert(1)>`, "markup", time.Minute) // a kubelet never creates such names
	named.Write("stdout", "label n=0 from a pod with a hostile name")
	require.NoError(t, named.Err)
	d.start()
	d.hasRead(lines + 1)
	d.eventually("the alerts arrive", func() bool {
		got := notified(d.am)
		return got["TextInTexts"] == len(all) && got["TextInLabels"] >= len(all)*9/10
	})
	for name := range d.am.All() {
		require.Contains(t, []string{"TextInTexts", "TextInLabels", "CrowsnestHeartbeat", "CrowsnestWatchdog"}, name)
	}
	for _, name := range []string{"TextInTexts", "TextInLabels"} {
		for _, w := range d.am.Accepted(name) {
			requireTame(t, w.Alert)
		}
	}
	d.pagesAreText(all)
	d.answersAreData(all)
	for _, args := range [][]string{
		{"get", "alerts", "--url", "http://" + d.Addr},
		{"get", "episodes", "--url", "http://" + d.Addr},
		{"get", "sources", "--url", "http://" + d.Addr},
		{"scan", "--rules", d.Dir + "/markup.yaml", c.Path()},
		{"scan", "--hits", "--rules", d.Dir + "/markup.yaml", c.Path()},
		{"explain", "--rules", d.Dir + "/markup.yaml", "--line", "text n=1 " + strings.Join(all[len(all)-14:], " ")},
	} {
		requirePrintable(t, fmt.Sprint(args), d.command("", args...))
	}
	d.stop()
	requirePrintable(t, "log", d.Log())
}

var (
	chat = regexp.MustCompile(`(?i)<[!@#]|<[a-z][a-z0-9+.-]*:|@(everyone|channel|here|all)\b`)
	link = regexp.MustCompile(`^https://crowsnest\.example\.org/base/episodes/[0-9a-f]{16}$`)
)

// requireTame checks that an alert contains no mention and no link.
func requireTame(t *testing.T, a fakeam.Alert) {
	t.Helper()
	require.Regexp(t, link, a.GeneratorURL)
	for kind, texts := range map[string]map[string]string{"label": a.Labels, "annotation": a.Annotations} {
		for name, text := range texts {
			require.NotRegexp(t, chat, text, "%s %s", kind, name)
			requirePrintable(t, kind+" "+name, text)
		}
	}
	for _, name := range []string{"line", "first_line"} {
		require.NotContains(t, a.Annotations[name], "`")
		require.NotContains(t, a.Annotations[name], "](")
	}
	if a.Labels["alertname"] == "TextInTexts" {
		require.Equal(t, "https://logs.example.org/", a.Annotations["logs_url"])
		require.Equal(t, "https://runbooks.example.org/x", a.Annotations["runbook_url"])
	}
	if strings.Contains(a.Annotations["summary"], "{{") {
		return
	}
	require.NotContains(t, a.Annotations["summary"], "app-0", "a template in a line was executed")
}

// requirePrintable checks that a terminal shows a text unchanged.
func requirePrintable(t *testing.T, where, text string) {
	t.Helper()
	for i, r := range text {
		bad := unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) || unicode.Is(unicode.Cf, r) || r == unicode.ReplacementChar && !strings.Contains(where, "label")
		require.False(t, bad, "%s: %U in %.200q", where, r, text[max(0, i-60):])
	}
}

// pagesAreText parses every page as a browser does.
func (d *victim) pagesAreText(all []string) {
	t := d.t
	t.Helper()
	paths := []string{"/", "/rules", "/rules/TextInTexts", "/runbooks/TextInTexts", "/scan?rule=TextInTexts", "/unknown", "/sources", "/status"}
	var list struct {
		Data struct {
			Episodes []struct{ Fingerprint string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(d.page("/api/v1/episodes")), &list))
	require.Greater(t, len(list.Data.Episodes), 2*len(all)*9/10)
	for _, e := range list.Data.Episodes {
		paths = append(paths, "/episodes/"+e.Fingerprint)
	}
	for _, text := range all {
		q := url.QueryEscape(text)
		paths = append(paths, "/?filter="+q, "/"+url.PathEscape(text), "/rules/"+url.PathEscape(text), "/episodes/"+url.PathEscape(text), "/?state="+q)
	}
	for _, path := range paths {
		_, head, body, err := d.get(path)
		require.NoError(t, err, path)
		require.Contains(t, head.Get("Content-Security-Policy"), "default-src 'self'", path)
		require.Equal(t, "nosniff", head.Get("X-Content-Type-Options"), path)
		if strings.HasPrefix(head.Get("Content-Type"), "text/html") {
			requireOwnMarkup(t, path, body)
		}
	}
}

// ownElements are the elements of the templates.
var ownElements = regexp.MustCompile(`^(html|head|body|meta|title|link|script|header|nav|main|footer|form|label|input|textarea|datalist|option|button|article|section|details|summary|dialog|kbd|h[1-3]|p|a|span|code|pre|time|small|strong|mark|b|i|em|dl|dt|dd|ol|ul|li|div|table|thead|tbody|th|td|tr|br|svg|symbol|use|path|circle|rect|line|text)$`)

// requireOwnMarkup checks that a page contains only the markup of its template:
// no element and no attribute comes from a log.
func requireOwnMarkup(t *testing.T, path, body string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(body))
	require.NoError(t, err)
	for n := range root.Descendants() {
		require.NotEqual(t, html.CommentNode, n.Type, "%s: %s", path, n.Data)
		if n.Type != html.ElementNode {
			continue
		}
		require.Regexp(t, ownElements, n.Data, path)
		attr := map[string]string{}
		for _, a := range n.Attr {
			require.NotRegexp(t, `^(on.*|style|srcdoc|formaction|http-equiv|autofocus)$`, a.Key, "%s: %s", path, n.Data)
			attr[a.Key] = a.Val
		}
		switch n.Data {
		case "script":
			require.Regexp(t, `^/static/(?:console|scan)\.js\?v=[0-9a-f]{16}$`, attr["src"], path)
			require.Nil(t, n.FirstChild, path)
		case "b": // the corpus contains it, too
			require.NotContains(t, []string{"pre", "code"}, n.Parent.Data, path)
		case "use":
			require.Regexp(t, `^#i-(critical|warning|info|none)$`, attr["href"], path)

		case "link":
			require.True(t, strings.HasPrefix(attr["href"], "/static/"), path)
		case "form":
			require.Contains(t, []string{"/", "/rules", "/sources", "/scan", ""}, attr["action"], path)
			require.Equal(t, map[string]string{"": "dialog", "/scan": "post"}[attr["action"]], strings.TrimPrefix(attr["method"], "get"), path)
		case "a":
			u, err := url.Parse(attr["href"])
			require.NoError(t, err, path)
			own := u.Scheme == "" && u.Host == "" && (strings.HasPrefix(u.Path, "/") || attr["href"] == "#main")
			silence := u.Hostname() == "127.0.0.1" && strings.HasPrefix(u.Fragment, "/silences/new?filter={")
			require.True(t, own || silence || u.Scheme == "https" && strings.HasSuffix(u.Host, ".example.org"), "%s links to %s", path, attr["href"])
		}
	}
}

// answersAreData checks that no response other than a page is treated as one.
func (d *victim) answersAreData(all []string) {
	t := d.t
	t.Helper()
	for _, path := range []string{"/api/v1/alerts", "/api/v1/episodes", "/api/v1/sources", "/api/v1/rules", "/api/v1/" + url.PathEscape(all[0])} {
		_, head, body, err := d.get(path)
		require.NoError(t, err)
		require.Equal(t, "application/json; charset=utf-8", head.Get("Content-Type"), path)
		require.True(t, json.Valid([]byte(body)), path)
		require.NotContains(t, body, "<", path)
	}
	_, _, body, err := d.get("/metrics")
	require.NoError(t, err)
	require.NotContains(t, body, "faked")
	require.NotContains(t, body, "evil")
	require.NotContains(t, body, "tenant-a", "no label of a metric comes from a log")
}
