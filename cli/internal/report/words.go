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

func (r Report) sentence(touched int) string {
	over := fmt.Sprintf("Over %s %s ", text.Digits(r.Lines), text.Noun(r.Lines, "line"))
	var out string
	switch {
	case r.Lines == 0:
		return "No line was read, so there is nothing to compare."
	case r.Changed:
		out = fmt.Sprintf("%sthe alerts of %s %s change: %s; %s instead of %s.", over, text.Digits(int64(touched)), text.Noun(int64(touched), "rule"),
			sums(r.Rules), count(r.After.Notifications, "notification"), text.Digits(int64(r.Before.Notifications)))
	case r.After.Alerts == 0:
		out = over + "neither set raises an alert."
	default:
		out = fmt.Sprintf("%sboth sets raise the same %s.", over, count(r.After.Alerts, "alert"))
	}
	if n := len(r.Unseen); n > 0 {
		out = strings.TrimSuffix(out, ".") + fmt.Sprintf("; %s matched none of these lines, so %s effect is unknown.",
			count(n, "new or changed rule"), map[bool]string{true: "its", false: "their"}[n == 1])
	}
	return out
}

// sums adds up the differences of all rules.
func sums(all []Rule) string {
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
	return t.kinds()
}

// kinds counts the differing alerts by kind; "" if there are none.
func (r Rule) kinds() string {
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
			parts = append(parts, text.Digits(int64(k.n))+" "+k.text)
		}
	}
	return strings.Join(parts, ", ")
}

func (r Rule) change() string {
	var parts []string
	if r.Status != statusSame {
		parts = append(parts, r.Status)
	}
	switch kinds := r.kinds(); {
	case kinds != "":
		parts = append(parts, kinds)
	case r.LinesBefore+r.LinesAfter == 0:
		parts = append(parts, "no line")
	default:
		parts = append(parts, "same alerts")
	}
	return strings.Join(parts, "; ")
}

// sign marks the kind of an example, as in a diff.
func (e Example) sign() string {
	switch e.Kind {
	case kindMore:
		return "+"
	case kindLess:
		return "-"
	}
	return "!"
}

// text describes an example on one line, without its sign and its log line.
func (e Example) text() string {
	out := stamp(e.Alert.FiredAt)
	if e.Was != nil {
		switch by := e.Alert.FiredAt.Sub(e.Was.FiredAt); {
		case by < 0:
			out += fmt.Sprintf(" (%s earlier)", -by)
		case by > 0:
			out += fmt.Sprintf(" (%s later)", by)
		}
		if e.Kind == kindEnds {
			out += fmt.Sprintf(" ends %s, was %s", e.Alert.end(), e.Was.end())
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
		out += " " + text.Shorten(e.otherwise(), maxLabels)
	}
	return out
}

// otherwise lists the labels that differ, and whether notifications start or stop.
func (e Example) otherwise() string {
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

func (a Alert) end() string {
	if a.EndsAt == nil {
		return "never"
	}
	return fmt.Sprintf("%s (%s)", stamp(*a.EndsAt), a.Reason)
}

// labelText writes the labels that distinguish one alert of a rule from another.
func labelText(labels map[string]string) string {
	parts := []string{}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if name != "alertname" && name != "resolves" {
			parts = append(parts, fmt.Sprintf("%s=%q", name, labels[name]))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func count(n int, of string) string { return text.Digits(int64(n)) + " " + text.Noun(n, of) }
