package objects

import (
	"iter"
	"slices"
	"time"
)

// view names what a line is about. It is the label component of the line's stream.
type view uint8

const (
	leasesView view = iota
	conditionsView
	deletingView
	phasesView
	containersView // lines of phases about one container of a pod
	machinesView   // the view belongs to no single object
	eventsView
)

func (v view) component() string {
	return [...]string{"leases", "conditions", "deleting", "phases", "phases", "machines", "events"}[v]
}

// fact is one thing that holds of an object, and that has lines of its own.
type fact struct {
	view view
	name word // the type of a condition, or the name of a container
	// value is what is compared to find changes, and what a line of a change calls was.
	value word
	// A line is also written when one of these changes.
	reason word
	since  time.Time
	count  int32
	// hidden means that it is not known yet which line holds.
	hidden bool
}

// isAbout reports whether two facts are about the same.
func (f fact) isAbout(other fact) bool { return f.view == other.view && f.name == other.name }

// same reports whether two facts have the same line, apart from ages and messages.
func (f fact) same(o fact) bool {
	return f.value == o.value && f.reason == o.reason && f.since.Equal(o.since) && f.count == o.count && f.hidden == o.hidden
}

// facts returns what holds of an object, which is nil after its end.
func facts(o *object) iter.Seq[fact] {
	none := wordOf("")
	return func(yield func(fact) bool) {
		if o == nil {
			return
		}
		if l := o.lease; l != nil {
			yield(fact{view: leasesView, name: none, value: l.holder, reason: none, count: int32(l.state), hidden: l.state == leaseUnknown})
			return
		}
		if !o.deleted.IsZero() && !yield(fact{view: deletingView, name: none, value: wordOf(o.finalizers), reason: none, since: o.deleted}) {
			return
		}
		for _, c := range o.conditions {
			if !yield(fact{view: conditionsView, name: c.kind, value: c.status, reason: c.reason, since: c.since}) {
				return
			}
		}
		if p := o.phase; p.name != none && !yield(fact{view: phasesView, name: none, value: p.name, reason: p.reason, since: p.since}) {
			return
		}
		for _, c := range o.containers {
			if !yield(fact{view: containersView, name: c.name, value: c.state, reason: c.reason, count: c.restarts}) {
				return
			}
		}
	}
}

// change is a line that has to be written about an object.
type change struct {
	fact
	was  word // the former value; the same value if there is none
	gone bool // the fact no longer holds
}

// changes returns the differences between what held before and what holds of an object
// now. Facts that no longer hold come first.
func changes(before []fact, o *object) (out []change) {
	now := slices.Collect(facts(o))
	for _, f := range before {
		if !slices.ContainsFunc(now, f.isAbout) {
			out = append(out, change{fact: f, gone: true})
		}
	}
	for _, f := range now {
		i := slices.IndexFunc(before, f.isAbout)
		if f.hidden || i >= 0 && f.same(before[i]) {
			continue
		}
		c := change{fact: f, was: f.value}
		if i >= 0 {
			c.was = before[i].value
		}
		out = append(out, c)
	}
	return out
}
