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

// Limits of the remembered texts of an object. Anyone may have written them.
const (
	maxConditions = 64
	maxContainers = 64
	maxWord       = 256 // number of bytes of a type, status, reason or holder
	maxMessage    = 512 // number of bytes of a message or of all finalizers
)

// word is a text that many objects share in memory.
type word = unique.Handle[string]

func internWord(s string) word { return unique.Make(text.Shorten(s, maxWord)) }

// object is the part of an API object that is used for lines.
type object struct {
	namespace, name string
	uid             string
	round           int       // number of the last list that contained the object
	read            time.Time // time at which this state was read

	deleted    time.Time // time of the deletion request; zero if there is none
	finalizers string    // separated by commas

	conditions []condition
	phase      phase
	containers []container
	lease      *lease
	// versions are the programs that a node runs, in the form of images such as
	// node/kubelet:v1.34.1.
	versions []word

	// pairing holds the fields that the view machines compares; nil for other objects.
	pairing *pairing
}

// condition is one entry of status.conditions.
type condition struct {
	kind, status, reason word
	since                time.Time
	message              string
}

// phase describes status.phase. Its name is "" if the object has no phase.
type phase struct {
	name, reason word
	since        time.Time // time when the phase was first seen, or since which it holds according to the object
	message      string
}

// container is the state of one container of a pod.
type container struct {
	name, state, reason word
	since               time.Time
	message             string
	restarts            int32
	ended               bool  // whether an instance has ended, which the following fields describe
	exit                int32 // exit code of that instance
	exitReason          word
	image               word
}

// key returns the name of an object that is unique in its kind, NAMESPACE/NAME or NAME.
func (o *object) key() string {
	if o.namespace == "" {
		return o.name
	}
	return o.namespace + "/" + o.name
}

// followLast completes the state of o, which was read at t, with its previous state last, which
// may be nil.
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

// projectObject reads the part of an API object that is remembered. cut reports that the object
// has more conditions or containers than are remembered.
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

// projectVersions reads the versions of the programs that a node runs.
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

// projectConditions reads the conditions of an object. Cluster API has several forms of
// conditions, which may contradict each other. Each type is read from the newest form that has
// it.
func projectConditions(s rawStatus) (out []condition, cut bool) {
	known := map[string]bool{}
	old := jsonMember(s.Deprecated, "v1beta1")
	for _, form := range []json.RawMessage{jsonMember(s.V1Beta2, "conditions"), s.Conditions, jsonMember(old, "conditions")} {
		var list []rawCondition
		if json.Unmarshal(form, &list) != nil {
			continue // they do not have the form of Kubernetes
		}
		for _, c := range list {
			if c.Type == "" || known[c.Type] {
				continue
			}
			if len(out) == maxConditions {
				return out, true
			}
			known[c.Type] = true
			since, _ := time.Parse(time.RFC3339, c.Since) // the time is zero if it is unknown
			out = append(out, condition{
				kind: internWord(c.Type), status: internWord(c.Status), reason: internWord(c.Reason),
				since: since, message: text.Shorten(c.Message, maxMessage),
			})
		}
	}
	return out, false
}

// jsonMember returns a member of a JSON object, or nil if there is none.
func jsonMember(in json.RawMessage, name string) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(in, &object) != nil {
		return nil
	}
	return object[name]
}

func projectPhase(s rawStatus) phase {
	since, _ := time.Parse(time.RFC3339, jsonString(s.LastUpdated)) // the time is zero if it is unknown
	return phase{
		name: internWord(jsonString(s.Phase)), reason: internWord(jsonString(s.Reason)), since: since,
		message: text.Shorten(jsonString(s.Message), maxMessage),
	}
}

// jsonString returns the value of a JSON string, or "" if in is not a string.
func jsonString(in json.RawMessage) (s string) {
	if json.Unmarshal(in, &s) != nil {
		return ""
	}
	return s
}

// rawImages holds the images in the spec of a pod.
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
	_ = json.Unmarshal(status, &s) // a pod without a status has no images
	for _, c := range slices.Concat(s.Init, s.Main, s.Ephemeral) {
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

func projectContainer(c rawContainer) container {
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
