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

// object holds the parts of an API object that lines contain.
type object struct {
	namespace, name string
	uid             string
	round           int       // number of the last list that contained the object
	read            time.Time // time at which this state of the object was read

	facts    []fact // facts about the object; see listFacts for a Lease
	lease    *lease
	versions []word // versions of the programs on a node, in the form of images such as node/kubelet:v1.34.1

	// pairing holds the fields by which Nodes and Machines are compared. It is nil for objects of other kinds.
	pairing *pairing
}

// container holds the fields that only a fact about a container has.
type container struct {
	image      word
	since      time.Time // time since which the state holds
	ended      bool      // whether an instance of the container has ended; the following fields describe it
	exit       int32     // exit code of that instance
	exitReason word
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
	if p := o.phase(); p != nil && p.since.IsZero() {
		p.since = t
		if before := last.phase(); before != nil && before.value == p.value {
			p.since = before.since
		}
	}
}

// phase returns the fact about status.phase. It returns nil if the object has no phase, and for a nil object.
func (o *object) phase() *fact {
	if o == nil {
		return nil
	}
	i := slices.IndexFunc(o.facts, func(f fact) bool { return f.view == phasesView })
	if i < 0 {
		return nil
	}
	return &o.facts[i]
}

// isDeleted reports whether the deletion of the object was requested.
func (o *object) isDeleted() bool {
	return slices.ContainsFunc(o.facts, func(f fact) bool { return f.view == deletingView })
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
	o = &object{namespace: r.Metadata.Namespace, name: r.Metadata.Name, uid: r.Metadata.UID}
	if k == leases {
		o.lease = projectLease(r.Spec)
		return o, false, nil
	}
	if !r.Metadata.Deleted.IsZero() {
		finalizers := text.Shorten(strings.Join(r.Metadata.Finalizers, ","), maxMessage)
		o.addFact(deletingView, "", finalizers, "", r.Metadata.Deleted, finalizers)
	}
	var s rawStatus
	_ = json.Unmarshal(r.Status, &s) // a status that is not an object has none of the fields
	cut = o.projectConditions(s)
	if phase := jsonString(s.Phase); phase != "" {
		o.addFact(phasesView, "", phase, jsonString(s.Reason), parseTime(jsonString(s.LastUpdated)), jsonString(s.Message))
	}
	if k == nodes {
		o.versions = projectVersions(r.Status)
	}
	if k == pods {
		cut = o.projectContainers(r.Spec, r.Status) || cut
	}
	return o, cut, nil
}

// parseTime returns the zero time for a text that is not a time.
func parseTime(s string) time.Time {
	t, _ := time.Parse(time.RFC3339, s)
	return t
}

func (o *object) addFact(v view, name, value, reason string, since time.Time, message string) *fact { //nolint:revive // one for each field
	o.facts = append(o.facts, fact{
		view: v, name: internWord(name), value: internWord(value), reason: internWord(reason), since: since, message: text.Shorten(message, maxMessage),
	})
	return &o.facts[len(o.facts)-1]
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

// projectConditions adds the conditions of an object. Cluster API writes conditions in several forms, which may
// contradict each other, so each type is read from the newest form that has it. cut reports whether there are too many.
func (o *object) projectConditions(s rawStatus) (cut bool) {
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
			if len(known) == maxConditions {
				return true
			}
			known[c.Type] = true
			o.addFact(conditionsView, c.Type, c.Status, c.Reason, parseTime(c.Since), c.Message)
		}
	}
	return false
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

// projectContainers adds the containers of a pod. cut reports whether there are too many.
func (o *object) projectContainers(spec, status json.RawMessage) (cut bool) {
	var asked podspec.Spec
	_ = json.Unmarshal(spec, &asked)
	images := map[string]string{}
	for _, one := range asked.All() {
		images[one.Name] = one.Image
	}
	var has podspec.Statuses
	_ = json.Unmarshal(status, &has) // a pod without a status has no images
	for i, c := range has.All() {
		if i == maxContainers {
			return true
		}
		image := kube.BetterImage(images[c.Name], c.Image)
		if len(image) > maxWord {
			image = ""
		}
		o.addContainer(c, image)
	}
	return false
}

func (o *object) addContainer(c podspec.Status, image string) {
	state, reason, message := "waiting", "", ""
	out := &container{image: internWord(image), exitReason: internWord("")}
	end := func(t *podspec.Terminated) {
		out.ended, out.exit, out.exitReason, out.since = true, t.Exit, internWord(t.Reason), t.Finished
	}
	if t := c.Last.Terminated; t != nil {
		end(t)
	}
	switch s := c.State; {
	case s.Running != nil:
		state, out.since = "running", s.Running.Started
	case s.Terminated != nil:
		state, reason, message = "terminated", s.Terminated.Reason, s.Terminated.Message
		end(s.Terminated)
	case s.Waiting != nil:
		reason, message = s.Waiting.Reason, s.Waiting.Message
	}
	f := o.addFact(containersView, c.Name, state, reason, time.Time{}, message)
	f.count, f.container = c.Restarts, out
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
	// since is the time when this process first saw the renewal. It is moved later by each period in which the API
	// server may have been unreachable.
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

// followLast sets the state of l from the last state of the same Lease. last is nil if the Lease is new. l was read at
// t. The state of a new Lease is unknown, because its holder may have gone long ago. A Lease that was saved as held and
// not renewed since is unknown too, because its holder may have gone while this process did not run.
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

// view is the kind of fact that a line is about. It becomes the label component of the line's stream.
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
	// hidden is set if the fact has no line yet, because it is not known which state holds.
	hidden bool
	name   word // type of a condition, or name of a container
	// value is compared to find changes. The line of a change has the field "was" with the former value.
	value word
	// A change of one of the following fields is also written as a line. since is the time since
	// which the object says that the fact holds. For a phase, it may also be the time at which
	// the phase was first seen. count is the number of restarts, or the state of a Lease.
	reason word
	since  time.Time
	count  int32

	message   string
	container *container // nil if the fact is not about a container
}

func (f fact) isAbout(other fact) bool { return f.view == other.view && f.name == other.name }

// hasSameLine reports whether the lines of two facts are equal except for ages and messages.
func (f fact) hasSameLine(o fact) bool {
	return f.value == o.value && f.reason == o.reason && f.since.Equal(o.since) && f.count == o.count && f.hidden == o.hidden
}

// listFacts returns the facts about an object. o is nil if the object no longer exists.
func listFacts(o *object) []fact {
	switch {
	case o == nil:
		return nil
	case o.lease != nil:
		none := internWord("")
		return []fact{{view: leasesView, name: none, value: o.lease.holder, reason: none, count: int32(o.lease.state), hidden: o.lease.state == leaseUnknown}}
	}
	return o.facts
}

// change is a change of a fact for which a line must be written.
type change struct {
	fact
	former word // the former value, or the current value if there is no former one
	gone   bool // whether the fact no longer holds
}

// diffFacts returns the changes of the facts about an object. Facts that no longer hold come first.
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
