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

// pageTemplate returns the template of the page. It is parsed when the first page is written.
var pageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("case").Funcs(template.FuncMap{
		"stamp": formatStamp, "since": formatSince, "link": httpLink, "count": formatCount, "place": entryPlace, "severity": severityClass,
	}).Parse(page))
})

// HTML writes the case as one page. The page loads no scripts, fonts or pictures.
func (c *Case) HTML(w io.Writer) error { return pageTemplate().Execute(w, c) }

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

// httpLink returns s if it is an address that a link may open, and "" otherwise.
func httpLink(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	return u.String()
}

// entryPlace returns a name of the place where a line was written.
func entryPlace(e Entry) string {
	switch {
	case e.Log == "":
		return e.Source
	case e.Source == "" || e.Source == sourceFiles:
		return e.Log
	}
	return e.Source + " " + e.Log
}

// severityClass returns the CSS class for a severity.
func severityClass(s string) string {
	switch s {
	case "critical", "warning", "info":
		return s
	}
	return "other"
}

// writer builds Markdown.
type writer struct{ strings.Builder }

func (w *writer) f(format string, args ...any) { fmt.Fprintf(w, format, args...) }

// Markdown writes the case for tickets and pull requests. Text from logs or rules is escaped,
// so that it does not act as markup.
func (c *Case) Markdown(out io.Writer) error {
	in := markdown.Inert
	w := &writer{}
	w.f("# %s\n\n%s. Secrets are redacted. Made %s by crowsnest %s.\n", in(c.Title()), in(c.Covers()), formatTime(c.MadeAt), in(c.MadeBy))
	if len(c.Failures) == 0 {
		w.f("\nNo alert would have fired. That is no proof that nothing failed: see [what could not be seen](#what-could-not-be-seen).\n")
	}
	c.writeOverview(w)
	for _, f := range c.Failures {
		if f.Subject {
			c.writeFailure(w, f)
		}
	}
	if c.Related() > 0 {
		w.f("\n## Also open there at the time\n")
		for _, f := range c.Failures {
			if !f.Subject {
				c.writeFailure(w, f)
			}
		}
	}
	c.writeFindings(w)
	c.writeUnknown(w)
	c.writeChains(w)
	c.writeTimeline(w)
	c.writeUnseen(w)
	c.writeRead(w)
	_, err := io.WriteString(out, w.String())
	return err
}

// writeOverview lists the failures, if there are several.
func (c *Case) writeOverview(w *writer) {
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
		w.f("| %d | %s | %s | %s | %s | %s |\n", f.ID, in(f.Alert), in(string(f.State)), in(f.Severity), in(strings.Join(where, " ")), formatTime(f.Since))
	}
}

func (c *Case) writeFailure(w *writer, f Failure) {
	in := markdown.Inert
	w.f("\n## %d. %s\n\n", f.ID, in(f.Alert))
	if f.Summary != "" {
		w.f("**%s**\n\n", in(f.Summary))
	}
	if f.Description != "" {
		w.f("%s\n\n", in(safeLine(f.Description)))
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
		w.f("\nWhat to do:\n\n%s", markdown.Block(f.Remediation+"\n"))
	}
	if l := httpLink(f.Runbook); l != "" {
		w.f("\nRunbook: <%s>\n", strings.NewReplacer("<", "%3C", ">", "%3E").Replace(l))
	}
	w.f("\n%s", formatCount(f.Count, "matching line"))
	if f.Log != "" {
		w.f(", log of %s", in(f.Log))
	}
	w.f(".\n")
	if block := exampleLines(f); block != "" {
		w.f("\n%s", markdown.Block(block))
	}
}

func (c *Case) writeFindings(w *writer) {
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
			w.f("\nWhat to do:\n\n%s", markdown.Block(f.Remediation+"\n"))
		}
		if block := exampleLines(f.Failure); block != "" {
			w.f("\n%s", markdown.Block(block))
		}
	}
}

func (c *Case) writeUnknown(w *writer) {
	if len(c.Unknown) == 0 {
		return
	}
	in := markdown.Inert
	w.f("\n## What no rule describes\n\n")
	for _, u := range c.Unknown {
		w.f("- %s: %s (%s, at least %s)\n\n%s", in(u.Where), in(u.Pattern), in(u.Why), formatCount(u.Count, "line"), indentBlock(markdown.Block(string(u.Example+"\n"))))
	}
}

// exampleLines returns the first and the newest line of a failure.
func exampleLines(f Failure) string {
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

func (c *Case) writeChains(w *writer) {
	if len(c.Chains) == 0 {
		return
	}
	in := markdown.Inert
	w.f("\n## Chains\n\nFailures that were open at the same time in the same place. The first may have caused the others; the order alone does not prove it. Where a rule states the cause, it is named.\n")
	for _, chain := range c.Chains {
		w.f("\n")
		for i, id := range chain.Failures {
			f := c.Failure(id)
			w.f("%d. %s, %s (failure %d)", i+1, in(f.Alert), formatSince(f.Since), id)
			if cause := f.CauseText(); cause != "" {
				w.f("; %s", in(cause))
			}
			w.f("\n")
		}
	}
}

func (c *Case) writeTimeline(w *writer) {
	if len(c.Timeline) == 0 {
		return
	}
	w.f("\n## Timeline\n\n")
	for _, e := range c.Timeline {
		at := c.WithoutTime()
		if e.At != nil {
			at = formatTime(*e.At)
		}
		w.f("- %s %s", at, markdown.Inert(e.Text))
		if p := entryPlace(e); p != "" {
			w.f(" — %s", markdown.Inert(p))
		}
		w.f("\n")
		if e.Line != "" {
			w.f("\n%s\n", indentBlock(markdown.Block(string(e.Line+"\n"))))
		}
	}
}

// indentBlock indents a block so that it belongs to an item of a list.
func indentBlock(block string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(block, "\n"), "\n", "\n  ") + "\n"
}

func (c *Case) writeUnseen(w *writer) {
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

func (c *Case) writeRead(w *writer) {
	if len(c.Evidence.Sources) == 0 {
		return
	}
	w.f("\n## What was read\n\n| source | state | logs | lines | from | until |\n|---|---|---:|---:|---|---|\n")
	for _, s := range c.Evidence.Sources {
		from, until := "", ""
		if s.From != nil {
			from = formatTime(*s.From)
		}
		if s.Until != nil {
			until = formatTime(*s.Until)
		}
		w.f("| %s | %s | %d | %d | %s | %s |\n", markdown.Inert(s.Name), markdown.Inert(s.State), s.Streams, s.Lines, from, until)
	}
}
