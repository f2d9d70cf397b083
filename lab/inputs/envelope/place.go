package envelope

import (
	"bytes"
	"regexp"
	"strings"
)

// Place is where a line was written. A field is empty if the envelope does not state it.
type Place struct {
	Cluster, Namespace, Pod, Container, Node string
	// Unit, Identifier and Transport are those of the systemd journal.
	Unit, Identifier, Transport string
	// Name tells apart the origins of lines that are no pods, such as services of Docker
	// Compose.
	Name string
}

// fields returns the fields in the order of their roles, and the name.
func (p *Place) fields() [9]*string {
	return [...]*string{rolePod - 1: &p.Pod, roleNamespace - 1: &p.Namespace, roleContainer - 1: &p.Container, roleNode - 1: &p.Node, roleCluster - 1: &p.Cluster, roleUnit - 1: &p.Unit, roleIdentifier - 1: &p.Identifier, roleTransport - 1: &p.Transport, roleTransport: &p.Name}
}

// merge adds to a place what a further part of the envelope says.
func merge(p Place, more *Place) Place {
	if p == (Place{}) {
		return *more
	}
	to := p.fields()
	for i, from := range more.fields() {
		if *from != "" {
			*to[i] = *from
		}
	}
	return p
}

// isName reports whether a text can be the name of a Kubernetes object.
func isName(s []byte) bool {
	if len(s) == 0 || len(s) > 253 {
		return false
	}
	for i, c := range s {
		switch {
		case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
		case (c == '-' || c == '.') && i > 0 && i < len(s)-1:
		default:
			return false
		}
	}
	return true
}

// madePod matches a name that a controller made: of a Deployment, a DaemonSet or Job, a
// StatefulSet. Kubernetes makes the random parts of letters without vowels, and of digits.
var madePod = regexp.MustCompile(`^[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?-(?:[0-9a-f]{5,10}-[bcdfghjklmnpqrstvwxz2456789]{5}|[bcdfghjklmnpqrstvwxz2456789]{5}|[0-9]{1,4})$`)

// likelyPod matches the same with letters that Kubernetes does not use: people change names.
var likelyPod = regexp.MustCompile(`-[a-z0-9]{4,10}-[a-z0-9]{5}$`)

// staticPod matches a static pod of the control plane.
var staticPod = regexp.MustCompile(`^(?:etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kube-vip|haproxy|keepalived|cloud-controller-manager)-[a-z0-9][-a-z0-9.]*$`)

// hash matches the end of the name of a stream or an instance, which is longer than that of a pod.
var hash = regexp.MustCompile(`-[0-9a-f]{16,}$`)

func isPod(s []byte) bool {
	if !isName(s) || s[0] <= '9' || hash.Match(s) { // a date, or the name of an image
		return false
	}
	at := likelyPod.FindIndex(s)
	return at != nil && bytes.ContainsAny(s[at[0]:], "0123456789") || madePod.Match(s) || staticPod.Match(s)
}

// placeOfPath reads the path or the tag of a log of a container: those of the kubelet, and
// what shippers make of them, such as kube.var.log.containers.POD_NS_CONTAINER-ID.log.
func placeOfPath(s []byte) (p Place, ok bool) {
	if bytes.HasPrefix(s, []byte("k8s_")) || bytes.HasPrefix(s, []byte("/k8s_")) { // names of Docker
		f := bytes.Split(bytes.TrimPrefix(s, []byte("/")), []byte("_"))
		if len(f) >= 4 && isName(f[1]) && isName(f[2]) && isName(f[3]) {
			return Place{Container: string(f[1]), Pod: string(f[2]), Namespace: string(f[3])}, true
		}
		return p, false
	}
	if !bytes.Contains(s, []byte("_")) || !bytes.Contains(s, []byte("log")) {
		return p, false
	}
	if k := bytes.LastIndex(s, []byte("pods/")); k >= 0 {
		f := bytes.Split(s[k+len("pods/"):], []byte("/"))
		if len(f) >= 3 {
			names := bytes.Split(f[0], []byte("_"))
			if len(names) == 3 && isName(names[0]) && isName(names[1]) && isName(f[1]) {
				return Place{Namespace: string(names[0]), Pod: string(names[1]), Container: string(f[1])}, true
			}
		}
	}
	file := s
	if k := bytes.LastIndexAny(file, "/"); k >= 0 {
		file = file[k+1:]
	}
	if k := bytes.LastIndex(file, []byte("containers.")); k >= 0 {
		file = file[k+len("containers."):]
	}
	m := containerLog.FindSubmatch(file)
	if m == nil || !isName(m[1]) || !isName(m[2]) || !isName(m[3]) {
		return p, false
	}
	return Place{Pod: string(m[1]), Namespace: string(m[2]), Container: string(m[3])}, true
}

var containerLog = regexp.MustCompile(`^([^_]+)_([^_]+)_(.+)-[0-9a-f]{12,64}(?:\.log)?$`)

// placeOfWords reads the place in the words before a line, such as NAMESPACE/POD[CONTAINER].
// sure means that the words can hardly be anything else.
func placeOfWords(prefix []byte) (p Place, sure bool) {
	if p, ok := placeOfPath(bytes.TrimRight(prefix, ": \t")); ok {
		return p, true
	}
	if rest, ok := bytes.CutPrefix(prefix, []byte("[pod/")); ok {
		pod, container, ok := bytes.Cut(bytes.TrimRight(rest, "] "), []byte("/"))
		return Place{Pod: string(pod), Container: string(container)}, ok && isName(pod) && isName(container)
	}
	var names [][]byte
	pod := -1
	kubectl := false
	for _, w := range bytes.FieldsFunc(prefix, func(r rune) bool { return strings.ContainsRune(" \t[]()<>{}|:/,;#*", r) || r > 127 }) {
		if string(w) == "pod" || string(w) == "pods" || string(w) == "container" || string(w) == "ns" {
			kubectl = kubectl || string(w) == "pod"
			continue
		}
		w = bytes.TrimSuffix(w, []byte("."))
		if !isName(w) || len(bytes.Trim(w, "0123456789.-")) == 0 || w[0] <= '9' && len(bytes.Trim(w, "0123456789smhd")) == 0 { // no number, and no age
			continue
		}
		if pod < 0 && (isPod(w) || kubectl) {
			pod = len(names)
		}
		names = append(names, w)
	}
	if pod >= 0 {
		p.Pod = string(names[pod])
		if pod > 0 {
			p.Namespace = string(names[pod-1])
		}
		if pod+1 < len(names) {
			p.Container = string(names[pod+1])
		}
		return p, true
	}
	compact := bytes.TrimRight(bytes.TrimSpace(prefix), ":|")
	slash, open := bytes.IndexByte(compact, '/'), bytes.IndexByte(compact, '[')
	if slash > 0 && open > slash && len(names) == 3 {
		return Place{Namespace: string(names[0]), Pod: string(names[1]), Container: string(names[2])}, true
	}
	return Place{Name: string(bytes.TrimSpace(bytes.TrimRight(prefix, " \t:|")))}, false
}
