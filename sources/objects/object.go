package objects

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unique"

	"crowsnest/internal/text"
	"crowsnest/kube"
)

// Bounds of what is remembered of an object, whose texts anybody may have written.
const (
	maxConditions = 64
	maxContainers = 64
	maxWord       = 256 // bytes of a type, status, reason or holder
	maxMessage    = 512 // bytes of a message, or of all finalizers
)

// word is a text that many objects share.
type word = unique.Handle[string]

func wordOf(s string) word { return unique.Make(text.Shorten(s, maxWord)) }

// object is what lines are written from: a small part of an API object.
type object struct {
	namespace, name string
	uid             string
	place           *place    // nil if the object is not remembered
	round           int       // number of the last list that contained the object
	read            time.Time // when this state was read

	deleted    time.Time // zero if it is not being deleted
	finalizers string    // separated by commas

	conditions []condition
	phase      phase
	containers []container
	lease      *lease
	// versions are what a node runs, as images: node/kubelet:v1.34.1.
	versions []word

	// pairing is nil unless the object is compared by the view machines.
	pairing *pairing
}

// condition is one entry of status.conditions.
type condition struct {
	kind, status, reason word
	since                time.Time
	message              string
}

// phase is status.phase; its name is "" if there is none.
type phase struct {
	name, reason word
	since        time.Time // when it was first seen, or as the object says
	message      string
}

// container is the state of one container of a pod.
type container struct {
	name, state, reason word
	since               time.Time
	message             string
	restarts            int32
	ended               bool  // an instance has ended, as follows
	exit                int32 // its code
	exitReason          word
	image               word
}

// key names an object within its kind: NAMESPACE/NAME, or NAME.
func (o *object) key() string {
	if o.namespace == "" {
		return o.name
	}
	return o.namespace + "/" + o.name
}

// follow completes the state of an object, which was read at a time, with what was known
// before; nil if there is nothing.
func (o *object) follow(last *object, at time.Time) {
	if o.lease != nil {
		var before *lease
		if last != nil {
			before = last.lease
		}
		o.lease.follow(before, at)
	}
	if p := &o.phase; p.since.IsZero() {
		if p.since = at; last != nil && last.phase.name == p.name {
			p.since = last.phase.since
		}
	}
}

// raw holds the fields of an API object that are read.
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

// rawStatus holds the fields of a status that are read. Each is decoded by itself, since
// kinds give other forms to the same names.
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

type rawContainer struct {
	Name     string   `json:"name"`
	Image    string   `json:"image"`
	Restarts int32    `json:"restartCount"`
	State    rawState `json:"state"`
	Last     rawState `json:"lastState"`
}

type rawState struct {
	Waiting *struct {
		Reason  string `json:"reason"`
		Message string `json:"message"`
	} `json:"waiting"`
	Running *struct {
		Started time.Time `json:"startedAt"`
	} `json:"running"`
	Terminated *struct {
		Exit     int32     `json:"exitCode"`
		Reason   string    `json:"reason"`
		Message  string    `json:"message"`
		Finished time.Time `json:"finishedAt"`
	} `json:"terminated"`
}

// project reads what is remembered of an API object of a kind. cut reports that the object
// has more conditions or containers than are remembered.
func project(k kind, in json.RawMessage) (o *object, cut bool, err error) {
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
	_ = json.Unmarshal(r.Status, &s) // a status that is no object has none of the fields
	o.conditions, cut = projectConditions(s)
	o.phase = projectPhase(s)
	if k == nodes {
		o.versions = projectVersions(r.Status)
	}
	if k == pods {
		containers, more := projectContainers(r.Spec, r.Status)
		o.containers, cut = containers, cut || more
	}
	return o, cut, nil
}

// projectVersions reads what a node runs.
func projectVersions(status json.RawMessage) (out []word) {
	var s struct {
		Info struct {
			Kubelet string `json:"kubeletVersion"`
			Runtime string `json:"containerRuntimeVersion"` // containerd://2.1.4
		} `json:"nodeInfo"`
	}
	_ = json.Unmarshal(status, &s) // a node without a status has none
	add := func(name, version string) {
		if version != "" {
			out = append(out, wordOf("node/"+name+":"+version))
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

// projectConditions reads the conditions of an object, each type from the newest of the
// forms that Cluster API has, since two forms may contradict each other.
func projectConditions(s rawStatus) (out []condition, cut bool) {
	known := map[string]bool{}
	old := member(s.Deprecated, "v1beta1")
	for _, form := range []json.RawMessage{member(s.V1Beta2, "conditions"), s.Conditions, member(old, "conditions")} {
		var list []rawCondition
		if json.Unmarshal(form, &list) != nil {
			continue // there are none as Kubernetes writes them
		}
		for _, c := range list {
			if c.Type == "" || known[c.Type] {
				continue
			}
			if len(out) == maxConditions {
				return out, true
			}
			known[c.Type] = true
			since, _ := time.Parse(time.RFC3339, c.Since) // zero if unknown
			out = append(out, condition{
				kind: wordOf(c.Type), status: wordOf(c.Status), reason: wordOf(c.Reason),
				since: since, message: text.Shorten(c.Message, maxMessage),
			})
		}
	}
	return out, false
}

// member returns a member of a JSON object, nil if there is none.
func member(in json.RawMessage, name string) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(in, &object) != nil {
		return nil
	}
	return object[name]
}

func projectPhase(s rawStatus) phase {
	since, _ := time.Parse(time.RFC3339, stringOf(s.LastUpdated)) // zero if unknown
	return phase{
		name: wordOf(stringOf(s.Phase)), reason: wordOf(stringOf(s.Reason)), since: since,
		message: text.Shorten(stringOf(s.Message), maxMessage),
	}
}

// stringOf returns a JSON string, "" if it is something else.
func stringOf(in json.RawMessage) (s string) {
	if json.Unmarshal(in, &s) != nil {
		return ""
	}
	return s
}

// rawImages holds the images that a pod asks for.
type rawImages []struct {
	Name  string `json:"name"`
	Image string `json:"image"`
}

func projectContainers(spec, status json.RawMessage) (out []container, cut bool) {
	var asked struct {
		Init      rawImages `json:"initContainers"`
		Main      rawImages `json:"containers"`
		Ephemeral rawImages `json:"ephemeralContainers"`
	}
	_ = json.Unmarshal(spec, &asked)
	images := map[string]string{}
	for _, one := range slices.Concat(asked.Init, asked.Main, asked.Ephemeral) {
		images[one.Name] = one.Image
	}
	var s struct {
		Init      []rawContainer `json:"initContainerStatuses"`
		Main      []rawContainer `json:"containerStatuses"`
		Ephemeral []rawContainer `json:"ephemeralContainerStatuses"`
	}
	_ = json.Unmarshal(status, &s) // a pod without a status has none
	for _, c := range slices.Concat(s.Init, s.Main, s.Ephemeral) {
		if len(out) == maxContainers {
			return out, true
		}
		one := projectContainer(c)
		if image := kube.BetterImage(images[c.Name], c.Image); len(image) <= maxWord {
			one.image = wordOf(image)
		}
		out = append(out, one)
	}
	return out, false
}

func projectContainer(c rawContainer) container {
	out := container{name: wordOf(c.Name), state: wordOf("waiting"), reason: wordOf(""), exitReason: wordOf(""), image: wordOf(""), restarts: c.Restarts}
	if t := c.Last.Terminated; t != nil {
		out.ended, out.exit, out.exitReason, out.since = true, t.Exit, wordOf(t.Reason), t.Finished
	}
	switch s := c.State; {
	case s.Running != nil:
		out.state, out.since = wordOf("running"), s.Running.Started
	case s.Terminated != nil:
		out.state, out.reason, out.since = wordOf("terminated"), wordOf(s.Terminated.Reason), s.Terminated.Finished
		out.ended, out.exit, out.exitReason = true, s.Terminated.Exit, wordOf(s.Terminated.Reason)
		out.message = text.Shorten(s.Terminated.Message, maxMessage)
	case s.Waiting != nil:
		out.reason, out.message = wordOf(s.Waiting.Reason), text.Shorten(s.Waiting.Message, maxMessage)
	}
	return out
}
