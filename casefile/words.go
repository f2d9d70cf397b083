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

// line makes text that may come from a log safe to show, on one line.
func line(s string) string { return strings.Join(strings.Fields(redact.Sanitise(s)), " ") }

// lines does the same and keeps the line breaks.
func lines(s string) string {
	all := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, l := range all {
		all[i] = redact.Sanitise(l)
	}
	return strings.Join(all, "\n")
}

// labels makes the values of labels safe to show.
func labels(in map[string]string) map[string]string {
	out := map[string]string{}
	for name, value := range in {
		out[name] = line(value)
	}
	return out
}

func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// stamp formats a time for people.
// noTime stands for the times of lines that state none.
const noTime = "no time in the log"

func stamp(t time.Time) string {
	if t.IsZero() {
		return noTime
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// since says when something began.
func since(t time.Time) string {
	if t.IsZero() {
		return noTime
	}
	return "since " + stamp(t)
}

// WithoutTime says when an entry was that has no time.
func (c *Case) WithoutTime() string {
	if c.Evidence.Kind == kindRecorded {
		return noTime
	}
	return "now"
}

// time returns the time of an entry, zero if it has none.
func (e Entry) time() time.Time {
	if e.At == nil {
		return time.Time{}
	}
	return *e.At
}

// span formats a duration with at most two units.
func span(d time.Duration) string {
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

// count formats a number with a noun.
func count(n int64, noun string) string { return text.Digits(n) + " " + text.Noun(n, noun) }

// Pair is a label.
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

// placeOf writes labels of an alert that say where a failure is.
func placeOf(labels map[string]string) string {
	var out []string
	for _, p := range (Failure{Labels: labels}).Where() {
		out = append(out, p.Name+" "+p.Value)
	}
	return cmp.Or(strings.Join(out, ", "), "no label")
}

// When says since when a failure is open, or from when to when it was.
func (f Failure) When() string {
	out := since(f.Since)
	switch {
	case f.Since.IsZero() && f.EndsAt == nil:
	case f.Since.IsZero():
		out = "ended " + stamp(*f.EndsAt)
	case f.EndsAt != nil:
		out = fmt.Sprintf("%s to %s (%s)", stamp(f.Since), stamp(*f.EndsAt), span(f.EndsAt.Sub(f.Since)))
	case f.FiredAt == nil:
		out += ", not certain yet"
	}
	if f.FiredAt != nil {
		if d := f.FiredAt.Sub(f.Since); d >= time.Second {
			out += ", certain after " + span(d)
		}
	}
	if f.Ended != "" {
		out += "; ended: " + f.Ended
	}
	return out
}

// Newest is a clause about the time of its newest line; "" if the line states none.
func (f Failure) Newest() string {
	if f.LastSeen.IsZero() {
		return ""
	}
	return "; newest line " + stamp(f.LastSeen)
}

// Waiting says what a failure on hold waits for; "" if it waits for nothing.
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

// Began says how a failure began relative to those that were open before.
func (c *Case) Began(f Failure) string {
	if len(f.After) == 0 {
		return "nothing else in this file was open there before"
	}
	var parts []string
	for _, l := range f.After[:min(3, len(f.After))] {
		before := c.Failures[l.ID-1]
		parts = append(parts, fmt.Sprintf("%d %s, %s earlier (same %s)", l.ID, before.Alert, span(f.Since.Sub(before.Since)), strings.Join(l.Same, ", ")))
	}
	out := "began while these were open: " + strings.Join(parts, "; ")
	if n := len(f.After) - 3; n > 0 {
		out += fmt.Sprintf("; and %d more", n)
	}
	return out
}

// CauseText says what a failure is a symptom of; empty if its rule names no cause that was open.
func (f Failure) CauseText() string {
	switch {
	case f.Cause == nil:
		return ""
	case f.Cause.ID > 0:
		return fmt.Sprintf("symptom of failure %d, %s, as its rule states", f.Cause.ID, f.Cause.Alert)
	}
	return fmt.Sprintf("symptom of %s, %s, as its rule states; that failure is not in this file", f.Cause.Alert, since(f.Cause.Since))
}

// Failure returns the failure with a number of this file.
func (c *Case) Failure(id int) Failure { return c.Failures[id-1] }

// Covers says what the file is made from.
func (c *Case) Covers() string {
	e := c.Evidence
	if e.Kind == kindDaemon {
		out := "From the running daemon " + strings.Join(e.Names, ", ")
		if e.Until != nil {
			out += ", as of " + stamp(*e.Until)
		}
		return out
	}
	out := fmt.Sprintf("From %s: %s, evaluated with %s", strings.Join(e.Names, ", "), count(e.Lines, "line"), count(int64(e.Rules), "rule"))
	if e.From != nil && e.Until != nil {
		out += fmt.Sprintf("; matching lines from %s, last line %s", stamp(*e.From), stamp(*e.Until))
	}
	return out
}

// Rest formats a gap with the number of instances that it does not name.
func (g Gap) Rest() string {
	if g.More == 0 {
		return ""
	}
	return "and " + text.Digits(int64(g.More)) + " more"
}
