package replay

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"crowsnest/internal/text"
	"crowsnest/rules"
)

// Change describes how the alerts of one rule differ between two reports about the same lines.
type Change struct {
	Rule string
	// Old and New are the definitions of the rule in the two sets. A definition is nil if the set does not have the
	// rule or disables it.
	Old, New *rules.Rule

	LinesBefore, LinesAfter                 int64
	Before, After                           int // number of alerts in each report
	NotificationsBefore, NotificationsAfter int

	// An alert of the two reports is in one of these lists, unless both reports contain it unchanged. Each list is
	// ordered by firing time.
	More, Less     []Alert     // alerts only in the second report, and only in the first one
	Earlier, Later []AlertPair // alerts that both sets raise, but at different times
	Relabelled     []AlertPair // alerts that both sets raise for the same key but with other labels, or that only one set notifies
	OtherEnds      []AlertPair // alerts that both sets raise at the same time, but with different ends
	OtherCauses    []AlertPair // alerts that both sets raise at the same time, but as symptoms of different alerts
}

// Same reports whether both reports have the same alerts of the rule.
func (c Change) Same() bool {
	return len(c.More)+len(c.Less)+len(c.Earlier)+len(c.Later)+len(c.Relabelled)+len(c.OtherEnds)+len(c.OtherCauses) == 0
}

// Rewritten reports whether both sets have the rule, but with different definitions.
func (c Change) Rewritten() bool {
	return c.Old != nil && c.New != nil && (c.Old.Hash != c.New.Hash || c.Old.Severity != c.New.Severity)
}

// AlertPair is the same alert in the first and in the second report.
type AlertPair struct{ Before, After Alert }

// Compare returns how the alerts of each rule in after differ from the alerts in before: additional, missing, earlier,
// later or changed. It covers every rule of both sets, in the order of rule names. Two alerts, one of each report, are
// the same failure if their labels (or else their keys) are equal, and if they fire at the same time (or else overlap
// in time).
func Compare(before, after Report) []Change {
	changes := map[string]*Change{}
	get := func(rule string) *Change {
		if changes[rule] == nil {
			changes[rule] = &Change{Rule: rule}
		}
		return changes[rule]
	}
	for _, r := range before.Rules {
		c := get(r.Rule.Alert)
		c.Old, c.LinesBefore, c.NotificationsBefore = r.Rule, r.Lines, r.Notifications
	}
	for _, r := range after.Rules {
		c := get(r.Rule.Alert)
		c.New, c.LinesAfter, c.NotificationsAfter = r.Rule, r.Lines, r.Notifications
	}
	old, young := byRule(before.Alerts), byRule(after.Alerts)
	for name := range old {
		get(name)
	}
	for name := range young {
		get(name)
	}
	out := make([]Change, 0, len(changes))
	for _, c := range changes {
		c.Before, c.After = len(old[c.Rule]), len(young[c.Rule])
		c.sortAlerts(old[c.Rule], young[c.Rule])
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b Change) int { return cmp.Compare(a.Rule, b.Rule) })
	return out
}

func byRule(alerts []Alert) map[string][]Alert {
	out := map[string][]Alert{}
	for _, a := range alerts {
		out[a.Episode.Alert] = append(out[a.Episode.Alert], a)
	}
	return out
}

func (c *Change) sortAlerts(before, after []Alert) {
	// The order of simultaneous events must not affect the result.
	before, after = slices.SortedStableFunc(slices.Values(before), compareAlerts), slices.SortedStableFunc(slices.Values(after), compareAlerts)
	for _, id := range []func(Alert) string{identityLabels, failureKey} {
		for _, turn := range []func(b, a Alert) int{compareFired, compareOverlap} {
			before, after = c.pairRemaining(before, after, id, turn)
		}
	}
	c.Less, c.More = before, after
	for _, list := range [][]AlertPair{c.Earlier, c.Later, c.Relabelled, c.OtherEnds, c.OtherCauses} {
		slices.SortStableFunc(list, func(x, y AlertPair) int { return compareAlerts(x.After, y.After) })
	}
}

func (c *Change) pairAlerts(b, a Alert) {
	switch by := a.FiredAt.Sub(b.FiredAt); {
	case identityLabels(a) != identityLabels(b) || a.Episode.Silent != b.Episode.Silent:
		c.Relabelled = append(c.Relabelled, AlertPair{b, a})
	case by < 0:
		c.Earlier = append(c.Earlier, AlertPair{b, a})
	case by > 0:
		c.Later = append(c.Later, AlertPair{b, a})
	case !a.Episode.EndsAt.Equal(b.Episode.EndsAt) || a.Episode.Reason != b.Episode.Reason:
		c.OtherEnds = append(c.OtherEnds, AlertPair{b, a})
	case causeName(a) != causeName(b):
		c.OtherCauses = append(c.OtherCauses, AlertPair{b, a})
	}
}

func causeName(a Alert) string {
	if a.Episode.Cause == nil {
		return ""
	}
	return a.Episode.Cause.Alert
}

// pairRemaining pairs each alert of after with the next alert of before that has the same id and fits, and returns the
// alerts without a partner. turn compares the times of two alerts. It returns 0 if they fit. It returns a negative
// number if b is too early for a and all later alerts of after, and a positive number if b is too late.
func (c *Change) pairRemaining(before, after []Alert, id func(Alert) string, turn func(b, a Alert) int) (ofBefore, ofAfter []Alert) {
	waiting, taken := map[string][]int{}, make([]bool, len(before))
	for i, b := range before {
		waiting[id(b)] = append(waiting[id(b)], i)
	}
	for _, a := range after {
		list := waiting[id(a)]
		for len(list) > 0 && turn(before[list[0]], a) < 0 {
			list = list[1:]
		}
		if len(list) > 0 && turn(before[list[0]], a) == 0 {
			c.pairAlerts(before[list[0]], a)
			taken[list[0]] = true
			list = list[1:]
		} else {
			ofAfter = append(ofAfter, a)
		}
		waiting[id(a)] = list
	}
	for i, b := range before {
		if !taken[i] {
			ofBefore = append(ofBefore, b)
		}
	}
	return ofBefore, ofAfter
}

func compareAlerts(a, b Alert) int {
	return cmp.Or(a.FiredAt.Compare(b.FiredAt), a.Episode.StartsAt.Compare(b.Episode.StartsAt), cmp.Compare(text.FormatLabels(a.Episode.Labels), text.FormatLabels(b.Episode.Labels)))
}

// identityLabels returns the labels except `resolves`, which depends on the rule's definition and not on the failure.
func identityLabels(a Alert) string {
	labels := maps.Clone(a.Episode.Labels)
	delete(labels, "resolves")
	return text.FormatLabels(labels)
}

// failureKey returns a text that identifies a failure, made of the values of `by` and the identity labels.
func failureKey(a Alert) string {
	var b strings.Builder
	names := []string{"overflow"}
	if a.Episode.Rule != nil {
		names = append(names, slices.Sorted(slices.Values(a.Episode.Rule.By))...)
	}
	for _, name := range scanIdentity {
		names = append(names, name, "stream_"+name)
	}
	for _, name := range names {
		b.WriteString(name + "\x00" + a.Episode.Labels[name] + "\x00")
	}
	return b.String()
}

func compareFired(b, a Alert) int { return b.FiredAt.Compare(a.FiredAt) }

// compareOverlap returns 0 if the two alerts overlap in time. Otherwise it is negative if b ends first.
func compareOverlap(b, a Alert) int {
	switch {
	case !b.Episode.EndsAt.IsZero() && b.Episode.EndsAt.Before(a.Episode.StartsAt):
		return -1
	case !a.Episode.EndsAt.IsZero() && a.Episode.EndsAt.Before(b.Episode.StartsAt):
		return 1
	}
	return 0
}
