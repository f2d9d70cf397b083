package plant

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// Encoding is a way in which a text is embedded in a line.
type Encoding struct {
	Name   string
	encode func(text, key, value string) string
}

// Apply returns a line with the text that [Kind.Fill] returned.
func (e Encoding) Apply(k Kind, text string, secrets []string) string {
	if k.Pair != "" {
		return e.encode(text, k.Pair, secrets[0])
	}
	return e.encode(text, "msg", text)
}

// Encodings returns the ten encodings. A name and its value become a field; any
// other text becomes the value of a field.
func Encodings() []Encoding {
	asJSON := func(k, v string) string {
		b, _ := json.Marshal(map[string]string{"a": "b", k: v, "z": "w"})
		return string(b)
	}
	return []Encoding{
		{"plain", func(text, _, _ string) string { return "E0101 12:00:00.000000       1 main.go:12] " + text }},
		{"json", func(_, k, v string) string { return asJSON(k, v) }},
		{"json-twice", func(_, k, v string) string { return asJSON("msg", "got "+asJSON("body", asJSON(k, v))) }},
		{"go-v", func(_, k, v string) string {
			return fmt.Sprintf("applied %+v %v", struct{ Name, Kind string }{"x", "y"}, map[string]any{"a": 1, k: v})
		}},
		{"go-sharp", func(_, k, v string) string { return fmt.Sprintf("applied %#v", map[string]string{"a": "b", k: v}) }},
		{"logfmt", func(_, k, v string) string {
			return "time=2026-01-01T00:00:00Z level=error " + k + "=" + strconv.Quote(v) + " pod=a"
		}},
		{"yaml", func(_, k, v string) string {
			return `cannot parse "apiVersion: v1\n` + k + ": " + strings.Trim(strconv.Quote(strconv.Quote(v)), `"`) + `\nkind: X\n"`
		}},
		{"url", func(text, k, v string) string {
			if k == "msg" {
				return "GET /api?q=" + url.QueryEscape(text) + " 400"
			}
			return "GET /api?a=b&" + url.QueryEscape(k) + "=" + url.QueryEscape(v) + " 400"
		}},
		{"html", func(_, k, v string) string { return "<pre>" + html.EscapeString(asJSON(k, v)) + "</pre>" }},
		{"base64", func(text, _, _ string) string {
			return "value " + base64.StdEncoding.EncodeToString([]byte("some text\n"+text+"\n")) + " is refused"
		}},
	}
}

var coded = regexp.MustCompile(`[A-Za-z0-9+/_-]{12,}`)

// Forms returns the text and its decoded forms, to find encoded secrets.
func Forms(text string) string {
	all := []string{text}
	if s, err := url.QueryUnescape(text); err == nil {
		all = append(all, s)
	}
	all = append(all, html.UnescapeString(text), unescape(text), unescape(unescape(text)))
	for _, run := range coded.FindAllString(text, -1) {
		run = run[:len(run)/4*4]
		for _, c := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			if b, err := c.DecodeString(run); err == nil {
				all = append(all, string(b))
			}
		}
	}
	return strings.Join(all, "\n\n")
}

// unescape removes one layer of backslashes.
func unescape(s string) string {
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n", `\u0026`, "&", `\u003c`, "<", `\u003e`, ">").Replace(s)
}
