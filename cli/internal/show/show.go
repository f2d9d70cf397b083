// Package show writes alerts, findings and lists as text or JSON. The text of an alert is for a
// person who was just paged: what failed, how severe it is, where, since when, the line, and
// what to do.
package show

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/text"
	"crowsnest/lab/scan"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/unknown/sentinel"
)

// Style controls the output format of alerts.
type Style struct {
	Color bool
	// Brief omits the line and the steps.
	Brief bool
	// Prefix is written before the first line of an alert.
	Prefix string
}

// Escape sequences for colors in a terminal.
const (
	bold   = "\x1b[1m"
	dim    = "\x1b[2m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	blue   = "\x1b[34m"
	reset  = "\x1b[0m"
)

func (s Style) paint(color, text string) string {
	if !s.Color || text == "" {
		return text
	}
	return color + text + reset
}

const width = 11

// WriteAlert prints one alert as a block of lines, without an empty line after it.
func WriteAlert(w io.Writer, e episodes.Episode, s Style) error {
	return writeReplayAlert(w, replay.Alert{Episode: e}, s)
}

func writeReplayAlert(w io.Writer, a replay.Alert, s Style) error {
	e := a.Episode
	var b strings.Builder
	state, doubt := strings.ToUpper(string(e.ShownState())), ""
	if e.OnHold && e.State != episodes.StateResolved {
		state += " (on hold)"
	}
	if a.Assumes != "" {
		doubt = ", if it goes on"
	}
	fmt.Fprintf(&b, "%s%s %s %s%s\n", s.Prefix, s.paint(stateColor(e), state), s.paint(severityColor(severityText(e)), severityText(e)), s.paint(bold, e.Alert), doubt)
	if text := e.Annotations["summary"]; text != "" {
		fmt.Fprintf(&b, "  %s\n", oneLine(text))
	}
	field := s.fieldWriter(&b)
	field("assumes", oneLine(a.Assumes))
	field("where", DistinguishingLabels(e.Labels))
	field("since", sinceText(e))
	field("also", strings.Join(a.OtherRules, ", "))
	if c := e.Cause; c != nil {
		field("symptom of", oneLine(c.Alert+" "+DistinguishingLabels(c.Labels)+", since "+formatTime(c.StartsAt)))
	}
	if s.Brief {
		_, err := io.WriteString(w, b.String())
		return err
	}
	field("line", oneLine(e.Line))
	if e.FirstLine != e.Line {
		field("first line", oneLine(e.FirstLine))
	}
	field("origin", oneLine(e.Annotations["origin"]))
	field("details", e.Annotations["description"])
	field("what to do", e.Annotations["remediation"])
	field("runbook", e.Annotations["runbook_url"])
	field("affected", e.Annotations["affected"])
	if !strings.Contains(e.Annotations["affected"], e.Annotations["fixed_in"]) {
		field("fixed in", e.Annotations["fixed_in"])
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// fieldWriter returns a function that writes the name and the value of a field. The function skips empty values.
func (s Style) fieldWriter(b *strings.Builder) func(name, value string) {
	return func(name, value string) {
		if value != "" {
			fmt.Fprintf(b, "  %s %s\n", s.paint(dim, fmt.Sprintf("%-*s", width, name)), indentLines(value))
		}
	}
}

func severityText(e episodes.Episode) string { return cmp.Or(e.Labels["severity"], "none") }

func stateColor(e episodes.Episode) string {
	switch e.ShownState() {
	case episodes.StateResolved:
		return green
	case episodes.StateUnwatched:
		return yellow
	}
	return red
}

func severityColor(severity string) string {
	return cmp.Or(map[string]string{"critical": red, "warning": yellow}[severity], blue)
}

// DistinguishingLabels formats the labels in which the alerts of one rule can differ.
func DistinguishingLabels(labels map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		switch k {
		case "alertname", "severity", "resolves":
			continue
		}
		v := labels[k]
		if strings.ContainsAny(v, " \t\"=") {
			v = fmt.Sprintf("%q", v)
		}
		parts = append(parts, k+"="+v)
	}
	return strings.Join(parts, " ")
}

func sinceText(e episodes.Episode) string {
	out := formatTime(e.StartsAt)
	if e.StartsAt.IsZero() {
		out = noTime
	}
	// A longer duration would be wrong. It results if the timestamps of lines are not in order, for example because a
	// clock was far ahead.
	if d := e.FiredAt.Sub(e.StartsAt); !e.FiredAt.IsZero() && d >= time.Second && (e.Rule == nil || d <= e.Rule.For+e.Rule.Within+time.Hour) {
		out += fmt.Sprintf(", certain after %s", d.Round(time.Second))
	}
	if e.LastSeen.Sub(e.StartsAt) >= time.Second {
		out += ", last seen " + formatTime(e.LastSeen)
	}
	if !e.EndsAt.IsZero() {
		out += fmt.Sprintf(", ended %s (%s)", formatTime(e.EndsAt), e.Reason)
	}
	switch {
	case e.StoppedLines():
		out += ", last line " + formatTime(e.LastSeen)
	case e.Count > 0:
		out += ", " + text.Plural(e.Count, "line")
	}
	return out
}

// noTime is shown instead of a time if the lines state none.
const noTime = "no time in the log"

func formatTime(t time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return t.UTC().Format(time.RFC3339)
}

// oneLine returns text on one line without control characters. The text may come from a log.
func oneLine[T ~string](s T) string {
	return strings.Join(strings.Fields(redact.Sanitise(string(s))), " ")
}

// indentLines indents all lines after the first to the column of the value.
func indentLines(s string) string {
	return strings.ReplaceAll(sanitiseLines(strings.TrimRight(s, "\n")), "\n", "\n  "+strings.Repeat(" ", width+1))
}

// sanitiseLines removes characters that control a terminal from each line of s.
func sanitiseLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = redact.Sanitise(l)
	}
	return strings.Join(lines, "\n")
}

// scannedAlert is the JSON form of an alert. A time is absent if the lines have no timestamps.
type scannedAlert struct {
	Alert       string            `json:"alert"`
	State       episodes.State    `json:"state"`
	Reason      episodes.Reason   `json:"reason,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"starts_at,omitzero"`
	FiredAt     time.Time         `json:"fired_at,omitzero"`
	LastSeen    time.Time         `json:"last_seen,omitzero"`
	EndsAt      *time.Time        `json:"ends_at,omitempty"`
	Count       int64             `json:"count"`
	Line        redact.Text       `json:"line"`
	First       redact.Text       `json:"first_line"`
	Fingerprint string            `json:"fingerprint"`
	Cause       *scannedCause     `json:"cause,omitempty"`
	OtherRules  []string          `json:"also,omitempty"`
	Assumes     string            `json:"assumes,omitempty"`
}

type scannedCause struct {
	Alert       string            `json:"alert"`
	Fingerprint string            `json:"fingerprint"`
	Severity    string            `json:"severity,omitempty"`
	Labels      map[string]string `json:"labels"`
	StartsAt    time.Time         `json:"starts_at,omitzero"`
}

func toScanned(a replay.Alert) scannedAlert {
	e := a.Episode
	out := scannedAlert{
		Alert: e.Alert, State: e.State, Reason: e.Reason, Labels: e.Labels, Annotations: e.Annotations,
		StartsAt: e.StartsAt, FiredAt: a.FiredAt, LastSeen: e.LastSeen, Count: e.Count, Line: e.Line, First: e.FirstLine,
		Fingerprint: e.Fingerprint.String(), OtherRules: a.OtherRules, Assumes: a.Assumes,
	}
	if c := e.Cause; c != nil {
		out.Cause = &scannedCause{Alert: c.Alert, Fingerprint: c.Fingerprint.String(), Severity: c.Severity, Labels: c.Labels, StartsAt: c.StartsAt}
	}
	if !e.EndsAt.IsZero() {
		out.EndsAt = &e.EndsAt
	}
	return out
}

// AlertLine writes an alert as one line of JSON. The key kind distinguishes alerts from the findings and unknown
// failures that WriteLines also writes.
func AlertLine(w io.Writer, a replay.Alert) error {
	return JSON(w, struct {
		scannedAlert
		Kind string `json:"kind"`
	}{toScanned(a), "alert"}, false)
}

// WriteLines writes each alert, finding and unknown failure of a scan as one line of JSON.
func WriteLines(w io.Writer, r scan.Result) error {
	for _, a := range r.Alerts {
		if err := AlertLine(w, a); err != nil {
			return err
		}
	}
	for _, f := range r.Findings {
		if err := JSON(w, struct {
			foundFailure
			Kind string `json:"kind"`
		}{toFoundFailure(f), "finding"}, false); err != nil {
			return err
		}
	}
	for _, u := range r.Unknown {
		if err := JSON(w, struct {
			sentinel.UnknownFailure
			Kind string `json:"kind"`
		}{u, "unknown"}, false); err != nil {
			return err
		}
	}
	return nil
}

// ScanOutput is the result of a scan.
type ScanOutput struct {
	scan.Result
	All     bool // whether to list all findings
	Files   any  // description of how each input was read, as a list for JSON
	NotSeen any  // parts of a cluster that were not read, as a list for JSON; nil if no cluster was read
}

// WriteAlerts writes the result of a scan. form is text, json or jsonl.
func WriteAlerts(w io.Writer, form string, style Style, r ScanOutput) error {
	switch form {
	case "json":
		all := make([]scannedAlert, len(r.Alerts))
		for i, a := range r.Alerts {
			all[i] = toScanned(a)
		}
		list := []member{{"alerts", all}, {"findings", FindingsJSON(r.Findings)}, {"files", r.Files}, {"unknown", r.Unknown}}
		if r.NotSeen != nil {
			list = append(list, member{"not_seen", r.NotSeen})
		}
		return writeMembers(w, list)
	case "jsonl":
		return WriteLines(w, r.Result)
	}
	for i, a := range r.Alerts {
		if i > 0 {
			if _, err := io.WriteString(w, "\n"); err != nil {
				return err
			}
		}
		if err := writeReplayAlert(w, a, style); err != nil {
			return err
		}
	}
	if err := WriteFindings(w, r.Findings, r.All, len(r.Alerts) > 0, style); err != nil {
		return err
	}
	return WriteUnknown(w, r.Unknown, len(r.Alerts)+len(r.Findings) > 0)
}

// member is a member of a JSON object. Its value is a list.
type member struct {
	name string
	list any // any slice
}

// writeMembers writes a JSON object. It encodes the elements of each list one by one, because encoding a list of
// 200,000 files at once would double the memory.
func writeMembers(w io.Writer, all []member) error {
	var buf bytes.Buffer
	write := func(text string) error {
		_, err := io.WriteString(w, text)
		return err
	}
	separator := "{"
	for _, m := range all {
		begin := separator + "\n  \"" + m.name + "\": "
		separator = ","
		list := reflect.ValueOf(m.list)
		if !list.IsValid() || list.Len() == 0 {
			empty := "[]"
			if !list.IsValid() || list.IsNil() {
				empty = "null"
			}
			if err := write(begin + empty); err != nil {
				return err
			}
			continue
		}
		begin += "["
		for k := range list.Len() {
			buf.Reset()
			if err := writeIndented(&buf, list.Index(k).Interface(), "    "); err != nil {
				return err
			}
			if err := write(begin + "\n    " + strings.TrimRight(buf.String(), "\n")); err != nil {
				return err
			}
			begin = ","
		}
		if err := write("\n  ]"); err != nil {
			return err
		}
	}
	return write("\n}\n")
}
