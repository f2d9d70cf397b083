package objects

import (
	"slices"
	"strconv"
	"time"

	"crowsnest/sources/internal/logline"
)

type subject struct {
	resource kind
	kind     string // kind of the objects, such as Machine
}

// factLine returns the line that states a fact about an object at time t. was is the former value of the fact.
func (s subject) factLine(o *object, f fact, was word, t time.Time) string {
	switch f.view {
	case leasesView:
		l, msg := o.lease, "lease is held"
		switch l.state {
		case leaseStale:
			msg = "lease is stale"
		case leaseReleased:
			msg = "lease has no holder"
		}
		return logline.Format(msg, slices.Concat(s.nameFields(o), []string{
			"duration", l.valid.String(), "renewed", l.renewed, "unchanged", ageSeconds(l.since, t), "transitions", strconv.Itoa(int(l.transitions)),
			"holder", l.holder.Value(),
		}, formerField(was, l.holder))...)
	case conditionsView:
		return logline.Format("condition", slices.Concat([]string{"type", f.name.Value(), "status", f.value.Value()}, s.nameFields(o),
			[]string{"reason", f.reason.Value()}, ageFields(f.since, t), formerField(was, f.value), []string{"message", f.message})...)
	case phasesView:
		return logline.Format("phase", slices.Concat([]string{"phase", f.value.Value(), "reason", f.reason.Value()}, s.nameFields(o),
			ageFields(f.since, t), formerField(was, f.value), []string{"message", f.message})...)
	case containersView:
		c, exit := f.container, ""
		if c.ended {
			exit = strconv.Itoa(int(c.exit))
		}
		return logline.Format("container is "+f.value.Value(), slices.Concat([]string{"reason", f.reason.Value(), "container", f.name.Value()}, s.nameFields(o),
			[]string{"restarts", strconv.Itoa(int(f.count)), "exit", exit, "exit_reason", c.exitReason.Value()},
			ageFields(c.since, t), formerField(was, f.value), []string{"message", f.message})...)
	}
	return logline.Format("object is being deleted", slices.Concat(s.nameFields(o), ageFields(f.since, t), formerField(was, f.value),
		[]string{"finalizers", f.message})...)
}

func (s subject) goneLine(o *object, f fact) string {
	switch f.view {
	case leasesView:
		return logline.Format("lease is gone", append(s.nameFields(o), "was", f.value.Value())...)
	case conditionsView:
		return logline.Format("condition is gone", slices.Concat([]string{"type", f.name.Value()}, s.nameFields(o), []string{"was", f.value.Value()})...)
	case phasesView:
		return logline.Format("phase is gone", append(s.nameFields(o), "was", f.value.Value())...)
	case containersView:
		return logline.Format("container is gone", slices.Concat([]string{"container", f.name.Value()}, s.nameFields(o), []string{"was", f.value.Value()})...)
	}
	return logline.Format("object is gone", s.nameFields(o)...)
}

// nameFields returns the fields that name an object. For a pod or a node, these include the
// field pod or node, as in the labels of logs.
func (s subject) nameFields(o *object) []string {
	out := []string{"resource", string(s.resource), "kind", s.kind, "object", o.key(), "name", o.name}
	switch s.resource {
	case pods:
		out = append(out, "pod", o.name)
	case nodes:
		out = append(out, "node", o.name)
	}
	return out
}

// formerField returns the field was=VALUE if the value changed, and nothing otherwise.
func formerField(was, now word) []string {
	if was == now {
		return nil
	}
	return []string{"was", was.Value()}
}

// ageFields returns the fields since and age of a state that began at since. It returns none if since is zero.
func ageFields(since, t time.Time) []string {
	if since.IsZero() {
		return []string{"since", "", "age", ""}
	}
	return []string{"since", since.UTC().Format(time.RFC3339), "age", ageSeconds(since, t)}
}

// ageSeconds returns the time from since to t in seconds, which may be negative.
func ageSeconds(since, t time.Time) string {
	return max(t.Sub(since), 0).Truncate(time.Second).String()
}
