package replay

import (
	"cmp"
	"slices"
	"time"
)

// Change compares what one rule does in two reports over the same lines.
type Change struct {
	Rule                    string
	LinesBefore, LinesAfter int64
	Before, After           int     // alerts
	More, Less              []Alert // raised by one of the sets only
	Earlier, Later          []Shift // raised by both at different times
}

// Same tells that the alerts of the rule are the same.
func (c Change) Same() bool {
	return len(c.More)+len(c.Less)+len(c.Earlier)+len(c.Later) == 0
}

// Shift is one alert that two rule sets raise at different times.
type Shift struct {
	Alert Alert // of the second report
	By    time.Duration
}

// Compare says per rule what fires more, less, earlier or later in after than
// in before, in order of rule names. Alerts are paired by their labels in order
// of firing.
func Compare(before, after Report) []Change {
	changes := map[string]*Change{}
	get := func(rule string) *Change {
		if changes[rule] == nil {
			changes[rule] = &Change{Rule: rule}
		}
		return changes[rule]
	}
	for _, r := range before.Rules {
		get(r.Rule.Alert).LinesBefore = r.Lines
	}
	for _, r := range after.Rules {
		get(r.Rule.Alert).LinesAfter = r.Lines
	}
	old := map[string][]Alert{}
	for _, a := range before.Alerts {
		get(a.Episode.Alert).Before++
		id := labelText(a.Episode.Labels)
		old[id] = append(old[id], a)
	}
	for _, a := range after.Alerts {
		c := get(a.Episode.Alert)
		c.After++
		id := labelText(a.Episode.Labels)
		if len(old[id]) == 0 {
			c.More = append(c.More, a)
			continue
		}
		by := a.Fired.Sub(old[id][0].Fired)
		old[id] = old[id][1:]
		switch {
		case by < 0:
			c.Earlier = append(c.Earlier, Shift{a, -by})
		case by > 0:
			c.Later = append(c.Later, Shift{a, by})
		}
	}
	for _, a := range before.Alerts {
		id := labelText(a.Episode.Labels)
		if len(old[id]) > 0 && old[id][0].Fired.Equal(a.Fired) {
			c := get(a.Episode.Alert)
			c.Less = append(c.Less, a)
			old[id] = old[id][1:]
		}
	}
	out := make([]Change, 0, len(changes))
	for _, c := range changes {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b Change) int { return cmp.Compare(a.Rule, b.Rule) })
	return out
}
