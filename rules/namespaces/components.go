package namespaces

import "strings"

// Components finds known components by the names of their pods. It is immutable and safe for
// concurrent use.
type Components struct {
	byWorkload map[string]component
}

// NewComponents returns the components of the built-in list of namespaces.
func NewComponents() *Components {
	c := &Components{byWorkload: map[string]component{}}
	for _, known := range infrastructure() {
		for _, w := range known.workloads {
			c.byWorkload[w] = known
		}
	}
	return c
}

// OfPod returns the name of the component whose Deployment, DaemonSet or StatefulSet created a
// pod, or "" if it is not known. A pod can have any name, so the result is a hint, not a proof.
func (c *Components) OfPod(pod string) string {
	workload, last, ok := cutLastDash(pod)
	if !ok || len(last) != 5 && strings.Trim(last, "0123456789") != "" {
		return ""
	}
	if known, ok := c.byWorkload[workload]; ok {
		return known.name
	}
	// A Deployment's pods also have the hash of their ReplicaSet.
	if workload, hash, ok := cutLastDash(workload); ok && len(hash) >= 6 && len(hash) <= 10 {
		return c.byWorkload[workload].name
	}
	return ""
}

func cutLastDash(s string) (before, after string, found bool) {
	i := strings.LastIndexByte(s, '-')
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}
