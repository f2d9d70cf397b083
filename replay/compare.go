package replay

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"crowsnest/internal/text"
	"crowsnest/rules"
)

// Change compares what one rule does in two reports over the same lines.
type Change struct {
	Rule string
	// Old and New are the rule in each set; nil if it is missing or off there.
	Old, New *rules.Rule

	LinesBefore, LinesAfter                 int64
	Before, After                           int // alerts
	NotificationsBefore, NotificationsAfter int

	// Each alert of the two reports is in one of these lists, or equal in both.
	// All lists are in order of firing.
	More, Less     []Alert // raised by only one of the sets
	Earlier, Later []Pair  // raised by both at different times
	Relabelled     []Pair  // raised by both for the same key with other labels, or silently in one
	Ends           []Pair  // raised by both at the same time, with different ends
	Causes         []Pair  // raised by both at the same time, as symptoms of different alerts
}

// Same reports whether the alerts of the rule are the same.
func (c Change) Same() bool {
	return len(c.More)+len(c.Less)+len(c.Earlier)+len(c.Later)+len(c.Relabelled)+len(c.Ends)+len(c.Causes) == 0
}

// Rewritten reports whether both sets have the rule but with different meanings.
func (c Change) Rewritten() bool {
	return c.Old != nil && c.New != nil && (c.Old.Hash != c.New.Hash || c.Old.Severity != c.New.Severity)
}

// Pair is one alert as two rule sets raise it.
type Pair struct{ Before, After Alert }

// Compare returns, per rule, which alerts of after are additional, missing, earlier,
// later or different compared to before, in order of rule names. It covers every rule
// of both sets. Two alerts of a rule are the same failure if their labels (or else
// their keys) are equal and they fire at the same time, or else overlap in time.
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
	for name := range maps.Keys(old) {
		get(name)
	}
	for name := range maps.Keys(young) {
		get(name)
	}
	out := make([]Change, 0, len(changes))
	for _, c := range changes {
		c.Before, c.After = len(old[c.Rule]), len(young[c.Rule])
		c.compare(old[c.Rule], young[c.Rule])
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

// compare sorts the alerts of one rule into the lists.
func (c *Change) compare(before, after []Alert) {
	m := &matching{before: inOrder(before), after: inOrder(after)}
	m.partner, m.taken = make([]int, len(after)), make([]bool, len(before))
	m.pass(identity, firedAt)
	m.pass(identity, overlap)
	m.pass(key, firedAt)
	m.pass(key, overlap)
	for i, a := range m.after {
		if m.partner[i] == 0 {
			c.More = append(c.More, a)
			continue
		}
		c.pair(m.before[m.partner[i]-1], a)
	}
	for i, b := range m.before {
		if !m.taken[i] {
			c.Less = append(c.Less, b)
		}
	}
}

// pair records how two alerts of the same failure differ.
func (c *Change) pair(b, a Alert) {
	switch by := a.Fired.Sub(b.Fired); {
	case identity(a) != identity(b) || a.Episode.Silent != b.Episode.Silent:
		c.Relabelled = append(c.Relabelled, Pair{b, a})
	case by < 0:
		c.Earlier = append(c.Earlier, Pair{b, a})
	case by > 0:
		c.Later = append(c.Later, Pair{b, a})
	case !a.Episode.EndsAt.Equal(b.Episode.EndsAt) || a.Episode.Reason != b.Episode.Reason:
		c.Ends = append(c.Ends, Pair{b, a})
	case causeOf(a) != causeOf(b):
		c.Causes = append(c.Causes, Pair{b, a})
	}
}

// causeOf returns the name of the cause of an alert, or "" if none is known.
func causeOf(a Alert) string {
	if a.Episode.Cause == nil {
		return ""
	}
	return a.Episode.Cause.Alert
}

// matching pairs the alerts of two reports that are the same failure.
type matching struct {
	before, after []Alert // sorted by firing time
	partner       []int   // one more than the index in before, for each alert of after; zero means none yet
	taken         []bool  // alerts of before that have a partner
}

// pass gives each unpaired alert of after the next unpaired one of before with the
// same id that fits. turn is negative if the alert of before is too early for this
// alert, and so for later ones, and positive if it is too late.
func (m *matching) pass(id func(Alert) string, turn func(b, a Alert) int) {
	waiting := map[string][]int{}
	for i, b := range m.before {
		if !m.taken[i] {
			waiting[id(b)] = append(waiting[id(b)], i)
		}
	}
	for i, a := range m.after {
		if m.partner[i] != 0 {
			continue
		}
		name := id(a)
		list := waiting[name]
		for len(list) > 0 && turn(m.before[list[0]], a) < 0 {
			list = list[1:]
		}
		if len(list) > 0 && turn(m.before[list[0]], a) == 0 {
			m.partner[i], m.taken[list[0]] = list[0]+1, true
			list = list[1:]
		}
		waiting[name] = list
	}
}

// inOrder sorts a copy of alerts by time and then by labels, so that the result does
// not depend on the order of simultaneous events.
func inOrder(alerts []Alert) []Alert {
	out := slices.Clone(alerts)
	slices.SortStableFunc(out, func(a, b Alert) int {
		return cmp.Or(a.Fired.Compare(b.Fired), a.Episode.StartsAt.Compare(b.Episode.StartsAt), cmp.Compare(text.Labels(a.Episode.Labels), text.Labels(b.Episode.Labels)))
	})
	return out
}

// identity returns the labels except `resolves`, which depends on how the rule is
// written.
func identity(a Alert) string {
	labels := maps.Clone(a.Episode.Labels)
	delete(labels, "resolves")
	return text.Labels(labels)
}

// key identifies the failure: the values of `by` and the identity labels.
func key(a Alert) string {
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

func firedAt(b, a Alert) int { return b.Fired.Compare(a.Fired) }

// overlap returns 0 if two alerts have a moment in common.
func overlap(b, a Alert) int {
	switch {
	case !b.Episode.EndsAt.IsZero() && b.Episode.EndsAt.Before(a.Episode.StartsAt):
		return -1
	case !a.Episode.EndsAt.IsZero() && a.Episode.EndsAt.Before(b.Episode.StartsAt):
		return 1
	}
	return 0
}
