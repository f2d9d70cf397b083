package objects

import (
	"encoding/json"
	"iter"
	"strings"
	"time"

	"crowsnest/internal/times"
)

// leaseDoubt is how much longer than its duration a Lease has to be unrenewed until a
// list proves that it is stale: the holders of a list have several clocks.
const leaseDoubt = time.Minute

// Recorded is an object from a file.
type Recorded struct {
	object  *object
	subject subject
}

// RecordedLine is a line about a recorded object, with the labels of its stream.
type RecordedLine struct {
	Component, Namespace string // Namespace is "" for objects outside of namespaces
	Time                 time.Time
	Text                 string
}

// ReadRecorded reads an object as the API returns it.
func ReadRecorded(apiVersion, kindName string, in json.RawMessage) (*Recorded, error) {
	resource := resourceOf(apiVersion, kindName)
	o, _, err := project(resource, in)
	if err != nil {
		return nil, err
	}
	return &Recorded{object: o, subject: subject{resource: resource, kind: kindName}}, nil
}

// resourceOf returns the plural name of a kind, as the API server forms it.
func resourceOf(apiVersion, kindName string) kind {
	name := strings.ToLower(kindName)
	switch {
	case strings.HasSuffix(name, "s"), strings.HasSuffix(name, "x"), strings.HasSuffix(name, "ch"):
		name += "es"
	case strings.HasSuffix(name, "y") && !strings.HasSuffix(name, "ay"):
		name = strings.TrimSuffix(name, "y") + "ies"
	default:
		name += "s"
	}
	if group, _, grouped := strings.Cut(apiVersion, "/"); grouped {
		name += "." + group
	}
	return kind(name)
}

// Namespace returns the namespace of the object, "" if it has none.
func (r *Recorded) Namespace() string { return r.object.namespace }

// Name returns the name of the object.
func (r *Recorded) Name() string { return r.object.name }

// Newest returns the newest time at which the object changed; zero if it states none.
func (r *Recorded) Newest() time.Time {
	newest := r.renewed()
	for f := range facts(r.object) {
		if f.view != deletingView { // its time may be in the future
			newest = times.Later(newest, f.since)
		}
	}
	return newest
}

// renewed returns when the holder of a Lease renewed it, by its own clock.
func (r *Recorded) renewed() time.Time {
	if r.object.lease == nil {
		return time.Time{}
	}
	t, _ := time.Parse(time.RFC3339, r.object.lease.renewed) // zero if never
	return t
}

// Images returns the containers of a pod and their images.
func (r *Recorded) Images() iter.Seq2[string, string] {
	return func(yield func(container, image string) bool) {
		for _, c := range r.object.containers {
			if c.image != wordOf("") && !yield(c.name.Value(), c.image.Value()) {
				return
			}
		}
	}
}

// Lines returns what held at a time, which is that of the file. A state that states since
// when it holds has a line for that time too. listed is the newest time in the list that
// contained the object: a Lease that was not renewed for long before it is stale. A Lease
// of which nothing is proved has no line.
func (r *Recorded) Lines(at, listed time.Time) []RecordedLine {
	r.judge(at, listed)
	var out []RecordedLine
	for _, c := range changes(nil, r.object) {
		add := func(t time.Time) {
			text := r.subject.line(r.object, c.fact, c.was, t)
			out = append(out, RecordedLine{c.view.component(), r.object.namespace, t, text})
		}
		if !c.since.IsZero() && c.since.Before(at) {
			add(c.since)
		}
		add(at)
	}
	return out
}

// judge decides whether a Lease is held or stale.
func (r *Recorded) judge(at, listed time.Time) {
	l := r.object.lease
	if l == nil {
		return
	}
	renewed := r.renewed()
	l.since = renewed
	if renewed.IsZero() {
		l.since = at
	}
	switch {
	case l.holder == wordOf(""):
		l.state = leaseReleased
	case renewed.IsZero() || l.valid == 0:
		l.state = leaseUnknown
	case !renewed.Add(l.valid).Before(at):
		l.state = leaseHeld
	case renewed.Add(l.valid + leaseDoubt).Before(listed):
		l.state = leaseStale
	default:
		l.state = leaseUnknown
	}
}
