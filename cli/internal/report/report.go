// Package report describes, as text or as JSON, how the alerts of a changed rule set differ from the alerts of the old
// one. Its output is deterministic. Log lines in it cannot control a terminal.
package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"crowsnest/internal/text"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/rules"
)

// Side is one of the two rule sets, with its alerts for the lines.
type Side struct {
	Name   string // name of the folder or file with the rules
	Set    *rules.Set
	Report replay.Report
}

// Options control the level of detail of a report.
type Options struct {
	// Examples is the maximum number of alerts per rule and kind of change.
	Examples int
	// All includes rules without changes.
	All bool
}

// Report describes the differences between the alerts of two rule sets.
type Report struct {
	Verdict string `json:"verdict"`
	// Changed reports whether the two sets raise different alerts.
	Changed bool  `json:"changed"`
	Inputs  int   `json:"inputs"`
	Lines   int64 `json:"lines"`
	// Start is the time of the first matched line. End is the time at which the lines end.
	Start  time.Time `json:"start"`
	End    time.Time `json:"end"`
	Before Totals    `json:"before"`
	After  Totals    `json:"after"`
	Rules  []Rule    `json:"changes"`
	// Unseen contains the new and changed rules that matched no line. Their effect is unknown.
	Unseen []string `json:"unseen"`
}

// Totals are the counts of one set.
type Totals struct {
	Name          string `json:"rules_from"`
	Rules         int    `json:"rules"`
	Matched       int64  `json:"lines_matched"`
	Alerts        int    `json:"alerts"`
	Notifications int    `json:"notifications"`
}

// Values of Rule.Status.
const (
	statusNew     = "new"
	statusRemoved = "removed"
	statusOn      = "switched on"
	statusOff     = "switched off"
	statusChanged = "changed" // the definition of the rule differs between the sets
	statusSame    = "same"
)

// Rule describes what changes for one rule.
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

	More        int `json:"more"`
	Less        int `json:"less"`
	Earlier     int `json:"earlier"`
	Later       int `json:"later"`
	Relabelled  int `json:"relabelled"`
	OtherEnds   int `json:"ends_otherwise"`
	OtherCauses int `json:"other_cause"`

	Examples []Example `json:"examples"`

	differences counts
}

// Values of Example.Kind to which a report adds its own text.
const (
	kindMore       = "more"
	kindLess       = "less"
	kindRelabelled = "relabelled"
	kindEnds       = "ends_otherwise"
	kindCauses     = "other_cause"
)

// kinds contains the kinds of differing alerts in the order of a report, with their names for people.
var kinds = [...]struct{ name, text string }{
	{kindMore, "more"},
	{kindLess, "less"},
	{"earlier", "earlier"},
	{"later", "later"},
	{kindRelabelled, "relabelled"},
	{kindEnds, "ending differently"},
	{kindCauses, "with another cause"},
}

// counts contains the number of differing alerts of each kind.
type counts [len(kinds)]int

func (c counts) sum() (n int) {
	for _, k := range c {
		n += k
	}
	return n
}

// differingAlerts returns the differing alerts of a rule, by kind. An alert that only one set raises is in After, and
// Before is empty.
func differingAlerts(c replay.Change) [len(kinds)][]replay.AlertPair {
	single := func(all []replay.Alert) (out []replay.AlertPair) {
		for _, a := range all {
			out = append(out, replay.AlertPair{After: a})
		}
		return out
	}
	return [...][]replay.AlertPair{single(c.More), single(c.Less), c.Earlier, c.Later, c.Relabelled, c.OtherEnds, c.OtherCauses}
}

// Example is one differing alert. Its log line is redacted and has no line breaks.
type Example struct {
	Kind        string `json:"kind"`
	Alert       Alert  `json:"alert"`
	FormerAlert *Alert `json:"was,omitempty"` // the same alert from the old rules, if both raise it
	Line        string `json:"line"`
}

// Alert is the alert of one rule set in an example.
type Alert struct {
	Labels  map[string]string `json:"labels"`
	FiredAt time.Time         `json:"fired_at"`
	EndsAt  *time.Time        `json:"ends_at,omitempty"`
	Reason  string            `json:"reason,omitempty"`
	Silent  bool              `json:"silent,omitempty"`
	Cause   string            `json:"cause,omitempty"` // name of the alert that caused this alert
}

// New compares the results of two rule sets for the same lines.
func New(before, after Side, opt Options) Report {
	r := Report{
		Inputs: after.Report.Inputs, Lines: after.Report.Lines, Start: earlierTime(before.Report.Start, after.Report.Start),
		End: after.Report.End, Before: newTotals(before), After: newTotals(after), Rules: []Rule{}, Unseen: []string{},
	}
	if before.Report.End.After(r.End) {
		r.End = before.Report.End
	}
	touched := 0
	for _, c := range replay.Compare(before.Report, after.Report) {
		rule := toRule(c, opt)
		rule.Status = changeStatus(c, before.Set, after.Set)
		if !c.Same() {
			r.Changed = true
			touched++
		}
		if c.New != nil && (c.Old == nil || c.Rewritten()) && c.LinesBefore+c.LinesAfter == 0 {
			r.Unseen = append(r.Unseen, rule.Rule)
		}
		if opt.All || rule.isShown() {
			r.Rules = append(r.Rules, rule)
		}
	}
	slices.SortStableFunc(r.Rules, func(a, b Rule) int { return cmp.Compare(b.weight(), a.weight()) })
	r.Verdict = r.summarySentence(touched)
	return r
}

func earlierTime(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func newTotals(s Side) Totals {
	t := Totals{Name: redact.Sanitise(s.Name), Rules: len(s.Report.Rules), Matched: s.Report.Hits, Alerts: s.Report.Fired()}
	for _, r := range s.Report.Rules {
		t.Notifications += r.Notifications
	}
	return t
}

func toRule(c replay.Change, opt Options) Rule {
	r := Rule{
		Rule: redact.Sanitise(c.Rule), LinesBefore: c.LinesBefore, LinesAfter: c.LinesAfter, AlertsBefore: c.Before, AlertsAfter: c.After,
		NotificationsBefore: c.NotificationsBefore, NotificationsAfter: c.NotificationsAfter, Examples: []Example{},
		More: len(c.More), Less: len(c.Less), Earlier: len(c.Earlier), Later: len(c.Later), Relabelled: len(c.Relabelled),
		OtherEnds: len(c.OtherEnds), OtherCauses: len(c.OtherCauses),
	}
	for k, pairs := range differingAlerts(c) {
		r.differences[k] = len(pairs)
		for _, p := range pairs[:min(opt.Examples, len(pairs))] {
			// The first line is shown, because the newest line may be much later.
			line := cmp.Or(p.After.Episode.FirstLine, p.After.Episode.Line)
			e := Example{Kind: kinds[k].name, Alert: toAlert(p.After), Line: string(redact.Sanitise(line))}
			if p.Before.Episode.Alert != "" {
				was := toAlert(p.Before)
				e.FormerAlert = &was
			}
			r.Examples = append(r.Examples, e)
		}
	}
	if of := cmp.Or(c.New, c.Old); of != nil {
		r.Pack, r.File, r.Line, r.Severity = redact.Sanitise(of.Pack), of.File, of.Line, of.Severity
	}
	return r
}

// changeStatus returns the status of a rule. It distinguishes a disabled rule from a rule that does not exist.
func changeStatus(c replay.Change, before, after *rules.Set) string {
	switch {
	case c.Old == nil && before.Rule(c.Rule) != nil:
		return statusOn
	case c.Old == nil:
		return statusNew
	case c.New == nil && after.Rule(c.Rule) != nil:
		return statusOff
	case c.New == nil:
		return statusRemoved
	case c.Rewritten():
		return statusChanged
	}
	return statusSame
}

func (r Rule) isShown() bool {
	return r.Status != statusSame || r.differences.sum() > 0 || r.LinesBefore != r.LinesAfter || r.NotificationsBefore != r.NotificationsAfter
}

// weight returns the importance of a rule's changes to the person who is paged. Rules with more weight come first.
func (r Rule) weight() int {
	switch {
	case r.More+r.Less > 0:
		return 3
	case r.differences.sum() > 0:
		return 2
	case r.LinesBefore != r.LinesAfter || r.NotificationsBefore != r.NotificationsAfter:
		return 1
	}
	return 0
}

func toAlert(a replay.Alert) Alert {
	out := Alert{Labels: map[string]string{}, FiredAt: a.FiredAt.UTC(), Reason: string(a.Episode.Reason), Silent: a.Episode.Silent}
	for name, value := range a.Episode.Labels {
		out.Labels[name] = redact.Sanitise(value)
	}
	if c := a.Episode.Cause; c != nil {
		out.Cause = redact.Sanitise(c.Alert)
	}
	if end := a.Episode.EndsAt.UTC(); !a.Episode.EndsAt.IsZero() {
		out.EndsAt = &end
	}
	return out
}

func (r Report) summarySentence(touched int) string {
	var all counts
	for _, rule := range r.Rules {
		for k, n := range rule.differences {
			all[k] += n
		}
	}
	over := fmt.Sprintf("Over %s %s ", text.GroupThousands(r.Lines), text.PluralNoun(r.Lines, "line"))
	var out string
	switch {
	case r.Lines == 0:
		return "No line was read, so there is nothing to compare."
	case r.Changed:
		out = fmt.Sprintf("%sthe alerts of %s %s change: %s; %s instead of %s.", over, text.GroupThousands(int64(touched)), text.PluralNoun(int64(touched), "rule"),
			all, formatCount(r.After.Notifications, "notification"), text.GroupThousands(int64(r.Before.Notifications)))
	case r.After.Alerts == 0:
		out = over + "neither set raises an alert."
	default:
		out = fmt.Sprintf("%sboth versions of the rules raise the same %s.", over, formatCount(r.After.Alerts, "alert"))
	}
	if n := len(r.Unseen); n > 0 {
		out = strings.TrimSuffix(out, ".") + fmt.Sprintf("; %s matched none of these lines, so %s effect is unknown.",
			formatCount(n, "new or changed rule"), map[bool]string{true: "its", false: "their"}[n == 1])
	}
	return out
}

func (c counts) String() string {
	var parts []string
	for k, n := range c {
		if n > 0 {
			parts = append(parts, text.GroupThousands(int64(n))+" "+kinds[k].text)
		}
	}
	return strings.Join(parts, ", ")
}

func (r Rule) changeText() string {
	var parts []string
	if r.Status != statusSame {
		parts = append(parts, r.Status)
	}
	switch {
	case r.differences.sum() > 0:
		parts = append(parts, r.differences.String())
	case r.LinesBefore+r.LinesAfter == 0:
		parts = append(parts, "no line")
	default:
		parts = append(parts, "same alerts")
	}
	return strings.Join(parts, "; ")
}

// signMark returns the sign before an example: + for an additional alert, - for a missing alert, and ! for a changed
// alert.
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
	if e.FormerAlert != nil {
		switch by := e.Alert.FiredAt.Sub(e.FormerAlert.FiredAt); {
		case by < 0:
			out += fmt.Sprintf(" (%s earlier)", -by)
		case by > 0:
			out += fmt.Sprintf(" (%s later)", by)
		}
		if e.Kind == kindEnds {
			out += fmt.Sprintf(" ends %s, was %s", e.Alert.endText(), e.FormerAlert.endText())
		}
	}
	out += " " + text.Shorten(labelText(e.Alert.Labels), maxLabels)
	switch {
	case e.Kind == kindCauses:
		out += fmt.Sprintf(" (cause %s, was %s)", cmp.Or(e.Alert.Cause, "none"), cmp.Or(e.FormerAlert.Cause, "none"))
	case e.Alert.Cause != "":
		out += " (cause " + e.Alert.Cause + ")"
	}
	if e.Kind == kindRelabelled {
		out += " " + text.Shorten(e.differingText(), maxLabels)
	}
	return out
}

func (e Example) differingText() string {
	var parts []string
	both := maps.Clone(e.FormerAlert.Labels)
	maps.Copy(both, e.Alert.Labels)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		if was, is := e.FormerAlert.Labels[name], e.Alert.Labels[name]; was != is && name != "resolves" {
			parts = append(parts, fmt.Sprintf("%s was %q", name, was))
		}
	}
	switch {
	case e.Alert.Silent && !e.FormerAlert.Silent:
		parts = append(parts, "no longer notified")
	case !e.Alert.Silent && e.FormerAlert.Silent:
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

// Limits of the report as text.
const (
	maxLine   = 300 // maximum length of a log line in bytes
	maxLabels = 400 // maximum length of labels in bytes
	maxNames  = 20  // maximum number of rules that a sentence names
)

// Text writes the report for a terminal.
func (r Report) Text(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n\n", r.Verdict)
	t := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "RULE\tLINES\tALERTS\tNOTIFICATIONS\tCHANGE")
	fmt.Fprintf(t, "(all)\t%d > %d\t%d > %d\t%d > %d\tbefore: %s, after: %s\n", r.Before.Matched, r.After.Matched, r.Before.Alerts, r.After.Alerts,
		r.Before.Notifications, r.After.Notifications, redact.Sanitise(r.Before.Name), redact.Sanitise(r.After.Name))
	for _, rule := range r.Rules {
		fmt.Fprintf(t, "%s\t%d > %d\t%d > %d\t%d > %d\t%s\n", rule.Rule, rule.LinesBefore, rule.LinesAfter, rule.AlertsBefore, rule.AlertsAfter,
			rule.NotificationsBefore, rule.NotificationsAfter, rule.changeText())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, rule := range r.Rules {
		if len(rule.Examples) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s: %s\n", rule.Rule, rule.differences)
		for _, e := range rule.Examples {
			fmt.Fprintf(&b, "%s %s\n    %s\n", e.signMark(), e.exampleText(), text.Shorten(e.Line, maxLine))
		}
		if n := rule.differences.sum() - len(rule.Examples); n > 0 {
			fmt.Fprintf(&b, "  and %s more\n", text.GroupThousands(int64(n)))
		}
	}
	if len(r.Unseen) > 0 {
		fmt.Fprintf(&b, "\nmatched no line: %s", strings.Join(r.Unseen[:min(maxNames, len(r.Unseen))], ", "))
		if n := len(r.Unseen) - maxNames; n > 0 {
			fmt.Fprintf(&b, " and %s more", text.GroupThousands(int64(n)))
		}
		b.WriteByte('\n')
	}
	_, err := w.Write(b.Bytes())
	return err
}
