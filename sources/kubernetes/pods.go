package kubernetes

import (
	"cmp"
	"strings"
	"time"

	"crowsnest/matcher"
)

// pod is the part of a pod that is of use.
type pod struct {
	Metadata struct {
		Name            string            `json:"name"`
		Namespace       string            `json:"namespace"`
		UID             string            `json:"uid"`
		Version         string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
		DeletedAt       time.Time         `json:"deletionTimestamp"`
		OwnerReferences []owner           `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		Node       string `json:"nodeName"`
		Containers []spec `json:"containers"`
		Init       []spec `json:"initContainers"`
		Ephemeral  []spec `json:"ephemeralContainers"`
	} `json:"spec"`
	Status struct {
		Containers []status `json:"containerStatuses"`
		Init       []status `json:"initContainerStatuses"`
		Ephemeral  []status `json:"ephemeralContainerStatuses"`
	} `json:"status"`
}

type owner struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Controller bool   `json:"controller"`
}

type spec struct {
	Name  string `json:"name"`
	Image string `json:"image"`
}

type status struct {
	Name     string `json:"name"`
	Image    string `json:"image"`
	ID       string `json:"containerID"`
	Restarts int    `json:"restartCount"`
	State    state  `json:"state"`
	Last     state  `json:"lastState"`
}

type state struct {
	Running *struct {
		Started time.Time `json:"startedAt"`
	} `json:"running"`
	Terminated *struct {
		ID       string    `json:"containerID"`
		Started  time.Time `json:"startedAt"`
		Finished time.Time `json:"finishedAt"`
	} `json:"terminated"`
}

// phase is what an instance of a container does.
type phase int

const (
	waiting phase = iota // there is no instance yet
	running
	ended
)

// podName identifies a pod over the time in which it exists.
type podName struct{ namespace, name, uid string }

// container is what the API says of one container of a pod.
type container struct {
	pod    podName
	name   string
	node   string
	labels matcher.Labels // all but those of the configuration

	phase    phase
	id       string    // of the newest instance; "" : there is none
	restarts int       // before the newest instance
	started  time.Time // the newest instance; of whole seconds, by the node's clock
	finished time.Time // the newest instance, if it ended
	before   time.Time // when the instance before it finished; zero: not known
}

// key is unique among all containers that ever are.
func (c container) key() string {
	return c.pod.namespace + "/" + c.pod.name + "/" + c.pod.uid + "/" + c.name
}

// path is for people.
func (c container) path() string { return c.pod.namespace + "/" + c.pod.name + "/" + c.name }

func (p *pod) id() podName {
	return podName{p.Metadata.Namespace, p.Metadata.Name, p.Metadata.UID}
}

// containers returns what the pod says of its containers, of all three kinds.
func (p *pod) containers() []container {
	var out []container
	app, work := p.app(), p.workload()
	add := func(specs []spec, statuses []status) {
		for _, sp := range specs {
			c := container{pod: p.id(), name: sp.Name, node: p.Spec.Node}
			image := sp.Image
			for i := range statuses {
				if st := &statuses[i]; st.Name == sp.Name {
					c.read(st)
					image = better(image, st.Image)
				}
			}
			c.labels = matcher.Labels{
				"namespace": c.pod.namespace, "pod": c.pod.name, "container": c.name,
				"node_name": c.node, "image": image, "app": app, "workload": work,
			}
			out = append(out, c)
		}
	}
	add(p.Spec.Init, p.Status.Init)
	add(p.Spec.Containers, p.Status.Containers)
	add(p.Spec.Ephemeral, p.Status.Ephemeral)
	return out
}

// read takes over what the status says. While a container waits for its next
// start, its status still has the identity of the instance that ended.
func (c *container) read(st *status) {
	c.restarts = st.Restarts
	if t := st.Last.Terminated; t != nil {
		c.before = t.Finished
	}
	switch s := st.State; {
	case s.Running != nil:
		c.phase, c.id, c.started = running, st.ID, s.Running.Started
	case s.Terminated != nil:
		c.phase, c.started, c.finished = ended, s.Terminated.Started, s.Terminated.Finished
		c.id = cmp.Or(st.ID, s.Terminated.ID)
	case st.Last.Terminated != nil && st.ID == st.Last.Terminated.ID:
		c.phase, c.id = ended, st.ID
		c.started, c.finished, c.before = st.Last.Terminated.Started, st.Last.Terminated.Finished, time.Time{}
	}
	if c.id == "" {
		c.phase = waiting // the runtime has not named it yet
	}
}

// better chooses between the image as it was asked for and as the runtime names
// it: the one that has a tag, else the first.
func better(asked, runs string) string {
	if !tagged(asked) && tagged(runs) {
		return runs
	}
	return cmp.Or(asked, runs)
}

func tagged(image string) bool {
	image, _, _ = strings.Cut(image, "@")
	return strings.LastIndexByte(image, ':') > strings.LastIndexByte(image, '/') && !strings.HasPrefix(image, "sha256:")
}

// app is what the pod's labels name the application.
func (p *pod) app() string {
	l := p.Metadata.Labels
	return cmp.Or(l["app.kubernetes.io/name"], l["app"], l["k8s-app"])
}

// workload names what the pod belongs to: the Deployment, DaemonSet, StatefulSet
// or Job, and of a static pod what its manifest is called. "" : none.
func (p *pod) workload() string {
	for _, o := range p.Metadata.OwnerReferences {
		if !o.Controller {
			continue
		}
		switch o.Kind {
		case "ReplicaSet":
			if hash := p.Metadata.Labels["pod-template-hash"]; hash != "" {
				return strings.TrimSuffix(o.Name, "-"+hash)
			}
			if i := strings.LastIndexByte(o.Name, '-'); i > 0 {
				return o.Name[:i]
			}
			return o.Name
		case "Node":
			return strings.TrimSuffix(p.Metadata.Name, "-"+o.Name)
		}
		return o.Name
	}
	return ""
}
