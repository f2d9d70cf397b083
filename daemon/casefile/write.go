package casefile

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"net/url"
	"strings"
	"sync"
	texttemplate "text/template"
	"time"

	"github.com/invopop/jsonschema"

	"crowsnest/redact"
	"crowsnest/redact/markdown"
)

//go:embed case.html
var page string

//go:embed case.md
var document string

// functions contains the functions that both templates use. Templates are parsed when they are first used.
var functions = map[string]any{
	"stamp": formatStamp, "since": formatSince, "link": httpLink, "count": formatCount, "place": entryPlace,
	"severity": severityClass,
}

var pageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("case").Funcs(functions).Parse(page))
})

var documentTemplate = sync.OnceValue(func() *texttemplate.Template {
	return texttemplate.Must(texttemplate.New("case").Funcs(functions).Funcs(texttemplate.FuncMap{
		"inert":  func(text any) string { return markdown.EscapeLine(fmt.Sprint(text)) },
		"link":   func(s string) string { return strings.NewReplacer("<", "%3C", ">", "%3E").Replace(httpLink(s)) },
		"join":   strings.Join,
		"fenced": fencedBlock,
		"item":   func(s redact.Text) string { return "  " + strings.ReplaceAll(fencedBlock(string(s)), "\n", "\n  ") },
		"number": func(i int) int { return i + 1 },
	}).Parse(document))
})

// HTML writes the case as a single page, which loads no scripts, fonts or images.
func (c *Case) HTML(w io.Writer) error { return pageTemplate().Execute(w, c) }

// Markdown writes the case for tickets and pull requests. Text from logs or rules is escaped,
// so that it does not act as markup.
func (c *Case) Markdown(w io.Writer) error { return documentTemplate().Execute(w, c) }

// fencedBlock returns lines as a code block without a newline at the end.
func fencedBlock(lines string) string { return strings.TrimSuffix(markdown.Block(lines+"\n"), "\n") }

// JSON writes the case in the JSON form, which Schema describes.
func (c *Case) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(c)
}

// Schema returns the JSON Schema (draft 2020-12) of the JSON form, indented.
func Schema() ([]byte, error) {
	s := (&jsonschema.Reflector{Anonymous: true, ExpandedStruct: true}).Reflect(&Case{})
	s.ID, s.Title, s.Description = "urn:crowsnest:schema:case", "crowsnest case", "A case file: what failed, where, since when, what to do, and what could not be seen."
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("make the schema: %w", err)
	}
	return append(out, '\n'), nil
}

func formatStamp(stamp any) string {
	switch at := stamp.(type) {
	case time.Time:
		return formatTime(at)
	case *time.Time:
		return formatTime(*at)
	}
	return ""
}

// httpLink returns s if it is an http or https address, and "" otherwise.
func httpLink(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	return u.String()
}

func entryPlace(e Entry) string {
	switch {
	case e.Log == "":
		return e.Source
	case e.Source == "" || e.Source == sourceFiles:
		return e.Log
	}
	return e.Source + " " + e.Log
}

func severityClass(s string) string {
	switch s {
	case "critical", "warning", "info":
		return s
	}
	return "other"
}
