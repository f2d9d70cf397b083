// Package show prints alerts for a person who was just paged: what, how severe,
// where, since when, the line, and what to do.
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
	// Brief omits the line and what to do.
	Brief bool
	// Prefix begins the first line of an alert.
	Prefix string
}

// The colors of a terminal.
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

// Alert prints one alert as a block of lines, without an empty line after it.
func Alert(w io.Writer, e episodes.Episode, s Style) error {
	return alertOf(w, replay.Alert{Episode: e}, s)
}

func alertOf(w io.Writer, a replay.Alert, s Style) error {
	e := a.Episode
	var b strings.Builder
	state, doubt := strings.ToUpper(string(e.Shown())), ""
	if e.OnHold && e.State != episodes.StateResolved {
		state += " (on hold)"
	}
	if a.Assumes != "" {
		doubt = ", if it goes on"
	}
	fmt.Fprintf(&b, "%s%s %s %s%s\n", s.Prefix, s.paint(stateColor(e), state), s.paint(severityColor(e), severity(e)), s.paint(bold, e.Alert), doubt)
	if text := e.Annotations["summary"]; text != "" {
		fmt.Fprintf(&b, "  %s\n", flat(text))
	}
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "  %s %s\n", s.paint(dim, fmt.Sprintf("%-*s", width, name)), indent(value))
		}
	}
	field("assumes", flat(a.Assumes))
	field("where", Where(e.Labels))
	field("since", since(e))
	field("also", strings.Join(a.Also, ", "))
	if c := e.Cause; c != nil {
		field("symptom of", flat(c.Alert+" "+Where(c.Labels)+", since "+stamp(c.StartsAt)))
	}
	if s.Brief {
		_, err := io.WriteString(w, b.String())
		return err
	}
	field("line", flat(e.Line))
	if e.First != e.Line {
		field("first line", flat(e.First))
	}
	field("origin", flat(e.Annotations["origin"]))
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

func severity(e episodes.Episode) string { return cmp.Or(e.Labels["severity"], "none") }

func stateColor(e episodes.Episode) string {
	switch e.Shown() {
	case episodes.StateResolved:
		return green
	case episodes.StateUnwatched:
		return yellow
	}
	return red
}

func severityColor(e episodes.Episode) string {
	switch severity(e) {
	case "critical":
		return red
	case "warning":
		return yellow
	}
	return blue
}

// Where lists the labels that distinguish alerts.
func Where(labels map[string]string) string {
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

func since(e episodes.Episode) string {
	out := stamp(e.StartsAt)
	if e.StartsAt.IsZero() {
		out = noTime
	}
	// With lines that are not in the order of their times the clock was far ahead.
	if d := e.FiredAt.Sub(e.StartsAt); !e.FiredAt.IsZero() && d >= time.Second && (e.Rule == nil || d <= e.Rule.For+e.Rule.Within+time.Hour) {
		out += fmt.Sprintf(", certain after %s", d.Round(time.Second))
	}
	if e.LastSeen.Sub(e.StartsAt) >= time.Second {
		out += ", last seen " + stamp(e.LastSeen)
	}
	if !e.EndsAt.IsZero() {
		out += fmt.Sprintf(", ended %s (%s)", stamp(e.EndsAt), e.Reason)
	}
	switch {
	case e.StoppedLines():
		out += ", last line " + stamp(e.LastSeen)
	case e.Count > 0:
		out += ", " + text.Plural(e.Count, "line")
	}
	return out
}

// noTime stands for the times of lines that state none.
const noTime = "no time in the log"

func stamp(t time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return t.UTC().Format(time.RFC3339)
}

// flat puts text, which may come from a log, on one line.
func flat[T ~string](s T) string {
	return strings.Join(strings.Fields(redact.Sanitise(string(s))), " ")
}

// indent aligns further lines with the value.
func indent(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, l := range lines {
		lines[i] = redact.Sanitise(l)
	}
	return strings.Join(lines, "\n  "+strings.Repeat(" ", width+1))
}
