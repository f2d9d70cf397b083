// Package report describes how the behavior of a changed rule set differs from that of the old
// one, as text for a terminal or as JSON. Its output is deterministic, and log lines in it
// cannot control a terminal.
package report

import (
	"cmp"
	"slices"
	"time"

	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/rules"
)

// Side is one of the two rule sets, with its results for the lines.
type Side struct {
	Name   string // name of the folder or file with the rules
	Set    *rules.Set
	Report replay.Report
}

// Options control how much is reported.
type Options struct {
	// Examples is the maximum number of alerts per rule and kind of change.
	Examples int
	// All says whether rules without changes are included.
	All bool
}

// Report describes the differences between two sets.
type Report struct {
	Verdict string `json:"verdict"`
	// Changed reports whether the two sets raise different alerts.
	Changed bool  `json:"changed"`
	Inputs  int   `json:"inputs"`
	Lines   int64 `json:"lines"`
	// Start is the event time of the first matched line, and End that of the end of the lines.
	Start  time.Time `json:"start"`
	End    time.Time `json:"end"`
	Before Totals    `json:"before"`
	After  Totals    `json:"after"`
	Rules  []Rule    `json:"changes"`
	// Unseen are new and changed rules that matched no line, so that their effect is unknown.
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
	statusChanged = "changed" // the definition of the rule differs
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

	More       int `json:"more"`
	Less       int `json:"less"`
	Earlier    int `json:"earlier"`
	Later      int `json:"later"`
	Relabelled int `json:"relabelled"`
	Ends       int `json:"ends_otherwise"`
	Causes     int `json:"other_cause"`

	Examples []Example `json:"examples"`
}

// Values of Example.Kind.
const (
	kindMore       = "more"
	kindLess       = "less"
	kindEarlier    = "earlier"
	kindLater      = "later"
	kindRelabelled = "relabelled"
	kindEnds       = "ends_otherwise"
	kindCauses     = "other_cause"
)

// Example is one alert that differs. Its log line is redacted and has no line
// breaks.
type Example struct {
	Kind  string `json:"kind"`
	Alert Alert  `json:"alert"`
	Was   *Alert `json:"was,omitempty"` // the same alert from the old rules, if both raise it
	Line  string `json:"line"`
}

// Alert is one side of an example.
type Alert struct {
	Labels  map[string]string `json:"labels"`
	FiredAt time.Time         `json:"fired_at"`
	EndsAt  *time.Time        `json:"ends_at,omitempty"`
	Reason  string            `json:"reason,omitempty"`
	Silent  bool              `json:"silent,omitempty"`
	Cause   string            `json:"cause,omitempty"` // name of the alert that it is a symptom of
}

// New compares the results of two sets for the same lines.
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
		NotificationsBefore: c.NotificationsBefore, NotificationsAfter: c.NotificationsAfter,
		More: len(c.More), Less: len(c.Less), Earlier: len(c.Earlier), Later: len(c.Later), Relabelled: len(c.Relabelled), Ends: len(c.Ends), Causes: len(c.Causes),
		Examples: firstExamples(c, opt.Examples),
	}
	if of := cmp.Or(c.New, c.Old); of != nil {
		r.Pack, r.File, r.Line, r.Severity = redact.Sanitise(of.Pack), of.File, of.Line, of.Severity
	}
	return r
}

// changeStatus returns the status of a rule. It distinguishes a disabled rule from one that
// does not exist.
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

// isShown reports whether there is something to report about a rule.
func (r Rule) isShown() bool {
	return r.Status != statusSame || r.countDiffering() > 0 || r.LinesBefore != r.LinesAfter || r.NotificationsBefore != r.NotificationsAfter
}

func (r Rule) countDiffering() int {
	return r.More + r.Less + r.Earlier + r.Later + r.Relabelled + r.Ends + r.Causes
}

// weight orders rules by importance to the person who is paged.
func (r Rule) weight() int {
	switch {
	case r.More+r.Less > 0:
		return 3
	case r.countDiffering() > 0:
		return 2
	case r.LinesBefore != r.LinesAfter || r.NotificationsBefore != r.NotificationsAfter:
		return 1
	}
	return 0
}

// firstExamples returns the first alerts of each kind of change, no more than most of each.
func firstExamples(c replay.Change, most int) []Example {
	out := []Example{}
	one := func(kind string, alerts []replay.Alert) {
		for _, a := range alerts[:min(most, len(alerts))] {
			out = append(out, Example{Kind: kind, Alert: toAlert(a), Line: openingLine(a)})
		}
	}
	both := func(kind string, pairs []replay.Pair) {
		for _, p := range pairs[:min(most, len(pairs))] {
			was := toAlert(p.Before)
			out = append(out, Example{Kind: kind, Alert: toAlert(p.After), Was: &was, Line: openingLine(p.After)})
		}
	}
	one(kindMore, c.More)
	one(kindLess, c.Less)
	both(kindEarlier, c.Earlier)
	both(kindLater, c.Later)
	both(kindRelabelled, c.Relabelled)
	both(kindEnds, c.Ends)
	both(kindCauses, c.Causes)
	return out
}

func toAlert(a replay.Alert) Alert {
	out := Alert{Labels: map[string]string{}, FiredAt: a.Fired.UTC(), Reason: string(a.Episode.Reason), Silent: a.Episode.Silent}
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

// openingLine returns the line that opened the alert, because the newest line may be much
// later.
func openingLine(a replay.Alert) string {
	return string(redact.Sanitise(cmp.Or(a.Episode.First, a.Episode.Line)))
}
