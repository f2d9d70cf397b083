package objects

import (
	"slices"
	"time"
)

// view is the kind of fact that a line is about. It becomes the label component of the line's
// stream.
type view uint8

const (
	leasesView view = iota
	conditionsView
	deletingView
	phasesView
	containersView // phases of a pod's containers
	machinesView   // facts that belong to no single object
	eventsView
)

func (v view) component() string {
	return [...]string{"leases", "conditions", "deleting", "phases", "phases", "machines", "events"}[v]
}

// fact is a fact about an object. Each fact has its own lines.
type fact struct {
	view view
	name word // type of a condition or name of a container
	// value is compared to find changes. In the line of a change, the field was is the former
	// value.
	value word
	// A change of the following fields is also written.
	reason word
	since  time.Time
	count  int32
	// hidden is set if it is not yet known which line is right.
	hidden bool
}

// isAbout reports whether two facts have the same subject.
func (f fact) isAbout(other fact) bool { return f.view == other.view && f.name == other.name }

// hasSameLine reports whether two facts have the same line. Ages and messages are ignored.
func (f fact) hasSameLine(o fact) bool {
	return f.value == o.value && f.reason == o.reason && f.since.Equal(o.since) && f.count == o.count && f.hidden == o.hidden
}

// listFacts returns the facts about an object. o is nil if the object no longer exists.
func listFacts(o *object) (out []fact) {
	none := internWord("")
	if o == nil {
		return nil
	}
	if l := o.lease; l != nil {
		return []fact{{view: leasesView, name: none, value: l.holder, reason: none, count: int32(l.state), hidden: l.state == leaseUnknown}}
	}
	if !o.deleted.IsZero() {
		out = append(out, fact{view: deletingView, name: none, value: internWord(o.finalizers), reason: none, since: o.deleted})
	}
	for _, c := range o.conditions {
		out = append(out, fact{view: conditionsView, name: c.kind, value: c.status, reason: c.reason, since: c.since})
	}
	if p := o.phase; p.name != none {
		out = append(out, fact{view: phasesView, name: none, value: p.name, reason: p.reason, since: p.since})
	}
	for _, c := range o.containers {
		out = append(out, fact{view: containersView, name: c.name, value: c.state, reason: c.reason, count: c.restarts})
	}
	return out
}

// change is a change for which a line has to be written.
type change struct {
	fact
	was  word // the former value, or the current value if there is no former one
	gone bool // whether the fact no longer holds
}

// diffFacts returns the differences between the former facts about an object and its current
// facts. Facts that no longer hold come first.
func diffFacts(before []fact, o *object) (out []change) {
	now := listFacts(o)
	for _, f := range before {
		if !slices.ContainsFunc(now, f.isAbout) {
			out = append(out, change{fact: f, gone: true})
		}
	}
	for _, f := range now {
		i := slices.IndexFunc(before, f.isAbout)
		if f.hidden || i >= 0 && f.hasSameLine(before[i]) {
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
