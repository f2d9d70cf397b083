package show

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"crowsnest/matcher"
	"crowsnest/redact"
)

// hitLine is one matched line in machine output.
type hitLine struct {
	Rule       string            `json:"rule"`
	Part       string            `json:"part"`
	File       string            `json:"file"`
	LineNumber int64             `json:"line_number"`
	Time       time.Time         `json:"time"`
	Labels     map[string]string `json:"labels"`
	Vars       map[string]string `json:"vars"`
	Line       string            `json:"line"`
}

// Hits writes one line or object per rule and line. It merges the consecutive hits of
// a line and rule: a step takes precedence over clear and unless.
type Hits struct {
	W      *bufio.Writer
	Form   string           // text, json or jsonl
	Asides bool             // write lines that match only clear or unless too
	Redact *redact.Redactor // nil: no redaction

	file  string
	line  int64
	group []matcher.Hit // one per rule, of one line
	err   error
	count int
}

// Add adds a hit of a file. It is called in order of the lines.
func (h *Hits) Add(file string, hit matcher.Hit) {
	if len(h.group) > 0 && (file != h.file || hit.LineNumber != h.line || hit.ID != h.group[0].ID) {
		h.flush()
	}
	h.file, h.line = file, hit.LineNumber
	i := slices.IndexFunc(h.group, func(o matcher.Hit) bool { return o.Rule == hit.Rule })
	switch {
	case i < 0:
		h.group = append(h.group, hit)
	case h.group[i].Part < 0 && hit.Part >= 0:
		h.group[i] = hit
	}
}

// Flush writes all pending hits, because the next line may take long to arrive.
func (h *Hits) Flush() {
	if h.flush(); h.err == nil {
		h.err = h.W.Flush()
	}
}

func (h *Hits) flush() {
	shown, done := "", false // the line, which all hits share
	for _, hit := range h.group {
		if h.err != nil || !h.Asides && hit.Part < 0 {
			continue
		}
		if !done {
			done, shown = true, hit.Line
			if h.Redact != nil {
				shown = h.Redact.String(hit.Line)
			}
		}
		h.err = h.write(hit, shown)
	}
	h.group = h.group[:0]
}

func (h *Hits) write(hit matcher.Hit, shown string) error {
	line := hitLine{
		Rule: hit.Rule.Alert, Part: hit.Part.Name(hit.Rule), File: h.file, LineNumber: hit.LineNumber,
		Time: hit.Time.UTC(), Labels: hit.Labels, Vars: map[string]string{}, Line: shown,
	}
	for i, name := range hit.Rule.CapturedNames {
		if i < len(hit.Values) && hit.Values[i] != "" {
			line.Vars[name] = hit.Values[i]
		}
	}
	if h.Redact != nil {
		for name, v := range line.Vars {
			line.Vars[name] = h.Redact.Part(hit.Line, line.Line, v)
		}
	}
	h.count++
	switch h.Form {
	case "text":
		_, err := fmt.Fprintf(h.W, "%s:%d: %s %s: %s\n", line.File, line.LineNumber, line.Rule, line.Part, redact.Sanitise(line.Line))
		return err
	case "json":
		separator := ","
		if h.count == 1 {
			separator = "[\n"
		}
		if _, err := io.WriteString(h.W, separator); err != nil {
			return err
		}
	}
	return JSON(h.W, line, false)
}

// Err returns the first error of writing.
func (h *Hits) Err() error { return h.err }

// Finish writes the rest and returns the first error.
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

// JSON writes a value as JSON with a trailing newline.
func JSON(w io.Writer, v any, pretty bool) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if pretty {
		e.SetIndent("", "  ")
	}
	return e.Encode(v)
}
