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
	"time"

	"github.com/invopop/jsonschema"

	"crowsnest/redact/markdown"
)

//go:embed case.html
var page string

// pageTemplate parses the page when the first one is written.
var pageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("case").Funcs(template.FuncMap{
		"stamp": stampOf, "since": since, "link": httpLink, "count": count, "place": place, "severity": severityClass,
	}).Parse(page))
})

// HTML writes the case as one page that loads nothing: no script, no font, no picture.
func (c *Case) HTML(w io.Writer) error { return pageTemplate().Execute(w, c) }

// JSON writes the case in the form that Schema describes.
func (c *Case) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(c)
}

// Schema returns the indented JSON Schema, draft 2020-12, of the JSON form.
func Schema() ([]byte, error) {
	s := (&jsonschema.Reflector{Anonymous: true, ExpandedStruct: true}).Reflect(&Case{})
	s.ID, s.Title, s.Description = "urn:crowsnest:schema:case", "crowsnest case", "A case file: what failed, where, since when, what to do, and what could not be seen."
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("make the schema: %w", err)
	}
	return append(out, '\n'), nil
}

// stampOf formats a time, or what points to one.
func stampOf(at any) string {
	switch at := at.(type) {
	case time.Time:
		return stamp(at)
	case *time.Time:
		return stamp(*at)
	}
	return ""
}

// httpLink returns an address that a link may open; "" if s is none.
func httpLink(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	return u.String()
}

// place names where a line came from.
func place(e Entry) string {
	switch {
	case e.Log == "":
		return e.Source
	case e.Source == "" || e.Source == sourceFiles:
		return e.Log
	}
	return e.Source + " " + e.Log
}

// severityClass returns the severity if the page has a color for it.
func severityClass(s string) string {
	switch s {
	case "critical", "warning", "info":
		return s
	}
	return "other"
}

// writer collects Markdown.
type writer struct{ strings.Builder }

func (w *writer) f(format string, args ...any) { fmt.Fprintf(w, format, args...) }

// Markdown writes the case for tickets and pull requests. Nothing in it that came from
// logs or rules acts as markup.
func (c *Case) Markdown(out io.Writer) error {
	in := markdown.Inert
	w := &writer{}
	w.f("# %s\n\n%s. Secrets are redacted. Made %s by crowsnest %s.\n", in(c.Title()), in(c.Covers()), stamp(c.MadeAt), in(c.MadeBy))
	if len(c.Failures) == 0 {
		w.f("\nNo alert would have fired. That is no proof that nothing failed: see [what could not be seen](#what-could-not-be-seen).\n")
	}
	c.overview(w)
	for _, f := range c.Failures {
		if f.Subject {
			c.failure(w, f)
		}
	}
	if c.Related() > 0 {
		w.f("\n## Also open there at the time\n")
		for _, f := range c.Failures {
			if !f.Subject {
				c.failure(w, f)
			}
		}
	}
	c.findings(w)
	c.unknown(w)
	c.chains(w)
	c.timeline(w)
	c.unseen(w)
	c.read(w)
	_, err := io.WriteString(out, w.String())
	return err
}

// overview lists the failures, if there are several.
func (c *Case) overview(w *writer) {
	if len(c.Failures) < 2 {
		return
	}
	in := markdown.Inert
	w.f("\n| | alert | state | severity | where | since |\n|---:|---|---|---|---|---|\n")
	for _, f := range c.Failures {
		var where []string
		for _, p := range f.Where() {
			where = append(where, p.Name+"="+p.Value)
		}
		w.f("| %d | %s | %s | %s | %s | %s |\n", f.ID, in(f.Alert), in(string(f.State)), in(f.Severity), in(strings.Join(where, " ")), stamp(f.Since))
	}
}

func (c *Case) failure(w *writer, f Failure) {
	in := markdown.Inert
	w.f("\n## %d. %s\n\n", f.ID, in(f.Alert))
	if f.Summary != "" {
		w.f("**%s**\n\n", in(f.Summary))
	}
	if f.Description != "" {
		w.f("%s\n\n", in(line(f.Description)))
	}
	w.f("- **State:** %s", in(string(f.State)))
	if f.Severity != "" {
		w.f(", %s", in(f.Severity))
	}
	w.f("\n- **When:** %s%s\n", in(f.When()), f.Newest())
	if waiting := f.Waiting(); waiting != "" {
		w.f("- **Waits:** %s\n", in(waiting))
	}
	if len(c.Failures) > 1 {
		w.f("- **Order:** %s\n", in(c.Began(f)))
	}
	if cause := f.CauseText(); cause != "" {
		w.f("- **Cause:** %s\n", in(cause))
	}
	if len(f.Also) > 0 {
		w.f("- **Also:** %s\n", in(strings.Join(f.Also, ", ")))
	}
	if f.Assumes != "" {
		w.f("- **Assumes:** %s\n", in(f.Assumes))
	}
	for _, p := range f.Where() {
		w.f("- **%s:** %s\n", in(p.Name), in(p.Value))
	}
	w.f("- **Versions:** %s\n", in(f.Versions()))
	w.f("- **Fingerprint:** %s\n", in(f.Fingerprint))
	if f.Remediation != "" {
		w.f("\nWhat to do:\n\n%s", markdown.Block("", f.Remediation+"\n"))
	}
	if l := httpLink(f.Runbook); l != "" {
		w.f("\nRunbook: <%s>\n", strings.NewReplacer("<", "%3C", ">", "%3E").Replace(l))
	}
	w.f("\n%s", count(f.Count, "matching line"))
	if f.Log != "" {
		w.f(", log of %s", in(f.Log))
	}
	w.f(".\n")
	if block := examples(f); block != "" {
		w.f("\n%s", markdown.Block("", block))
	}
}

func (c *Case) findings(w *writer) {
	if len(c.Findings) == 0 {
		return
	}
	in := markdown.Inert
	w.f("\n## Described but not certain\n\nRules match lines of the log, and an alert needs more.\n")
	for _, f := range c.Findings {
		w.f("\n### %s\n\n", in(f.Alert))
		if f.Summary != "" && f.EndsAt == nil {
			w.f("The alert would say: %s\n\n", in(f.Summary))
		}
		missing := "Missing"
		if f.EndsAt != nil {
			missing = "Over"
		}
		w.f("- **%s:** %s\n- **When:** %s%s\n", missing, in(f.Missing), in(f.When()), f.Newest())
		for _, p := range f.Where() {
			w.f("- **%s:** %s\n", in(p.Name), in(p.Value))
		}
		for _, place := range f.Others {
			w.f("- **Also where:** %s\n", in(place))
		}
		if f.Further > 0 {
			w.f("- and %d more\n", f.Further)
		}
		if len(f.Also) > 0 {
			w.f("- **Also:** %s\n", in(strings.Join(f.Also, ", ")))
		}
		if f.Remediation != "" && f.EndsAt == nil {
			w.f("\nWhat to do:\n\n%s", markdown.Block("", f.Remediation+"\n"))
		}
		if block := examples(f.Failure); block != "" {
			w.f("\n%s", markdown.Block("", block))
		}
	}
}

func (c *Case) unknown(w *writer) {
	if len(c.Unknown) == 0 {
		return
	}
	in := markdown.Inert
	w.f("\n## What no rule describes\n\n")
	for _, u := range c.Unknown {
		w.f("- %s: %s (%s, at least %s)\n\n%s", in(u.Where), in(u.Pattern), in(u.Why), count(u.Count, "line"), indent(markdown.Block("", string(u.Example+"\n"))))
	}
}

// examples returns the first and the newest line.
func examples(f Failure) string {
	switch {
	case f.FirstLine == "" && f.Line == "":
		return ""
	case f.FirstLine == "" || f.FirstLine == f.Line:
		return string(f.Line + "\n")
	case f.Line == "":
		return string(f.FirstLine + "\n")
	}
	return string(f.FirstLine + "\n" + f.Line + "\n")
}

func (c *Case) chains(w *writer) {
	if len(c.Chains) == 0 {
		return
	}
	in := markdown.Inert
	w.f("\n## Chains\n\nFailures that were open at the same time in the same place. The first may have caused the others; the order alone does not prove it. Where a rule states the cause, it is named.\n")
	for _, chain := range c.Chains {
		w.f("\n")
		for i, id := range chain.Failures {
			f := c.Failure(id)
			w.f("%d. %s, %s (failure %d)", i+1, in(f.Alert), since(f.Since), id)
			if cause := f.CauseText(); cause != "" {
				w.f("; %s", in(cause))
			}
			w.f("\n")
		}
	}
}

func (c *Case) timeline(w *writer) {
	if len(c.Timeline) == 0 {
		return
	}
	w.f("\n## Timeline\n\n")
	for _, e := range c.Timeline {
		at := c.WithoutTime()
		if e.At != nil {
			at = stamp(*e.At)
		}
		w.f("- %s %s", at, markdown.Inert(e.Text))
		if p := place(e); p != "" {
			w.f(" — %s", markdown.Inert(p))
		}
		w.f("\n")
		if e.Line != "" {
			w.f("\n%s\n", indent(markdown.Block("", string(e.Line+"\n"))))
		}
	}
}

// indent makes a block part of the item of a list.
func indent(block string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(block, "\n"), "\n", "\n  ") + "\n"
}

func (c *Case) unseen(w *writer) {
	w.f("\n## What could not be seen\n\n")
	if len(c.NotSeen) == 0 {
		w.f("Nothing is known to be missing.\n")
	}
	for _, g := range c.NotSeen {
		w.f("- %s\n", markdown.Inert(g.Text))
		for _, item := range g.Items {
			w.f("  - %s\n", markdown.Inert(item))
		}
		if rest := g.Rest(); rest != "" {
			w.f("  - %s\n", rest)
		}
	}
}

func (c *Case) read(w *writer) {
	if len(c.Evidence.Sources) == 0 {
		return
	}
	w.f("\n## What was read\n\n| source | state | logs | lines | from | until |\n|---|---|---:|---:|---|---|\n")
	for _, s := range c.Evidence.Sources {
		from, until := "", ""
		if s.From != nil {
			from = stamp(*s.From)
		}
		if s.Until != nil {
			until = stamp(*s.Until)
		}
		w.f("| %s | %s | %d | %d | %s | %s |\n", markdown.Inert(s.Name), markdown.Inert(s.State), s.Streams, s.Lines, from, until)
	}
}
