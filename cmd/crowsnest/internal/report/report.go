// Package report says what a changed rule set does otherwise than the one before
// it: for a terminal, for a pull request, for programs. What it writes is
// deterministic, bounded, and harmless where it is shown, whatever the log lines
// in it hold.
package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/rules"
)

// Side is one of two rule sets, and what it does over the lines.
type Side struct {
	Name   string // where its rules are
	Set    *rules.Set
	Report replay.Report
}

// Options say how much is told.
type Options struct {
	// Examples is the most alerts that are shown per rule and kind of change.
	Examples int
	// All also lists rules of which nothing changes.
	All bool
}

// Report is what changes.
type Report struct {
	Verdict string `json:"verdict"`
	// Changed tells that the two sets do not raise the same alerts.
	Changed bool  `json:"changed"`
	Inputs  int   `json:"inputs"`
	Lines   int64 `json:"lines"`
	// Start and End are the event times of the first matched line and of the end.
	Start  time.Time `json:"start"`
	End    time.Time `json:"end"`
	Before Totals    `json:"before"`
	After  Totals    `json:"after"`
	Rules  []Rule    `json:"changes"`
	// Unseen are new and rewritten rules that matched no line: the logs say
	// nothing about them.
	Unseen []string `json:"unseen"`
}

// Totals are the figures of one set.
type Totals struct {
	Name          string `json:"rules_from"`
	Rules         int    `json:"rules"`
	Matched       int64  `json:"lines_matched"`
	Alerts        int    `json:"alerts"`
	Notifications int    `json:"notifications"`
}

// The values of Rule.Status.
const (
	StatusNew     = "new"
	StatusRemoved = "removed"
	StatusOn      = "switched on"
	StatusOff     = "switched off"
	StatusChanged = "changed" // it is written otherwise
	StatusSame    = "same"
)

// Rule is what changes of one rule.
type Rule struct {
	Rule     string         `json:"rule"`
	Status   string         `json:"status"`
	Pack     string         `json:"pack"`
	File     string         `json:"file"`
	Line     int            `json:"line"`
	Severity rules.Severity `json:"severity"`

	LinesBefore         int64 `json:"lines_before"`
	LinesAfter          int64 `json:"lines_after"`
	AlertsBefore        int   `json:"alerts_before"`
	AlertsAfter         int   `json:"alerts_after"`
	NotificationsBefore int   `json:"notifications_before"`
	NotificationsAfter  int   `json:"notifications_after"`

	More       int `json:"more"`
	Less       int `json:"less"`
	Earlier    int `json:"earlier"`
	Later      int `json:"later"`
	Relabelled int `json:"relabelled"`
	Ends       int `json:"ends_otherwise"`

	Examples []Example `json:"examples"`
}

// The values of Example.Kind.
const (
	KindMore       = "more"
	KindLess       = "less"
	KindEarlier    = "earlier"
	KindLater      = "later"
	KindRelabelled = "relabelled"
	KindEnds       = "ends_otherwise"
)

// Example is one alert that is not the same. Its line is redacted and on one
// line.
type Example struct {
	Kind  string `json:"kind"`
	Alert Alert  `json:"alert"`
	Was   *Alert `json:"was,omitempty"` // by the old rules; of those both raise
	Line  string `json:"line"`
}

// Alert is one side of an example.
type Alert struct {
	Labels  map[string]string `json:"labels"`
	FiredAt time.Time         `json:"fired_at"`
	EndsAt  *time.Time        `json:"ends_at,omitempty"`
	Reason  string            `json:"reason,omitempty"`
	Silent  bool              `json:"silent,omitempty"`
}

// New compares what two sets do over the same lines.
func New(before, after Side, opt Options) Report {
	r := Report{
		Inputs: after.Report.Inputs, Lines: after.Report.Lines, Start: earliest(before.Report.Start, after.Report.Start),
		End: after.Report.End, Before: totals(before), After: totals(after), Rules: []Rule{}, Unseen: []string{},
	}
	if before.Report.End.After(r.End) {
		r.End = before.Report.End
	}
	touched := 0
	for _, c := range replay.Compare(before.Report, after.Report) {
		rule := toRule(c, opt)
		rule.switched(c, before.Set, after.Set)
		if !c.Same() {
			r.Changed = true
			touched++
		}
		if c.New != nil && (c.Old == nil || c.Rewritten()) && c.LinesBefore+c.LinesAfter == 0 {
			r.Unseen = append(r.Unseen, rule.Rule)
		}
		if opt.All || rule.shown() {
			r.Rules = append(r.Rules, rule)
		}
	}
	slices.SortStableFunc(r.Rules, func(a, b Rule) int { return cmp.Compare(b.weight(), a.weight()) })
	r.Verdict = r.sentence(touched)
	return r
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func totals(s Side) Totals {
	t := Totals{Name: redact.Sanitise(s.Name), Rules: len(s.Report.Rules), Matched: s.Report.Hits, Alerts: len(s.Report.Alerts)}
	for _, r := range s.Report.Rules {
		t.Notifications += r.Notifications
	}
	return t
}

func toRule(c replay.Change, opt Options) Rule {
	r := Rule{
		Rule: redact.Sanitise(c.Rule), Status: status(c), LinesBefore: c.LinesBefore, LinesAfter: c.LinesAfter, AlertsBefore: c.Before, AlertsAfter: c.After,
		NotificationsBefore: c.NotificationsBefore, NotificationsAfter: c.NotificationsAfter,
		More: len(c.More), Less: len(c.Less), Earlier: len(c.Earlier), Later: len(c.Later), Relabelled: len(c.Relabelled), Ends: len(c.Ends),
		Examples: examples(c, opt.Examples),
	}
	if of := cmp.Or(c.New, c.Old); of != nil {
		r.Pack, r.File, r.Line, r.Severity = redact.Sanitise(of.Pack), of.File, of.Line, of.Severity
	}
	return r
}

func status(c replay.Change) string {
	switch {
	case c.Old == nil:
		return StatusNew
	case c.New == nil:
		return StatusRemoved
	case c.Rewritten():
		return StatusChanged
	}
	return StatusSame
}

// switched tells a rule that is off from one that is not there.
func (r *Rule) switched(c replay.Change, before, after *rules.Set) {
	switch {
	case c.Old == nil && before.Rule(c.Rule) != nil:
		r.Status = StatusOn
	case c.New == nil && after.Rule(c.Rule) != nil:
		r.Status = StatusOff
	}
}

// shown tells that something is to be said of a rule.
func (r Rule) shown() bool {
	return r.Status != StatusSame || r.differs() > 0 || r.LinesBefore != r.LinesAfter || r.NotificationsBefore != r.NotificationsAfter
}

// differs is how many alerts are not the same.
func (r Rule) differs() int { return r.More + r.Less + r.Earlier + r.Later + r.Relabelled + r.Ends }

// weight puts first what matters most to whoever is paged.
func (r Rule) weight() int {
	switch {
	case r.More+r.Less > 0:
		return 3
	case r.differs() > 0:
		return 2
	case r.LinesBefore != r.LinesAfter || r.NotificationsBefore != r.NotificationsAfter:
		return 1
	}
	return 0
}

// examples shows the first alerts of each kind.
func examples(c replay.Change, most int) []Example {
	out := []Example{}
	one := func(kind string, alerts []replay.Alert) {
		for _, a := range alerts[:min(most, len(alerts))] {
			out = append(out, Example{Kind: kind, Alert: toAlert(a), Line: lineOf(a)})
		}
	}
	both := func(kind string, pairs []replay.Pair) {
		for _, p := range pairs[:min(most, len(pairs))] {
			was := toAlert(p.Before)
			out = append(out, Example{Kind: kind, Alert: toAlert(p.After), Was: &was, Line: lineOf(p.After)})
		}
	}
	one(KindMore, c.More)
	one(KindLess, c.Less)
	both(KindEarlier, pairsOf(c.Earlier))
	both(KindLater, pairsOf(c.Later))
	both(KindRelabelled, c.Relabelled)
	both(KindEnds, c.Ends)
	return out
}

func pairsOf(shifts []replay.Shift) []replay.Pair {
	out := make([]replay.Pair, len(shifts))
	for i, s := range shifts {
		out[i] = replay.Pair{Before: s.Before, After: s.Alert}
	}
	return out
}

func toAlert(a replay.Alert) Alert {
	out := Alert{Labels: map[string]string{}, FiredAt: a.Fired.UTC(), Reason: string(a.Episode.Reason), Silent: a.Episode.Silent}
	for name, value := range a.Episode.Labels {
		out.Labels[name] = redact.Sanitise(value)
	}
	if end := a.Episode.EndsAt.UTC(); !a.Episode.EndsAt.IsZero() {
		out.EndsAt = &end
	}
	return out
}

// lineOf is the line that opened the alert: the newest may be far from it.
func lineOf(a replay.Alert) string {
	return redact.Sanitise(cmp.Or(a.Episode.First, a.Episode.Line))
}

// sentence is the verdict.
func (r Report) sentence(touched int) string {
	over := fmt.Sprintf("Over %s %s ", group(r.Lines), plural(r.Lines, "line"))
	var text string
	switch {
	case r.Lines == 0:
		return "No line was read, so nothing can be said."
	case r.Changed:
		text = fmt.Sprintf("%sthe alerts of %s %s change: %s; %s instead of %s.", over, group(int64(touched)), plural(int64(touched), "rule"),
			sums(r.Rules), count(r.After.Notifications, "notification"), group(int64(r.Before.Notifications)))
	case r.After.Alerts == 0:
		text = over + "neither set raises an alert."
	default:
		text = fmt.Sprintf("%sboth sets raise the same %s.", over, count(r.After.Alerts, "alert"))
	}
	if n := len(r.Unseen); n > 0 {
		text = strings.TrimSuffix(text, ".") + fmt.Sprintf("; %s matched none of these lines, so nothing is known of %s.",
			count(n, "new or changed rule"), map[bool]string{true: "it", false: "them"}[n == 1])
	}
	return text
}

// sums adds up what rules raise otherwise.
func sums(all []Rule) string {
	var t Rule
	for _, r := range all {
		t.More += r.More
		t.Less += r.Less
		t.Earlier += r.Earlier
		t.Later += r.Later
		t.Relabelled += r.Relabelled
		t.Ends += r.Ends
	}
	return t.kinds()
}

// kinds says how many alerts change in which way; "" if none does.
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
		{r.Ends, "ending otherwise"},
	} {
		if k.n > 0 {
			parts = append(parts, group(int64(k.n))+" "+k.text)
		}
	}
	return strings.Join(parts, ", ")
}

// change says in a few words what becomes of a rule.
func (r Rule) change() string {
	var parts []string
	if r.Status != StatusSame {
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

// sign marks the kind of an example, as a difference of texts does.
func (e Example) sign() string {
	switch e.Kind {
	case KindMore:
		return "+"
	case KindLess:
		return "-"
	}
	return "!"
}

// text is an example on one line, without its sign and its log line.
func (e Example) text() string {
	text := stamp(e.Alert.FiredAt)
	if e.Was != nil {
		switch by := e.Alert.FiredAt.Sub(e.Was.FiredAt); {
		case by < 0:
			text += fmt.Sprintf(" (%s earlier)", -by)
		case by > 0:
			text += fmt.Sprintf(" (%s later)", by)
		}
		if e.Kind == KindEnds {
			text += fmt.Sprintf(" ends %s, was %s", e.Alert.end(), e.Was.end())
		}
	}
	text += " " + cut(labelText(e.Alert.Labels), maxLabels)
	if e.Kind == KindRelabelled {
		text += " " + cut(e.otherwise(), maxLabels)
	}
	return text
}

// otherwise says which labels differ, and whether anybody is told.
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
		if was, is := e.Was.Labels[name], e.Alert.Labels[name]; was != is {
			parts = append(parts, fmt.Sprintf("%s was %q", name, was))
		}
	}
	switch {
	case e.Alert.Silent && !e.Was.Silent:
		parts = append(parts, "nobody is told any more")
	case !e.Alert.Silent && e.Was.Silent:
		parts = append(parts, "nobody was told")
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

func (a Alert) end() string {
	if a.EndsAt == nil {
		return "never"
	}
	return fmt.Sprintf("%s (%s)", stamp(*a.EndsAt), a.Reason)
}

// labelText writes the labels that tell one alert of a rule from another.
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

// cut shortens text to n bytes and says so.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

func count(n int, of string) string { return group(int64(n)) + " " + plural(int64(n), of) }

func plural(n int64, of string) string {
	if n == 1 {
		return of
	}
	return of + "s"
}

// group writes 1234567 as 1,234,567.
func group(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
