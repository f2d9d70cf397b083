package objects

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unique"

	"crowsnest/internal/kube"
	"crowsnest/internal/text"
	"crowsnest/sources/internal/podspec"
)

// Limits of the remembered texts of an object. Anyone may have written them.
const (
	maxConditions = 64
	maxContainers = 64
	maxWord       = 256 // largest number of bytes of a type, status, reason or holder
	maxMessage    = 512 // largest number of bytes of a message or of all finalizers
)

// word is an interned string, because many objects have equal texts.
type word = unique.Handle[string]

func internWord(s string) word { return unique.Make(text.Shorten(s, maxWord)) }

// object holds the fields of an API object that lines contain.
type object struct {
	namespace, name string
	uid             string
	round           int       // number of the last list that contained the object
	read            time.Time // time at which this state of the object was read

	deleted    time.Time // time of the deletion request; zero if there is none
	finalizers string    // finalizers, separated by commas

	conditions []condition
	phase      phase
	containers []container
	lease      *lease
	versions   []word // versions of the programs on a node, in the form of images such as node/kubelet:v1.34.1

	// pairing holds the fields by which Nodes and Machines are compared. nil for other
	// objects.
	pairing *pairing
}

type condition struct {
	kind, status, reason word
	since                time.Time
	message              string
}

// phase describes status.phase. Its name is "" if the object has no phase.
type phase struct {
	name, reason word
	// since is the time since which the object says the phase holds, or else the time at which
	// the phase was first seen.
	since   time.Time
	message string
}

// container is the state of one container of a pod.
type container struct {
	name, state, reason word
	since               time.Time
	message             string
	restarts            int32
	ended               bool  // whether an instance of the container has ended; the following fields describe it
	exit                int32 // exit code of that instance
	exitReason          word
	image               word
}

// key returns the name that identifies an object of a kind, NAMESPACE/NAME or NAME.
func (o *object) key() string {
	if o.namespace == "" {
		return o.name
	}
	return o.namespace + "/" + o.name
}

// followLast completes the state of o with the previous state of the object. last is nil if
// there is none. o was read at t.
func (o *object) followLast(last *object, t time.Time) {
	if o.lease != nil {
		var before *lease
		if last != nil {
			before = last.lease
		}
		o.lease.followLast(before, t)
	}
	if p := &o.phase; p.since.IsZero() {
		if p.since = t; last != nil && last.phase.name == p.name {
			p.since = last.phase.since
		}
	}
}

type raw struct {
	Metadata struct {
		Name       string    `json:"name"`
		Namespace  string    `json:"namespace"`
		UID        string    `json:"uid"`
		Deleted    time.Time `json:"deletionTimestamp"`
		Finalizers []string  `json:"finalizers"`
	} `json:"metadata"`
	Spec   json.RawMessage `json:"spec"`
	Status json.RawMessage `json:"status"`
}

// rawStatus holds the fields of a status that are read. Each field is decoded separately,
// because its type differs between kinds.
type rawStatus struct {
	Conditions  json.RawMessage `json:"conditions"`
	Phase       json.RawMessage `json:"phase"`
	Reason      json.RawMessage `json:"reason"`
	Message     json.RawMessage `json:"message"`
	LastUpdated json.RawMessage `json:"lastUpdated"`
	V1Beta2     json.RawMessage `json:"v1beta2"`
	Deprecated  json.RawMessage `json:"deprecated"`
}

type rawCondition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Since   string `json:"lastTransitionTime"`
}

// projectObject reads the remembered part of an object. cut reports whether some conditions or
// containers were omitted because there are too many.
func projectObject(k kind, in json.RawMessage) (o *object, cut bool, err error) {
	var r raw
	if err := json.Unmarshal(in, &r); err != nil {
		return nil, false, fmt.Errorf("read an object of %s: %w", k, err)
	}
	o = &object{
		namespace: r.Metadata.Namespace, name: r.Metadata.Name, uid: r.Metadata.UID, deleted: r.Metadata.Deleted,
		finalizers: text.Shorten(strings.Join(r.Metadata.Finalizers, ","), maxMessage),
	}
	if k == leases {
		o.lease = projectLease(r.Spec)
		return o, false, nil
	}
	var s rawStatus
	_ = json.Unmarshal(r.Status, &s) // a status that is not an object has none of the fields
	o.conditions, cut = projectConditions(s)
	since, _ := time.Parse(time.RFC3339, jsonString(s.LastUpdated)) // an unknown time is zero
	o.phase = phase{
		name: internWord(jsonString(s.Phase)), reason: internWord(jsonString(s.Reason)), since: since,
		message: text.Shorten(jsonString(s.Message), maxMessage),
	}
	if k == nodes {
		o.versions = projectVersions(r.Status)
	}
	if k == pods {
		containers, more := projectContainers(r.Spec, r.Status)
		o.containers, cut = containers, cut || more
	}
	return o, cut, nil
}

func projectVersions(status json.RawMessage) (out []word) {
	var s struct {
		Info struct {
			Kubelet string `json:"kubeletVersion"`
			Runtime string `json:"containerRuntimeVersion"` // for example containerd://2.1.4
		} `json:"nodeInfo"`
	}
	_ = json.Unmarshal(status, &s) // a node without a status has no versions
	add := func(name, version string) {
		if version != "" {
			out = append(out, internWord("node/"+name+":"+version))
		}
	}
	add("kubelet", s.Info.Kubelet)
	name, version, _ := strings.Cut(s.Info.Runtime, "://")
	add(name, version)
	for _, name := range []string{"rke2", "k3s"} {
		if strings.Contains(s.Info.Kubelet, "+"+name) {
			add(name, s.Info.Kubelet)
		}
	}
	return out
}

// projectConditions returns the conditions of an object. Cluster API writes conditions in
// several forms, which may contradict each other, so each type is read from the newest form
// that has it.
func projectConditions(s rawStatus) (out []condition, cut bool) {
	known := map[string]bool{}
	old := jsonMember(s.Deprecated, "v1beta1")
	for _, form := range []json.RawMessage{jsonMember(s.V1Beta2, "conditions"), s.Conditions, jsonMember(old, "conditions")} {
		var list []rawCondition
		if json.Unmarshal(form, &list) != nil {
			continue // not a list in the form of Kubernetes conditions
		}
		for _, c := range list {
			if c.Type == "" || known[c.Type] {
				continue
			}
			if len(out) == maxConditions {
				return out, true
			}
			known[c.Type] = true
			since, _ := time.Parse(time.RFC3339, c.Since) // an unknown time is zero
			out = append(out, condition{
				kind: internWord(c.Type), status: internWord(c.Status), reason: internWord(c.Reason),
				since: since, message: text.Shorten(c.Message, maxMessage),
			})
		}
	}
	return out, false
}

func jsonMember(in json.RawMessage, name string) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(in, &object) != nil {
		return nil
	}
	return object[name]
}

func jsonString(in json.RawMessage) (s string) {
	if json.Unmarshal(in, &s) != nil {
		return ""
	}
	return s
}

func projectContainers(spec, status json.RawMessage) (out []container, cut bool) {
	var asked podspec.Spec
	_ = json.Unmarshal(spec, &asked)
	images := map[string]string{}
	for _, one := range asked.All() {
		images[one.Name] = one.Image
	}
	var has podspec.Statuses
	_ = json.Unmarshal(status, &has) // a pod without a status has no images
	for _, c := range has.All() {
		if len(out) == maxContainers {
			return out, true
		}
		one := projectContainer(c)
		if image := kube.BetterImage(images[c.Name], c.Image); len(image) <= maxWord {
			one.image = internWord(image)
		}
		out = append(out, one)
	}
	return out, false
}

func projectContainer(c podspec.Status) container {
	out := container{name: internWord(c.Name), state: internWord("waiting"), reason: internWord(""), exitReason: internWord(""), image: internWord(""), restarts: c.Restarts}
	if t := c.Last.Terminated; t != nil {
		out.ended, out.exit, out.exitReason, out.since = true, t.Exit, internWord(t.Reason), t.Finished
	}
	switch s := c.State; {
	case s.Running != nil:
		out.state, out.since = internWord("running"), s.Running.Started
	case s.Terminated != nil:
		out.state, out.reason, out.since = internWord("terminated"), internWord(s.Terminated.Reason), s.Terminated.Finished
		out.ended, out.exit, out.exitReason = true, s.Terminated.Exit, internWord(s.Terminated.Reason)
		out.message = text.Shorten(s.Terminated.Message, maxMessage)
	case s.Waiting != nil:
		out.reason, out.message = internWord(s.Waiting.Reason), text.Shorten(s.Waiting.Message, maxMessage)
	}
	return out
}

type leaseState uint8

const (
	leaseUnknown  leaseState = iota // the Lease was read only once, so it may be held or stale
	leaseHeld                       // the Lease was renewed while it was watched
	leaseStale                      // the Lease was not renewed within its duration
	leaseReleased                   // the Lease has no holder
)

type lease struct {
	holder      word
	valid       time.Duration // duration for which a renewal is valid; zero if the Lease never becomes stale
	renewed     string        // time of the renewal as the holder wrote it; it is never compared with a clock
	transitions int32

	state leaseState
	// since is the time when this process first saw the renewal. Since then, the API server
	// has not been unreachable.
	since time.Time
}

func projectLease(spec json.RawMessage) *lease {
	var r struct {
		Holder      string `json:"holderIdentity"`
		Seconds     int32  `json:"leaseDurationSeconds"`
		Renewed     string `json:"renewTime"`
		Transitions int32  `json:"leaseTransitions"`
	}
	_ = json.Unmarshal(spec, &r) // nobody holds a Lease without a spec
	return &lease{holder: internWord(r.Holder), valid: time.Duration(max(r.Seconds, 0)) * time.Second, renewed: r.Renewed, transitions: r.Transitions}
}

// followLast sets the state of l from the last state of the same Lease. last is nil if the
// Lease is new. l was read at t. The state of a new Lease is unknown, because its holder may
// have gone long ago. So is the state of a Lease that was saved as held and not renewed since,
// because its holder may have gone while this process did not run.
func (l *lease) followLast(last *lease, t time.Time) {
	l.since = t
	switch {
	case l.holder == internWord(""):
		l.state = leaseReleased
	case last == nil && l.valid > 0:
		l.state = leaseUnknown
	case last == nil || last.renewed != l.renewed || last.holder != l.holder:
		l.state = leaseHeld
	case !last.since.IsZero():
		l.state, l.since = last.state, last.since
	case last.state == leaseStale:
		l.state = leaseStale
	}
}

// view is the kind of fact that a line is about. It becomes the label component of the line's
// stream.
type view uint8

const (
	leasesView view = iota
	conditionsView
	deletingView
	phasesView
	containersView // phases of the containers of pods
	machinesView   // facts that do not belong to a single object
	eventsView
)

func (v view) component() string {
	return [...]string{"leases", "conditions", "deleting", "phases", "phases", "machines", "events"}[v]
}

// fact is a fact about an object. Each fact has its own lines.
type fact struct {
	view view
	name word // type of a condition, or name of a container
	// value is compared to find changes. The line of a change has the field "was" with the
	// former value.
	value word
	// A change of one of the following fields is also written as a line.
	reason word
	since  time.Time
	count  int32
	// hidden is set if the fact has no line yet, because it is not known which state holds.
	hidden bool
}

func (f fact) isAbout(other fact) bool { return f.view == other.view && f.name == other.name }

// hasSameLine reports whether the lines of two facts are equal except for ages and messages.
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

// change is a change of a fact for which a line must be written.
type change struct {
	fact
	former word // the former value, or the current value if there is no former one
	gone   bool // whether the fact no longer holds
}

// diffFacts returns the changes of the facts about an object. Facts that no longer hold come
// first.
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
		c := change{fact: f, former: f.value}
		if i >= 0 {
			c.former = before[i].value
		}
		out = append(out, c)
	}
	return out
}
