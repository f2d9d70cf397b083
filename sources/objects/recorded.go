package objects

import (
	"encoding/json"
	"iter"
	"strings"
	"time"

	"crowsnest/internal/times"
)

// leaseDoubt is added to the duration of a Lease in a recorded list before the Lease counts as stale, because the
// holders of Leases have different clocks.
const leaseDoubt = time.Minute

// RecordedObject is an object from a file.
type RecordedObject struct {
	object  *object
	subject subject
}

// RecordedLine is a line about a recorded object, with labels of its stream.
type RecordedLine struct {
	// Component is the kind of information, which is the label component. Namespace is "" for
	// objects without a namespace.
	Component, Namespace string
	Time                 time.Time
	Text                 string
}

// ReadRecorded reads an object. in is the object as the API returns it.
func ReadRecorded(apiVersion, kindName string, in json.RawMessage) (*RecordedObject, error) {
	resource := pluralResource(apiVersion, kindName)
	o, _, err := projectObject(resource, in)
	if err != nil {
		return nil, err
	}
	return &RecordedObject{object: o, subject: subject{resource: resource, kind: kindName}}, nil
}

// pluralResource returns the plural name of a kind, formed by the rules of the API server.
func pluralResource(apiVersion, kindName string) kind {
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

// Namespace returns the namespace of the object, or "" if it has none.
func (r *RecordedObject) Namespace() string { return r.object.namespace }

// Name returns the name of the object.
func (r *RecordedObject) Name() string { return r.object.name }

// Newest returns the time of the newest change of the object, or the zero time if the object states no time.
func (r *RecordedObject) Newest() time.Time {
	newest := r.renewed()
	for _, f := range listFacts(r.object) {
		if f.view != deletingView { // a deletion time may be in the future, so it is skipped
			newest = times.Max(newest, f.since)
		}
	}
	return newest
}

func (r *RecordedObject) renewed() time.Time {
	if r.object.lease == nil {
		return time.Time{}
	}
	t, _ := time.Parse(time.RFC3339, r.object.lease.renewed) // the time is zero if the Lease was never renewed
	return t
}

// Images returns the containers of a pod with their images.
func (r *RecordedObject) Images() iter.Seq2[string, string] {
	return func(yield func(container, image string) bool) {
		for _, f := range r.object.facts {
			if f.view == containersView && f.container.image != internWord("") && !yield(f.name.Value(), f.container.image.Value()) {
				return
			}
		}
	}
}

// Lines returns lines about the facts that held at now, which is the time of the file. A fact that states since when it
// holds also gets a line with that time. listed is the newest time in the list that contained the object. A Lease is
// stale if it was not renewed for long before listed. A Lease gets no line if its state is unknown.
func (r *RecordedObject) Lines(now, listed time.Time) []RecordedLine {
	r.judgeLease(now, listed)
	var out []RecordedLine
	for _, c := range diffFacts(nil, r.object) {
		add := func(t time.Time) {
			text := r.subject.factLine(r.object, c.fact, c.former, t)
			out = append(out, RecordedLine{c.view.component(), r.object.namespace, t, text})
		}
		if !c.since.IsZero() && c.since.Before(now) {
			add(c.since)
		}
		add(now)
	}
	return out
}

// judgeLease sets the state of a Lease at t. listed is the newest time in the list that contained the Lease.
func (r *RecordedObject) judgeLease(t, listed time.Time) {
	l := r.object.lease
	if l == nil {
		return
	}
	renewed := r.renewed()
	l.since = renewed
	if renewed.IsZero() {
		l.since = t
	}
	switch {
	case l.holder == internWord(""):
		l.state = leaseReleased
	case renewed.IsZero() || l.valid == 0:
		l.state = leaseUnknown
	case !renewed.Add(l.valid).Before(t):
		l.state = leaseHeld
	case renewed.Add(l.valid + leaseDoubt).Before(listed):
		l.state = leaseStale
	default:
		l.state = leaseUnknown
	}
}
