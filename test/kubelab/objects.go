package kubelab

import (
	"fmt"
	"net/http"
	"time"
)

// Rule is one rule of a role.
type Rule struct {
	Groups    []string `json:"apiGroups"`
	Resources []string `json:"resources"`
	Verbs     []string `json:"verbs"`
	// Names restricts the rule to objects with these names; nil: any.
	Names []string `json:"resourceNames,omitempty"`
}

// Namespace creates a namespace with its default service account, without which
// no pod is admitted.
func (l *Lab) Namespace(name string) {
	l.t.Helper()
	l.Do(http.MethodPost, "/api/v1/namespaces", Object{"metadata": Object{"name": name}})
	l.ServiceAccount(name, "default")
}

// ServiceAccount creates a service account.
func (l *Lab) ServiceAccount(ns, name string) {
	l.t.Helper()
	l.Do(http.MethodPost, "/api/v1/namespaces/"+ns+"/serviceaccounts", Object{"metadata": Object{"name": name}})
}

// Grant grants a cluster role with these rules to a service account, or a role
// in namespace if that is not empty.
func (l *Lab) Grant(ns, account, in string, rules ...Rule) {
	l.t.Helper()
	const api = "/apis/rbac.authorization.k8s.io/v1/"
	kind, path, name := "ClusterRole", api+"cluster", ns+"-"+account
	roles, bindings := path+"roles", path+"rolebindings"
	if in != "" {
		kind = "Role"
		roles, bindings = api+"namespaces/"+in+"/roles", api+"namespaces/"+in+"/rolebindings"
	}
	l.Do(http.MethodPost, roles, Object{"metadata": Object{"name": name}, "rules": rules})
	l.Do(http.MethodPost, bindings, Object{
		"metadata": Object{"name": name},
		"roleRef":  Object{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
		"subjects": []Object{{"kind": "ServiceAccount", "name": account, "namespace": ns}},
	})
}

// Revoke reverts Grant.
func (l *Lab) Revoke(ns, account, in string) {
	l.t.Helper()
	const api = "/apis/rbac.authorization.k8s.io/v1/"
	bindings := api + "clusterrolebindings/"
	roles := api + "clusterroles/"
	if in != "" {
		bindings, roles = api+"namespaces/"+in+"/rolebindings/", api+"namespaces/"+in+"/roles/"
	}
	l.Do(http.MethodDelete, bindings+ns+"-"+account, nil)
	l.Do(http.MethodDelete, roles+ns+"-"+account, nil)
}

// Token creates a token of a service account for these audiences; without any,
// for the API server.
func (l *Lab) Token(ns, account string, audiences ...string) string {
	l.t.Helper()
	return l.token(ns, account, Object{"expirationSeconds": 3600, "audiences": audiences})
}

// PodToken creates a token as the kubelet mounts it: for an audience, and bound
// to a pod, which has to run as the account.
func (l *Lab) PodToken(ns, account, pod, audience string) string {
	l.t.Helper()
	meta, _ := l.Do(http.MethodGet, "/api/v1/namespaces/"+ns+"/pods/"+pod, nil)["metadata"].(Object)
	return l.token(ns, account, Object{
		"expirationSeconds": 3600, "audiences": []string{audience},
		"boundObjectRef": Object{"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": meta["uid"]},
	})
}

func (l *Lab) token(ns, account string, spec Object) string {
	l.t.Helper()
	answer := l.Do(http.MethodPost, "/api/v1/namespaces/"+ns+"/serviceaccounts/"+account+"/token", Object{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec,
	})
	status, _ := answer["status"].(Object)
	token, _ := status["token"].(string)
	if token == "" {
		l.t.Fatalf("no token in %v", answer)
	}
	return token
}

// Node creates a node whose kubelet listens on a port of 127.0.0.1.
func (l *Lab) Node(name string, port int) {
	l.t.Helper()
	l.Do(http.MethodPost, "/api/v1/nodes", Object{"metadata": Object{"name": name}, "spec": Object{"providerID": "lab://" + name}})
	l.Do(http.MethodPatch, "/api/v1/nodes/"+name+"/status", Object{"status": Object{
		"addresses":       []Object{{"type": "InternalIP", "address": "127.0.0.1"}},
		"daemonEndpoints": Object{"kubeletEndpoint": Object{"Port": port}},
	}})
}

// PodSpec describes a pod for Pod.
type PodSpec struct {
	Namespace, Name, Node string
	// Containers are names; the image of each is Image or
	// "example.test/NAME:v1.2.3".
	Containers []string
	Init       []string
	Image      string
	Labels     map[string]string
	// Owner is KIND/NAME of a controller.
	Owner string
}

// Pod creates a pod whose containers are waiting.
func (l *Lab) Pod(p PodSpec) {
	l.t.Helper()
	containers := func(names []string) []Object {
		var out []Object
		for _, name := range names {
			image := p.Image
			if image == "" {
				image = "example.test/" + name + ":v1.2.3"
			}
			out = append(out, Object{"name": name, "image": image})
		}
		return out
	}
	meta := Object{"name": p.Name, "labels": p.Labels}
	if kind, name, ok := cut(p.Owner); ok {
		meta["ownerReferences"] = []Object{{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "5d3b7a52-0000-4000-8000-000000000000", "controller": true}}
	}
	l.Do(http.MethodPost, "/api/v1/namespaces/"+p.Namespace+"/pods", Object{
		"metadata": meta,
		"spec":     Object{"nodeName": p.Node, "containers": containers(p.Containers), "initContainers": containers(p.Init)},
	})
}

func cut(owner string) (kind, name string, ok bool) {
	for i := range owner {
		if owner[i] == '/' {
			return owner[:i], owner[i+1:], true
		}
	}
	return "", "", false
}

// ContainerStatus is the state of one container for SetStatus.
type ContainerStatus struct {
	Name     string
	Restarts int
	// Exited means that the newest instance has ended.
	Exited bool
	// Started is when the newest instance started; Ended is when it, or the
	// previous one, ended. Zero means now.
	Started, Ended time.Time
}

// SetStatus reports the state of a pod's containers to the API, like the
// kubelet.
func (l *Lab) SetStatus(ns, pod string, containers ...ContainerStatus) {
	l.t.Helper()
	stamp := func(t time.Time) string {
		if t.IsZero() {
			t = time.Now()
		}
		return t.UTC().Format(time.RFC3339)
	}
	var statuses []Object
	for _, c := range containers {
		s := Object{
			"name": c.Name, "restartCount": c.Restarts, "ready": !c.Exited, "image": "", "imageID": "",
			"containerID": fmt.Sprintf("containerd://%s-%s-%d", pod, c.Name, c.Restarts),
			"state":       Object{"running": Object{"startedAt": stamp(c.Started)}},
		}
		ended := func(n int) Object {
			return Object{"terminated": Object{
				"exitCode": 1, "startedAt": stamp(c.Started), "finishedAt": stamp(c.Ended),
				"containerID": fmt.Sprintf("containerd://%s-%s-%d", pod, c.Name, n),
			}}
		}
		if c.Exited {
			s["state"] = ended(c.Restarts)
		}
		if c.Restarts > 0 {
			s["lastState"] = ended(c.Restarts - 1)
		}
		statuses = append(statuses, s)
	}
	l.Do(http.MethodPatch, "/api/v1/namespaces/"+ns+"/pods/"+pod+"/status", Object{"status": Object{"phase": "Running", "containerStatuses": statuses}})
}

// DeletePod deletes a pod immediately.
func (l *Lab) DeletePod(ns, pod string) {
	l.t.Helper()
	l.Do(http.MethodDelete, "/api/v1/namespaces/"+ns+"/pods/"+pod, Object{"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
}
