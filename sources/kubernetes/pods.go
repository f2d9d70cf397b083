package kubernetes

import (
	"cmp"
	"strings"
	"time"

	"crowsnest/internal/kube"
	"crowsnest/matcher"
)

// pod holds the used fields of a Pod.
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

// phase is the state of the newest instance of a container.
type phase int

const (
	waiting phase = iota // the container has no instance yet
	running
	ended
)

// podName identifies a pod. A successor with the same name has another uid.
type podName struct{ namespace, name, uid string }

// container describes one container of a pod, as the API reports it.
type container struct {
	pod    podName
	name   string
	node   string
	labels matcher.Labels // labels of the pod, without the configured labels

	phase       phase
	id          string    // ID of the newest instance; empty if there is no instance
	restarts    int       // number of restarts before the newest instance
	started     time.Time // start of the newest instance, in whole seconds by the node's clock
	finished    time.Time // end of the newest instance, if it terminated
	previousEnd time.Time // end of the previous instance; zero if unknown
	earlier     time.Time // start of the previous instance; zero if unknown
}

// key returns a unique key of the container. A container of an earlier pod with the same name
// has another key.
func (c container) key() string {
	return c.pod.namespace + "/" + c.pod.name + "/" + c.pod.uid + "/" + c.name
}

// path returns the name of the container in messages to people.
func (c container) path() string { return c.pod.namespace + "/" + c.pod.name + "/" + c.name }

func (p *pod) name() podName {
	return podName{p.Metadata.Namespace, p.Metadata.Name, p.Metadata.UID}
}

// containers returns the init containers, containers and ephemeral containers of the pod.
func (p *pod) containers() []container {
	var out []container
	app, work := p.appName(), p.ownerName()
	add := func(specs []spec, statuses []status) {
		for _, sp := range specs {
			c := container{pod: p.name(), name: sp.Name, node: p.Spec.Node}
			image := sp.Image
			for i := range statuses {
				if st := &statuses[i]; st.Name == sp.Name {
					c.copyStatus(st)
					image = kube.BetterImage(image, st.Image)
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

// copyStatus copies the status st into c. While a container waits for its next start, its
// status still has the ID of the terminated instance.
func (c *container) copyStatus(st *status) {
	c.restarts = st.Restarts
	if t := st.Last.Terminated; t != nil {
		c.previousEnd, c.earlier = t.Finished, t.Started
	}
	switch s := st.State; {
	case s.Running != nil:
		c.phase, c.id, c.started = running, st.ID, s.Running.Started
	case s.Terminated != nil:
		c.phase, c.started, c.finished = ended, s.Terminated.Started, s.Terminated.Finished
		c.id = cmp.Or(st.ID, s.Terminated.ID)
	case st.Last.Terminated != nil && st.ID == st.Last.Terminated.ID:
		c.phase, c.id = ended, st.ID
		c.started, c.finished, c.previousEnd = st.Last.Terminated.Started, st.Last.Terminated.Finished, time.Time{}
	}
	if c.id == "" {
		c.phase = waiting // the runtime has not assigned an ID yet
	}
}

func (p *pod) appName() string {
	l := p.Metadata.Labels
	return cmp.Or(l["app.kubernetes.io/name"], l["app"], l["k8s-app"])
}

// ownerName returns the name of the pod's owner. This is the Deployment, DaemonSet, StatefulSet
// or Job, or the manifest of a static pod. It returns "" if there is no owner.
func (p *pod) ownerName() string {
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
		case "Node":
			return strings.TrimSuffix(p.Metadata.Name, "-"+o.Name)
		}
		return o.Name
	}
	return ""
}
