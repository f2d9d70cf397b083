package episodes

import (
	"slices"
	"time"

	"crowsnest/episodes/internal/instant"
	"crowsnest/episodes/internal/window"
	"crowsnest/matcher"
)

// podDeletedDelay is how long after the deletion of a pod its episodes end: until then its
// last lines may be read, and a pod of the same name may start.
const podDeletedDelay = 5 * time.Minute

// maxDeletedPods is how many deleted pods are remembered, the newest ones.
const maxDeletedPods = 4096

// podName names a pod of one cluster.
type podName struct {
	Namespace, Name string
	identity        string // end of a key
}

// PodDeleted reports that a pod was deleted at t. Its labels are those of its streams:
// namespace, pod, and the labels of the identity. The pod can no longer write a clear
// line, so podDeletedDelay later, by the clock of Evaluate, the episodes whose key names
// the pod and that no line has extended since t end with ReasonPodDeleted.
func (e *Engine) PodDeleted(pod matcher.Labels, t time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	name := podName{pod["namespace"], pod["pod"], e.in.Identity(pod).Suffix()}
	e.deletedPods.Remove(name) // so that entries stay in order of their deletion
	e.deletedPods.Add(name, instant.Of(t))
}

// endDeletedPods ends the episodes of pods that were deleted long enough ago.
func (e *Engine) endDeletedPods(now int64) {
	for e.deletedPods.Len() > 0 {
		name, at, _ := e.deletedPods.GetOldest()
		if at+int64(podDeletedDelay) > now {
			return
		}
		e.deletedPods.RemoveOldest()
		for _, rs := range e.order {
			if len(rs.open) == 0 || rs.quarantined || !slices.Contains(rs.rule.By, "pod") {
				continue
			}
			e.guard(rs, now, func() {
				for _, ep := range rs.sorted() {
					if ep.newest <= at && ep.names(name) {
						ep.close(ReasonPodDeleted, max(at, ep.newest), now, window.Text{})
					}
				}
			})
		}
	}
}

// names reports whether the key of the episode names the pod. If the key has no
// namespace, the stream's counts.
func (ep *episode) names(pod podName) bool {
	namespace := ep.namespace
	for i, label := range ep.rs.rule.By {
		switch label {
		case "pod":
			if ep.values[i] != pod.Name {
				return false
			}
		case "namespace":
			namespace = ep.values[i]
		}
	}
	return namespace == pod.Namespace && (ep.loose || ep.who.Suffix() == pod.identity)
}
