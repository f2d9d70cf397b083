package kubernetes

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"crowsnest/internal/kube"
	"crowsnest/matcher"
	"crowsnest/sources/internal/podspec"
)

// pod holds the used fields of a Pod.
type pod struct {
	Metadata struct {
		Name            string            `json:"name"`
		Namespace       string            `json:"namespace"`
		UID             string            `json:"uid"`
		Labels          map[string]string `json:"labels"`
		OwnerReferences []owner           `json:"ownerReferences"`
	} `json:"metadata"`
	Spec   podspec.Spec     `json:"spec"`
	Status podspec.Statuses `json:"status"`
}

type owner struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Controller bool   `json:"controller"`
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

// key returns a unique key of the container. A container of an earlier pod with the same name has another key.
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
	app, work, statuses := p.appName(), p.ownerName(), p.Status.All()
	for _, spec := range p.Spec.All() {
		c := container{pod: p.name(), name: spec.Name, node: p.Spec.Node}
		image := spec.Image
		if i := slices.IndexFunc(statuses, func(st podspec.Status) bool { return st.Name == spec.Name }); i >= 0 {
			c.copyStatus(&statuses[i])
			image = kube.BetterImage(image, statuses[i].Image)
		}
		c.labels = matcher.Labels{
			"namespace": c.pod.namespace, "pod": c.pod.name, "container": c.name,
			"node_name": c.node, "image": image, "app": app, "workload": work,
		}
		out = append(out, c)
	}
	return out
}

// copyStatus copies the status st into c. While a container waits for its next start, its
// status still has the ID of the terminated instance.
func (c *container) copyStatus(st *podspec.Status) {
	c.restarts = int(st.Restarts)
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
