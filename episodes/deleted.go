package episodes

import (
	"math"
	"slices"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"crowsnest/episodes/internal/instant"
	"crowsnest/episodes/internal/intake"
	"crowsnest/episodes/internal/saved"
	"crowsnest/episodes/internal/window"
	"crowsnest/internal/quota"
	"crowsnest/matcher"
	"crowsnest/redact"
)

// podDeletedDelay is the time between the deletion of a pod and the end of its episodes. During this time the pod's
// last lines may be read, and a pod of the same name may start.
const podDeletedDelay = 5 * time.Minute

// maxDeletedPods is the maximum number of deleted pods that are remembered. If there are more, the oldest are
// forgotten.
const maxDeletedPods = 4096

type podName struct {
	Namespace, Name string
	identity        string // identity part of the keys that name the pod
}

// PodDeleted reports that a pod was deleted at t. Its labels are the labels of its streams, which are namespace, pod,
// and the labels of the identity. A deleted pod can no longer write a clear line. Therefore the episodes whose key
// names the pod end with ReasonPodDeleted, unless a line after t has extended them. They end podDeletedDelay after t,
// by the clock of Evaluate. A key of a rule with `silent` that names the pod is disarmed at once, and lines up to t do
// not arm it.
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
					if ep.newest <= at && rs.namesPod(name, ep.values, ep.namespace, ep.who, ep.partialIdentity) {
						ep.close(ReasonPodDeleted, max(at, ep.newest), now, window.Text{})
					}
				}
			})
		}
	}
}

// podTimes maps pods to the times of their deletion, the oldest first.
type podTimes struct{ *simplelru.LRU[podName, int64] }

func newPodTimes() podTimes { return podTimes{quota.NewLRU[podName, int64](maxDeletedPods)} }

func (d podTimes) noteDeletion(pod podName, t int64) {
	d.Remove(pod) // keeps the entries in the order of deletion
	d.Add(pod, t)
}

func (d podTimes) wasDeletedSince(pod podName, t int64) bool {
	at, ok := d.Peek(pod)
	return ok && t <= at
}

func (d podTimes) save() (out []saved.DeletedPod) {
	for _, pod := range d.Keys() {
		at, _ := d.Peek(pod)
		out = append(out, saved.DeletedPod{Namespace: pod.Namespace, Name: pod.Name, Identity: []byte(pod.identity), At: at})
	}
	return out
}

func (d podTimes) load(pods []saved.DeletedPod) {
	for _, pod := range pods {
		d.Add(podName{pod.Namespace, pod.Name, string(pod.Identity)}, pod.At)
	}
}

func (d podTimes) moveTimes(delta int64) {
	for _, pod := range d.Keys() {
		if at, ok := d.Peek(pod); ok {
			d.Add(pod, at+delta)
		}
	}
}

func (rs *ruleState) byPod() bool { return slices.Contains(rs.rule.By, "pod") }

// namesPod reports whether a key names the pod. The key consists of these values of `by` and the identity who, or any
// identity if loose is set. If the key has no namespace, the namespace of the stream counts.
func (rs *ruleState) namesPod(pod podName, values []redact.Text, namespace string, who *intake.Identity, loose bool) bool {
	name := rs.podOfKey(values, namespace, who)
	if loose {
		name.identity = pod.identity
	}
	return name == pod
}

func (rs *ruleState) podOfKey(values []redact.Text, namespace string, who *intake.Identity) podName {
	pod := podName{Namespace: namespace, identity: who.KeySuffix()}
	for i, label := range rs.rule.By {
		switch label {
		case "pod":
			pod.Name = string(values[i])
		case "namespace":
			pod.Namespace = string(values[i])
		}
	}
	return pod
}

func (e *Engine) disarmDeleted(pod podName, t int64) {
	needed := false
	for _, rs := range e.order {
		if rs.armed == nil || rs.quarantined || !rs.byPod() {
			continue
		}
		needed = true
		e.runGuarded(rs, e.limits.losses.Now, func() {
			for _, x := range rs.armed.Items {
				if k := x.Value; !k.disarmed && k.last.T <= t && rs.namesPod(pod, k.values, k.namespace, k.who, k.partialIdentity) {
					k.setDisarmed(true)
				}
			}
		})
	}
	if needed {
		e.departed.noteDeletion(pod, t)
	}
}

// forgetDeparted forgets deleted pods whose last lines are so old that no rule with `silent` still waits for a line
// after them.
func (e *Engine) forgetDeparted() {
	if e.departed.Len() == 0 {
		return
	}
	over := int64(math.MaxInt64)
	for _, rs := range e.order {
		if rs.armed != nil && rs.byPod() {
			over = min(over, rs.watermark()-rs.quietTime())
		}
	}
	for {
		_, at, ok := e.departed.GetOldest()
		if !ok || at > over {
			return
		}
		e.departed.RemoveOldest()
	}
}
