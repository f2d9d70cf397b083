package envelope

import (
	"bytes"
	"strings"

	"crowsnest/internal/lazyre"
)

// Place is the origin of a line, such as a container. A field is "" if the envelope does not state it.
type Place struct {
	Cluster, Namespace, Pod, Container, Node string
	// Unit, Identifier and Transport are fields of the systemd journal.
	Unit, Identifier, Transport string
	// Name distinguishes origins that are not pods, such as the services of Docker Compose.
	Name string
}

// fields returns pointers to the fields in the order of their roles. The pointer to Name is last.
func (p *Place) fields() [9]*string {
	return [...]*string{rolePod - 1: &p.Pod, roleNamespace - 1: &p.Namespace, roleContainer - 1: &p.Container, roleNode - 1: &p.Node, roleCluster - 1: &p.Cluster, roleUnit - 1: &p.Unit, roleIdentifier - 1: &p.Identifier, roleTransport - 1: &p.Transport, roleTransport: &p.Name}
}

// merge returns p with the additional data from another layer of the envelope.
func merge(p Place, more *Place) Place {
	to := p.fields()
	for i, from := range more.fields() {
		if *from != "" {
			*to[i] = *from
		}
	}
	return p
}

// IsName reports whether s can be the name of a Kubernetes object.
func IsName[T string | []byte](s T) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
		case (c == '-' || c == '.') && i > 0 && i < len(s)-1:
		default:
			return false
		}
	}
	return len(s) > 0 && len(s) <= 253
}

var (
	// madePod matches the name of a pod that a controller created for a Deployment, a DaemonSet, a Job or a
	// StatefulSet. The random parts of such names have only digits and consonants.
	madePod = lazyre.New(`^[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?-(?:[0-9a-f]{5,10}-[bcdfghjklmnpqrstvwxz2456789]{5}|[bcdfghjklmnpqrstvwxz2456789]{5}|[0-9]{1,4})$`)
	// likelyPod matches similar names with any letters, because people change names.
	likelyPod = lazyre.New(`-[a-z0-9]{4,10}-[a-z0-9]{5}$`)
	// staticPod matches the name of a static pod of the control plane.
	staticPod = lazyre.New(`^(?:etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kube-vip|haproxy|keepalived|cloud-controller-manager)-[a-z0-9][-a-z0-9.]*$`)
	// longHash matches the end of the name of a log stream or an instance.
	longHash = lazyre.New(`-[0-9a-f]{16,}$`)
)

func isPod(s []byte) bool {
	if !IsName(s) || s[0] <= '9' || longHash.Match(s) { // a word that begins with a digit or ends with a hash is a date or the name of an image
		return false
	}
	at := likelyPod.FindIndex(s)
	return at != nil && bytes.ContainsAny(s[at[0]:], "0123456789") || madePod.Match(s) || staticPod.Match(s)
}

// logNames matches the names that container runtimes, the kubelet and shippers give to the log of a container, such as
// kube.var.log.containers.POD_NS_CONTAINER-ID.log.
var logNames = []*lazyre.Regexp{
	lazyre.New(`^/?k8s_(?P<container>[^_]+)_(?P<pod>[^_]+)_(?P<ns>[^_]+)`),
	lazyre.New(`log.*pods/(?P<ns>[^_/]+)_(?P<pod>[^_/]+)_[^_/]*/(?P<container>[^/]+)/`),
	lazyre.New(`log.*containers[./](?:.*/)?(?P<pod>[^_/]+)_(?P<ns>[^_/]+)_(?P<container>[^/]+)-[0-9a-f]{12,64}(?:\.log)?$`),
	lazyre.New(`^(?:.*/)?(?P<pod>[^_/]+)_(?P<ns>[^_/]+)_(?P<container>[^/]+)-[0-9a-f]{12,64}\.log$`),
}

func placeOfPath(s []byte) (p Place, ok bool) {
	if bytes.IndexByte(s, '_') < 0 {
		return p, false
	}
	for _, expr := range logNames {
		if m := expr.FindSubmatch(s); m != nil {
			ns, pod, container := m[expr.SubexpIndex("ns")], m[expr.SubexpIndex("pod")], m[expr.SubexpIndex("container")]
			if IsName(ns) && IsName(pod) && IsName(container) {
				return Place{Namespace: string(ns), Pod: string(pod), Container: string(container)}, true
			}
		}
	}
	return p, false
}

// placeOfWords returns the origin that the words before a line name, such as NAMESPACE/POD[CONTAINER]. sure reports
// whether the words can hardly have another meaning.
func placeOfWords(prefix []byte) (p Place, sure bool) {
	if p, ok := placeOfPath(bytes.TrimRight(prefix, ": \t")); ok {
		return p, true
	}
	if rest, ok := bytes.CutPrefix(prefix, []byte("[pod/")); ok {
		pod, container, ok := bytes.Cut(bytes.TrimRight(rest, "] "), []byte("/"))
		return Place{Pod: string(pod), Container: string(container)}, ok && IsName(pod) && IsName(container)
	}
	var names []string
	pod, kubectl := -1, false
	for _, w := range bytes.FieldsFunc(prefix, func(r rune) bool { return strings.ContainsRune(" \t[]()<>{}|:/,;#*", r) || r > 127 }) {
		switch w = bytes.TrimSuffix(w, []byte(".")); string(w) {
		case "pod":
			kubectl = true
			continue
		case "pods", "container", "ns":
			continue
		}
		if !IsName(w) || len(bytes.Trim(w, "0123456789.-")) == 0 || w[0] <= '9' && len(bytes.Trim(w, "0123456789smhd")) == 0 { // such a word is a number or an age
			continue
		}
		if pod < 0 && (isPod(w) || kubectl) {
			pod = len(names)
		}
		names = append(names, string(w))
	}
	compact := bytes.TrimSpace(prefix)
	if slash := bytes.IndexByte(compact, '/'); pod < 0 && len(names) == 3 && slash > 0 && bytes.IndexByte(compact, '[') > slash {
		pod = 1
	}
	if pod < 0 {
		return Place{Name: string(bytes.TrimSpace(bytes.TrimRight(prefix, " \t:|")))}, false
	}
	p.Pod = names[pod]
	if pod > 0 {
		p.Namespace = names[pod-1]
	}
	if pod+1 < len(names) {
		p.Container = names[pod+1]
	}
	return p, true
}
