// Package show writes alerts, findings and lists as text or JSON. The text of an alert is for a
// person who was just paged: what failed, how severe it is, where, since when, the line, and
// what to do.
package show

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/text"
	"crowsnest/redact"
	"crowsnest/replay"
)

// Style controls the format.
type Style struct {
	Color bool
	// Brief says whether the line and the steps are omitted.
	Brief bool
	// Prefix is the text before the first line of an alert.
	Prefix string
}

// Escape sequences for the colors of a terminal.
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

// width is the column where values begin.
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
	fmt.Fprintf(&b, "%s%s %s %s%s\n", s.Prefix, s.paint(stateColor(e), state), s.paint(severityColor(e), severityText(e)), s.paint(bold, e.Alert), doubt)
	if text := e.Annotations["summary"]; text != "" {
		fmt.Fprintf(&b, "  %s\n", oneLine(text))
	}
	field := s.fieldWriter(&b)
	field("assumes", oneLine(a.Assumes))
	field("where", DistinguishingLabels(e.Labels))
	field("since", sinceText(e))
	field("also", strings.Join(a.Also, ", "))
	if c := e.Cause; c != nil {
		field("symptom of", oneLine(c.Alert+" "+DistinguishingLabels(c.Labels)+", since "+formatTime(c.StartsAt)))
	}
	if s.Brief {
		_, err := io.WriteString(w, b.String())
		return err
	}
	field("line", oneLine(e.Line))
	if e.First != e.Line {
		field("first line", oneLine(e.First))
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

// fieldWriter returns a function that writes a value with its name, unless the value is empty.
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

func severityColor(e episodes.Episode) string {
	switch severityText(e) {
	case "critical":
		return red
	case "warning":
		return yellow
	}
	return blue
}

// DistinguishingLabels lists the labels that distinguish the alerts of one rule.
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
	// If lines were not in the order of their times, the clock may have been far ahead, and the
	// duration would be wrong.
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

// oneLine returns text, which may come from a log, as one line without control characters.
func oneLine[T ~string](s T) string {
	return strings.Join(strings.Fields(redact.Sanitise(string(s))), " ")
}

// indentLines indents the lines after the first one to the column of the value.
func indentLines(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, l := range lines {
		lines[i] = redact.Sanitise(l)
	}
	return strings.Join(lines, "\n  "+strings.Repeat(" ", width+1))
}
