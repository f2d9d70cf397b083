package objects

import (
	"slices"
	"strconv"
	"time"

	"crowsnest/sources/internal/logline"
)

// subject is a kind of objects, as the API server describes it.
type subject struct {
	resource kind
	kind     string // such as Machine
}

// line returns the line of a fact about an object at a time. was is its former value.
func (s subject) line(o *object, f fact, was word, at time.Time) string {
	switch f.view {
	case leasesView:
		return s.leaseLine(o, was, at)
	case conditionsView:
		return s.conditionLine(o, f.name, was, at)
	case phasesView:
		p := o.phase
		return logline.Format("phase", slices.Concat([]string{"phase", p.name.Value(), "reason", p.reason.Value()}, s.names(o),
			ages(p.since, at), former(was, p.name), []string{"message", p.message})...)
	case containersView:
		return s.containerLine(o, f.name, was, at)
	}
	return logline.Format("object is being deleted", slices.Concat(s.names(o), ages(o.deleted, at), former(was, f.value),
		[]string{"finalizers", o.finalizers})...)
}

func (s subject) leaseLine(o *object, was word, at time.Time) string {
	l, msg := o.lease, "lease is held"
	switch l.state {
	case leaseStale:
		msg = "lease is stale"
	case leaseReleased:
		msg = "lease has no holder"
	}
	return logline.Format(msg, slices.Concat(s.names(o), []string{
		"duration", l.valid.String(), "renewed", l.renewed, "unchanged", age(l.since, at), "transitions", strconv.Itoa(int(l.transitions)),
		"holder", l.holder.Value(),
	}, former(was, l.holder))...)
}

func (s subject) conditionLine(o *object, name, was word, at time.Time) string {
	i := slices.IndexFunc(o.conditions, func(c condition) bool { return c.kind == name })
	c := o.conditions[i]
	return logline.Format("condition", slices.Concat([]string{"type", c.kind.Value(), "status", c.status.Value()}, s.names(o),
		[]string{"reason", c.reason.Value()}, ages(c.since, at), former(was, c.status), []string{"message", c.message})...)
}

func (s subject) containerLine(o *object, name, was word, at time.Time) string {
	i := slices.IndexFunc(o.containers, func(c container) bool { return c.name == name })
	c := o.containers[i]
	exit := ""
	if c.ended {
		exit = strconv.Itoa(int(c.exit))
	}
	return logline.Format("container is "+c.state.Value(), slices.Concat([]string{"reason", c.reason.Value(), "container", c.name.Value()}, s.names(o),
		[]string{"restarts", strconv.Itoa(int(c.restarts)), "exit", exit, "exit_reason", c.exitReason.Value()},
		ages(c.since, at), former(was, c.state), []string{"message", c.message})...)
}

// gone returns the line of a fact that no longer holds.
func (s subject) gone(o *object, f fact) string {
	switch f.view {
	case leasesView:
		return logline.Format("lease is gone", append(s.names(o), "was", f.value.Value())...)
	case conditionsView:
		return logline.Format("condition is gone", slices.Concat([]string{"type", f.name.Value()}, s.names(o), []string{"was", f.value.Value()})...)
	case phasesView:
		return logline.Format("phase is gone", append(s.names(o), "was", f.value.Value())...)
	case containersView:
		return logline.Format("container is gone", slices.Concat([]string{"container", f.name.Value()}, s.names(o), []string{"was", f.value.Value()})...)
	}
	return logline.Format("object is gone", s.names(o)...)
}

// names returns the fields that name an object. Those of pods and nodes have the names
// of the labels of logs too.
func (s subject) names(o *object) []string {
	out := []string{"resource", string(s.resource), "kind", s.kind, "object", o.key(), "name", o.name}
	switch s.resource {
	case pods:
		out = append(out, "pod", o.name)
	case nodes:
		out = append(out, "node", o.name)
	}
	return out
}

// former returns the field of a value that changed, nothing if it did not.
func former(was, now word) []string {
	if was == now {
		return nil
	}
	return []string{"was", was.Value()}
}

// ages returns since when a state holds and for how long; nothing is known about a zero
// time.
func ages(since, at time.Time) []string {
	if since.IsZero() {
		return []string{"since", "", "age", ""}
	}
	return []string{"since", since.UTC().Format(time.RFC3339), "age", age(since, at)}
}

// age returns a duration in seconds. Clocks differ, so it may be negative.
func age(since, at time.Time) string {
	return max(at.Sub(since), 0).Truncate(time.Second).String()
}
