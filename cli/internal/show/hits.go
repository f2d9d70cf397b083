package show

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"crowsnest/matcher"
	"crowsnest/redact"
)

// Hits writes one line or JSON object for each rule that matches a log line. It merges consecutive hits with the same
// line and rule. If a step of the rule and its clear or unless match the same line, the hit of the step is written.
type Hits struct {
	W              *bufio.Writer
	Form           string           // output format: text, json or jsonl
	WithClearLines bool             // whether to write lines that match only clear or unless
	Redact         *redact.Redactor // nil if nothing is redacted

	file  string
	line  int64
	group []matcher.Hit // pending hits of the newest line, one for each rule
	err   error
	count int
}

// Add adds the hits of a file in the order of the lines. It does not keep the text of the hits after it returns.
func (h *Hits) Add(file string, hits []matcher.Hit) {
	for i := range hits {
		h.add(file, &hits[i])
	}
	for i := range h.group {
		hit := &h.group[i]
		hit.Line, hit.Values = strings.Clone(hit.Line), slices.Clone(hit.Values)
		for k, v := range hit.Values {
			hit.Values[k] = strings.Clone(v)
		}
	}
}

func (h *Hits) add(file string, hit *matcher.Hit) {
	if len(h.group) > 0 && (file != h.file || hit.LineNumber != h.line || hit.ID != h.group[0].ID) {
		h.flush()
	}
	h.file, h.line = file, hit.LineNumber
	i := slices.IndexFunc(h.group, func(o matcher.Hit) bool { return o.Rule == hit.Rule })
	switch {
	case i < 0:
		h.group = append(h.group, *hit)
	case h.group[i].Part < 0 && hit.Part >= 0:
		h.group[i] = *hit
	}
}

// Flush writes all pending hits. It must be called before a wait for further lines that may take long.
func (h *Hits) Flush() {
	if h.flush(); h.err == nil {
		h.err = h.W.Flush()
	}
}

func (h *Hits) flush() {
	var shown redact.Text // redacted text of the line, which all hits share
	done := false
	for i := range h.group {
		hit := &h.group[i]
		if h.err != nil || !h.WithClearLines && hit.Part < 0 {
			continue
		}
		if !done {
			done, shown = true, h.Redact.Text(hit.Line)
		}
		h.err = h.write(hit, shown)
	}
	h.group = h.group[:0]
}

func (h *Hits) write(hit *matcher.Hit, shown redact.Text) error {
	h.count++
	if h.Form == "text" {
		_, err := fmt.Fprintf(h.W, "%s:%d: %s %s: %s\n", h.file, hit.LineNumber, hit.Rule.Alert, hit.Part.Name(hit.Rule), redact.Sanitise(shown))
		return err
	}
	out := hitLine{
		Rule: hit.Rule.Alert, Part: hit.Part.Name(hit.Rule), File: h.file, LineNumber: hit.LineNumber,
		Labels: hit.Labels, Vars: map[string]redact.Text{}, Line: shown,
	}
	if !hit.Untimed {
		at := hit.Time.UTC()
		out.Time = &at
	}
	for i, name := range hit.Rule.CapturedNames {
		if i < len(hit.Values) && hit.Values[i] != "" {
			out.Vars[name] = h.Redact.Part(hit.Line, shown, hit.Values[i])
		}
	}
	separator := ""
	switch {
	case h.Form != "json":
	case h.count == 1:
		separator = "[\n"
	default:
		separator = ","
	}
	if _, err := h.W.WriteString(separator); err != nil {
		return err
	}
	if err := JSON(h.W, out, false); err != nil {
		return fmt.Errorf("write line %d of %s: %w", hit.LineNumber, h.file, err)
	}
	return nil
}

// hitLine is the JSON form of a matched line. Time is absent if the line states none.
type hitLine struct {
	Rule       string                 `json:"rule"`
	Part       string                 `json:"part"`
	File       string                 `json:"file"`
	LineNumber int64                  `json:"line_number"`
	Time       *time.Time             `json:"time,omitempty"`
	Labels     matcher.Labels         `json:"labels"`
	Vars       map[string]redact.Text `json:"vars"`
	Line       redact.Text            `json:"line"`
}

// Err returns the first error from writing.
func (h *Hits) Err() error { return h.err }

// Finish writes the pending hits and returns the first error from writing.
func (h *Hits) Finish() error {
	h.flush()
	if h.err != nil || h.Form != "json" {
		return h.err
	}
	end := "]\n"
	if h.count == 0 {
		end = "[]\n"
	}
	_, err := io.WriteString(h.W, end)
	return err
}

// JSON writes a value as JSON with a newline at the end.
func JSON(w io.Writer, v any, pretty bool) error {
	if pretty {
		return writeIndented(w, v, "")
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// writeIndented writes a value as indented JSON. All lines after the first begin with prefix.
func writeIndented(w io.Writer, v any, prefix string) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent(prefix, "  ")
	return e.Encode(v)
}
