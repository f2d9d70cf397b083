package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/internal/text"
)

func (r Report) summarySentence(touched int) string {
	over := fmt.Sprintf("Over %s %s ", text.GroupThousands(r.Lines), text.PluralNoun(r.Lines, "line"))
	var out string
	switch {
	case r.Lines == 0:
		return "No line was read, so there is nothing to compare."
	case r.Changed:
		out = fmt.Sprintf("%sthe alerts of %s %s change: %s; %s instead of %s.", over, text.GroupThousands(int64(touched)), text.PluralNoun(int64(touched), "rule"),
			sumDifferences(r.Rules), formatCount(r.After.Notifications, "notification"), text.GroupThousands(int64(r.Before.Notifications)))
	case r.After.Alerts == 0:
		out = over + "neither set raises an alert."
	default:
		out = fmt.Sprintf("%sboth sets raise the same %s.", over, formatCount(r.After.Alerts, "alert"))
	}
	if n := len(r.Unseen); n > 0 {
		out = strings.TrimSuffix(out, ".") + fmt.Sprintf("; %s matched none of these lines, so %s effect is unknown.",
			formatCount(n, "new or changed rule"), map[bool]string{true: "its", false: "their"}[n == 1])
	}
	return out
}

func sumDifferences(all []Rule) string {
	var t Rule
	for _, r := range all {
		t.More += r.More
		t.Less += r.Less
		t.Earlier += r.Earlier
		t.Later += r.Later
		t.Relabelled += r.Relabelled
		t.Ends += r.Ends
		t.Causes += r.Causes
	}
	return t.countKinds()
}

// countKinds counts the differing alerts by kind. It returns "" if there are none.
func (r Rule) countKinds() string {
	var parts []string
	for _, k := range []struct {
		n    int
		text string
	}{
		{r.More, "more"},
		{r.Less, "less"},
		{r.Earlier, "earlier"},
		{r.Later, "later"},
		{r.Relabelled, "relabelled"},
		{r.Ends, "ending differently"},
		{r.Causes, "with another cause"},
	} {
		if k.n > 0 {
			parts = append(parts, text.GroupThousands(int64(k.n))+" "+k.text)
		}
	}
	return strings.Join(parts, ", ")
}

func (r Rule) changeText() string {
	var parts []string
	if r.Status != statusSame {
		parts = append(parts, r.Status)
	}
	switch kinds := r.countKinds(); {
	case kinds != "":
		parts = append(parts, kinds)
	case r.LinesBefore+r.LinesAfter == 0:
		parts = append(parts, "no line")
	default:
		parts = append(parts, "same alerts")
	}
	return strings.Join(parts, "; ")
}

// signMark returns the sign of an example: + for an additional alert, - for a missing one, !
// for a changed one.
func (e Example) signMark() string {
	switch e.Kind {
	case kindMore:
		return "+"
	case kindLess:
		return "-"
	}
	return "!"
}

// exampleText describes an example on one line, without its sign and its log line.
func (e Example) exampleText() string {
	out := formatTime(e.Alert.FiredAt)
	if e.Was != nil {
		switch by := e.Alert.FiredAt.Sub(e.Was.FiredAt); {
		case by < 0:
			out += fmt.Sprintf(" (%s earlier)", -by)
		case by > 0:
			out += fmt.Sprintf(" (%s later)", by)
		}
		if e.Kind == kindEnds {
			out += fmt.Sprintf(" ends %s, was %s", e.Alert.endText(), e.Was.endText())
		}
	}
	out += " " + text.Shorten(labelText(e.Alert.Labels), maxLabels)
	switch {
	case e.Kind == kindCauses:
		out += fmt.Sprintf(" (cause %s, was %s)", cmp.Or(e.Alert.Cause, "none"), cmp.Or(e.Was.Cause, "none"))
	case e.Alert.Cause != "":
		out += " (cause " + e.Alert.Cause + ")"
	}
	if e.Kind == kindRelabelled {
		out += " " + text.Shorten(e.differingText(), maxLabels)
	}
	return out
}

// differingText lists the labels that differ, and whether notifications start or stop.
func (e Example) differingText() string {
	var parts []string
	names := map[string]bool{}
	for name := range e.Alert.Labels {
		names[name] = true
	}
	for name := range e.Was.Labels {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if was, is := e.Was.Labels[name], e.Alert.Labels[name]; was != is && name != "resolves" {
			parts = append(parts, fmt.Sprintf("%s was %q", name, was))
		}
	}
	switch {
	case e.Alert.Silent && !e.Was.Silent:
		parts = append(parts, "no longer notified")
	case !e.Alert.Silent && e.Was.Silent:
		parts = append(parts, "was not notified")
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

func (a Alert) endText() string {
	if a.EndsAt == nil {
		return "never"
	}
	return fmt.Sprintf("%s (%s)", formatTime(*a.EndsAt), a.Reason)
}

// labelText returns the labels that distinguish one alert of a rule from another.
func labelText(labels map[string]string) string {
	parts := []string{}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if name != "alertname" && name != "resolves" {
			parts = append(parts, fmt.Sprintf("%s=%q", name, labels[name]))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func formatCount(n int, noun string) string {
	return text.GroupThousands(int64(n)) + " " + text.PluralNoun(n, noun)
}
