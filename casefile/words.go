package casefile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/internal/text"
	"crowsnest/redact"
)

// safeLine returns a text, which may come from a log, on one line without control characters.
func safeLine(s string) string { return strings.Join(strings.Fields(redact.Sanitise(s)), " ") }

// safeLines returns a text without control characters, but with its line breaks.
func safeLines(s string) string {
	all := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, l := range all {
		all[i] = redact.Sanitise(l)
	}
	return strings.Join(all, "\n")
}

// safeLabels returns labels whose values are without control characters.
func safeLabels(in map[string]string) map[string]string {
	out := map[string]string{}
	for name, value := range in {
		out[name] = safeLine(value)
	}
	return out
}

func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// noTime is shown instead of a time if the lines state none.
const noTime = "no time in the log"

// formatTime formats a time for people.
func formatTime(t time.Time) string {
	if t.IsZero() {
		return noTime
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// formatSince says when something began.
func formatSince(t time.Time) string {
	if t.IsZero() {
		return noTime
	}
	return "since " + formatTime(t)
}

// WithoutTime returns a text that is shown for entries without a time.
func (c *Case) WithoutTime() string {
	if c.Evidence.Kind == kindRecorded {
		return noTime
	}
	return "now"
}

// entryTime returns the time of an entry; zero if it has none.
func (e Entry) entryTime() time.Time {
	if e.At == nil {
		return time.Time{}
	}
	return *e.At
}

// formatDuration formats a duration with at most two units.
func formatDuration(d time.Duration) string {
	switch d = d.Round(time.Second); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm %ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh %dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd %dh", int(d.Hours())/24, int(d.Hours())%24)
}

func formatCount(n int64, noun string) string {
	return text.GroupThousands(n) + " " + text.PluralNoun(n, noun)
}

// Pair is the name and value of a label.
type Pair struct{ Name, Value string }

// Where lists the labels that say where a failure is.
func (f Failure) Where() []Pair {
	var out []Pair
	for _, name := range slices.Sorted(maps.Keys(f.Labels)) {
		switch name {
		case "alertname", "severity", "resolves":
			continue
		}
		out = append(out, Pair{name, f.Labels[name]})
	}
	return out
}

// placeText formats the labels of an alert that say where a failure is.
func placeText(labels map[string]string) string {
	var out []string
	for _, p := range (Failure{Labels: labels}).Where() {
		out = append(out, p.Name+" "+p.Value)
	}
	return cmp.Or(strings.Join(out, ", "), "no label")
}

// When says since when a failure has been open, or from when to when it was open.
func (f Failure) When() string {
	out := formatSince(f.Since)
	switch {
	case f.Since.IsZero() && f.EndsAt == nil:
	case f.Since.IsZero():
		out = "ended " + formatTime(*f.EndsAt)
	case f.EndsAt != nil:
		out = fmt.Sprintf("%s to %s (%s)", formatTime(f.Since), formatTime(*f.EndsAt), formatDuration(f.EndsAt.Sub(f.Since)))
	case f.FiredAt == nil:
		out += ", not certain yet"
	}
	if f.FiredAt != nil {
		if d := f.FiredAt.Sub(f.Since); d >= time.Second {
			out += ", certain after " + formatDuration(d)
		}
	}
	if f.Ended != "" {
		out += "; ended: " + f.Ended
	}
	return out
}

// Newest returns a clause about the time of the newest line; "" if the line states none.
func (f Failure) Newest() string {
	if f.LastSeen.IsZero() {
		return ""
	}
	return "; newest line " + formatTime(f.LastSeen)
}

// Waiting says for what a failure on hold waits; "" if it waits for nothing.
func (f Failure) Waiting() string {
	switch {
	case !f.OnHold:
		return ""
	case len(f.WaitsFor) == 0:
		return "on hold: no source reads the lines that decide"
	}
	return "on hold: no progress from " + strings.Join(f.WaitsFor, ", ")
}

// Versions compares the running version with the affected ones.
func (f Failure) Versions() string {
	switch {
	case f.Affected == "":
		return "No affected versions are known for this failure."
	case f.FixedIn == "" || strings.Contains(f.Affected, f.FixedIn):
		return f.Affected
	}
	return f.Affected + " Fixed in " + f.FixedIn + "."
}

// Began says which failures were open when a failure began, and how much earlier they began.
func (c *Case) Began(f Failure) string {
	if len(f.After) == 0 {
		return "nothing else in this file was open there before"
	}
	var parts []string
	for _, l := range f.After[:min(3, len(f.After))] {
		before := c.Failures[l.ID-1]
		parts = append(parts, fmt.Sprintf("%d %s, %s earlier (same %s)", l.ID, before.Alert, formatDuration(f.Since.Sub(before.Since)), strings.Join(l.Same, ", ")))
	}
	out := "began while these were open: " + strings.Join(parts, "; ")
	if n := len(f.After) - 3; n > 0 {
		out += fmt.Sprintf("; and %d more", n)
	}
	return out
}

// CauseText says of which failure f is a symptom; "" if none of the causes that its rule names
// was open.
func (f Failure) CauseText() string {
	switch {
	case f.Cause == nil:
		return ""
	case f.Cause.ID > 0:
		return fmt.Sprintf("symptom of failure %d, %s, as its rule states", f.Cause.ID, f.Cause.Alert)
	}
	return fmt.Sprintf("symptom of %s, %s, as its rule states; that failure is not in this file", f.Cause.Alert, formatSince(f.Cause.Since))
}

// Failure returns the failure with number id in this file.
func (c *Case) Failure(id int) Failure { return c.Failures[id-1] }

// Covers describes the data from which the file is made.
func (c *Case) Covers() string {
	e := c.Evidence
	if e.Kind == kindDaemon {
		out := "From the running daemon " + strings.Join(e.Names, ", ")
		if e.Until != nil {
			out += ", as of " + formatTime(*e.Until)
		}
		return out
	}
	out := fmt.Sprintf("From %s: %s, evaluated with %s", strings.Join(e.Names, ", "), formatCount(e.Lines, "line"), formatCount(int64(e.Rules), "rule"))
	if e.From != nil && e.Until != nil {
		out += fmt.Sprintf("; matching lines from %s, last line %s", formatTime(*e.From), formatTime(*e.Until))
	}
	return out
}

// Rest returns a text with the number of items that the gap does not name; "" if it names all.
func (g Gap) Rest() string {
	if g.More == 0 {
		return ""
	}
	return "and " + text.GroupThousands(int64(g.More)) + " more"
}
