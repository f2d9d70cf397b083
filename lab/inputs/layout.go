package inputs

import (
	"os"
	"path/filepath"
	"strings"

	"crowsnest/internal/lazyre"
	"crowsnest/lab/inputs/envelope"
	"crowsnest/matcher"
)

// Layouts in which tools save pod logs, besides the layout of the kubelet. Words in capitals
// are names.
//
//	oc adm must-gather, inspect   namespaces/NS/pods/POD/CONTAINER/CONTAINER/logs/current.log
//	support bundles (Harvester,   logs/NS/POD/CONTAINER.log
//	Longhorn, troubleshoot)
//	Cluster API's tests           clusters/CLUSTER/logs/NS/DEPLOYMENT/POD/CONTAINER.log
//	cluster-info dump             NS/POD/logs.txt, with a section for each container
//	/var/log/containers           POD_NS_CONTAINER-ID.log
//	kind export logs              NODE/pods/..., NODE/containers/...
//	support bundles               nodes/NODE/...
var (
	containerLink = lazyre.New(`^([^_]+)_([^_]+)_(.+)-[0-9a-f]{64}\.log$`)
	// rotation matches the suffix after the name of a container.
	rotation = lazyre.New(`(?:[-.](?:previous|prev))?(?:\.(?:log|txt))(?:[-.](?:previous|prev|[0-9][-0-9T:.]*))?(?:\.gz)?$`)
)

// layoutLabels returns the labels that a path in one of the layouts implies.
func layoutLabels(path string) matcher.Labels {
	f := strings.Split(filepath.ToSlash(filepath.Clean(path)), "/")
	labels := matcher.Labels{}
	set := func(name, value string) {
		if envelope.IsName(value) {
			labels[name] = value
		}
	}
	set("cluster", fieldAfter(f, "clusters", "logs"))
	set("node_name", nodeOf(f))
	if ns, pod, container, ok := podOf(f); ok {
		set("namespace", ns)
		set("pod", pod)
		set("container", container)
	}
	if len(labels) > 0 {
		labels["filename"] = path
	}
	return labels
}

// podOf returns the namespace, pod and container in a path. A name that the path does not contain is "".
func podOf(f []string) (ns, pod, container string, ok bool) {
	file := f[len(f)-1]
	if m := containerLink.FindStringSubmatch(file); m != nil {
		return m[2], m[1], m[3], true
	}
	if i := lastIndexOf(f, "namespaces"); i >= 0 && len(f) > i+6 && f[i+2] == "pods" && f[i+4] == f[i+5] {
		return f[i+1], f[i+3], f[i+4], true
	}
	if file == "logs.txt" && len(f) >= 3 && envelope.IsName(f[len(f)-3]) && envelope.IsName(f[len(f)-2]) {
		return f[len(f)-3], f[len(f)-2], "", true
	}
	i := lastIndexOf(f, "logs")
	if i < 0 {
		return "", "", "", false
	}
	end := rotation.FindStringIndex(file)
	if end == nil || end[0] == 0 {
		return "", "", "", false
	}
	container = file[:end[0]]
	switch names := f[i+1 : len(f)-1]; len(names) {
	case 2:
		return names[0], names[1], container, true
	case 3:
		return names[0], names[2], container, strings.HasPrefix(names[2], names[1]+"-")
	}
	return "", "", "", false
}

// nodeOf returns the name of the node in a path. In a bundle or an export of kind, the name of a folder is the name of
// the node.
func nodeOf(f []string) string {
	if i := lastIndexOf(f, "nodes"); i >= 0 && len(f) > i+2 {
		return strings.TrimSuffix(f[i+1], ".zip") // Harvester packs the folder of each node into a zip file
	}
	for _, dir := range []string{"pods", "containers"} {
		i := lastIndexOf(f, dir)
		if i < 1 || len(f) <= i+1 || !strings.Contains(f[i+1], "_") {
			continue
		}
		// Any folder may be named pods, but only an export of kind also has kubelet.log.
		if _, err := os.Stat(filepath.FromSlash(strings.Join(f[:i], "/") + "/kubelet.log")); err == nil {
			return f[i-1]
		}
	}
	return ""
}

func fieldAfter(f []string, before, behind string) string {
	if i := lastIndexOf(f, before); i >= 0 && len(f) > i+2 && f[i+2] == behind {
		return f[i+1]
	}
	return ""
}

func lastIndexOf(f []string, name string) int {
	for i := len(f) - 2; i >= 0; i-- {
		if f[i] == name {
			return i
		}
	}
	return -1
}

// rotationMark matches what rotation, or the restart of a container, adds to the name of a log before
// or after its extension, such as `-previous`, `-2026-01-02T03-04-05.000`, `.1`, `-20260102`
// and `.old`.
var rotationMark = lazyre.New(`(?i)(?:(?:^|[-._])(?:previous|prev|current|old)|[-._][0-9]{4}-?[0-9]{2}-?[0-9]{2}[-0-9T:.Z]*)?(\.log|\.txt|\.out)?(?:[-._](?:previous|prev|old)|\.[0-9][-0-9T:.]*|-[0-9]{8}[-0-9T:.]*)?$`)

// endsInAddress matches a name that ends in an IP address, such as 10.0.0.1. The last number of the address is not a
// rotation number.
var endsInAddress = lazyre.New(`(?:^|[^.0-9])[0-9]+(?:\.[0-9]+){3}$`)

func unrotated(path string) string {
	for _, packed := range []string{".gz", ".zst", ".xz", ".bz2"} {
		path = strings.TrimSuffix(path, packed)
	}
	dir, file := filepath.Split(path)
	if endsInAddress.MatchString(file) {
		return path
	}
	if file = rotationMark.ReplaceAllString(file, "$1"); file == "" || file[0] == '.' {
		file = "current" + file
	}
	return dir + file
}
