package episodes

import (
	"time"

	"crowsnest/episodes/internal/instant"
	"crowsnest/episodes/internal/window"
	"crowsnest/matcher"
)

// podDeletedDelay is the time between the deletion of a pod and the end of its episodes. Until
// then its last lines may be read, and a pod of the same name may start.
const podDeletedDelay = 5 * time.Minute

// maxDeletedPods is the number of deleted pods that are remembered, which are the newest ones.
const maxDeletedPods = 4096

// podName names a pod of one cluster.
type podName struct {
	Namespace, Name string
	identity        string // identity part of a key
}

// PodDeleted reports that a pod was deleted at t. Its labels are those of its streams, which
// are namespace, pod, and the labels of the identity. The pod can no longer write a clear line.
// So podDeletedDelay later, by the clock of Evaluate, the episodes whose key names the pod and
// that no line has extended since t end with ReasonPodDeleted. A key of a rule with `silent`
// that names the pod is disarmed at once, and lines up to t do not arm it.
func (e *Engine) PodDeleted(pod matcher.Labels, t time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	name, at := podName{pod["namespace"], pod["pod"], e.in.Identity(pod).KeySuffix()}, instant.FromTime(t)
	e.deletedPods.noteDeletion(name, at)
	e.disarmDeleted(name, at)
}

// endDeletedPods ends the episodes of pods that were deleted long enough ago.
func (e *Engine) endDeletedPods(now int64) {
	e.forgetDeparted()
	for e.deletedPods.Len() > 0 {
		name, at, _ := e.deletedPods.GetOldest()
		if at+int64(podDeletedDelay) > now {
			return
		}
		e.deletedPods.RemoveOldest()
		for _, rs := range e.order {
			if len(rs.open) == 0 || rs.quarantined || !rs.byPod() {
				continue
			}
			e.runGuarded(rs, now, func() {
				for _, ep := range rs.sortedEpisodes() {
					if ep.newest <= at && ep.namesPod(name) {
						ep.close(ReasonPodDeleted, max(at, ep.newest), now, window.Text{})
					}
				}
			})
		}
	}
}

// namesPod reports whether the key of the episode names the pod.
func (ep *episode) namesPod(pod podName) bool {
	name := ep.rs.podOfKey(ep.values, ep.namespace, ep.who)
	if ep.loose {
		name.identity = pod.identity
	}
	return name == pod
}
