package episodes

import (
	"math"
	"slices"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"crowsnest/episodes/internal/intake"
	"crowsnest/episodes/internal/saved"
	"crowsnest/internal/quota"
	"crowsnest/redact"
)

// podTimes maps pods to the times of their deletion, the oldest first.
type podTimes struct{ *simplelru.LRU[podName, int64] }

func newPodTimes() podTimes { return podTimes{quota.NewLRU[podName, int64](maxDeletedPods)} }

// noteDeletion notes the deletion of a pod.
func (d podTimes) noteDeletion(pod podName, t int64) {
	d.Remove(pod) // so that the entries stay in order of deletion
	d.Add(pod, t)
}

// wasDeletedSince reports whether the pod was deleted at t or later.
func (d podTimes) wasDeletedSince(pod podName, t int64) bool {
	at, ok := d.Peek(pod)
	return ok && t <= at
}

// save returns the saved form.
func (d podTimes) save() (out []saved.DeletedPod) {
	for _, pod := range d.Keys() {
		at, _ := d.Peek(pod)
		out = append(out, saved.DeletedPod{Namespace: pod.Namespace, Name: pod.Name, Identity: []byte(pod.identity), At: at})
	}
	return out
}

// load is the inverse of save.
func (d podTimes) load(pods []saved.DeletedPod) {
	for _, pod := range pods {
		d.Add(podName{pod.Namespace, pod.Name, string(pod.Identity)}, pod.At)
	}
}

// moveTimes adds delta to every time.
func (d podTimes) moveTimes(delta int64) {
	for _, pod := range d.Keys() {
		if at, ok := d.Peek(pod); ok {
			d.Add(pod, at+delta)
		}
	}
}

// byPod reports whether the rule's key contains the name of a pod.
func (rs *ruleState) byPod() bool { return slices.Contains(rs.rule.By, "pod") }

// podOfKey returns the pod that a key names. If the key has no namespace, the namespace of the
// stream counts.
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

// disarmDeleted disarms the keys that name a pod that was deleted at t.
func (e *Engine) disarmDeleted(pod podName, t int64) {
	needed := false
	for _, rs := range e.order {
		if rs.armed == nil || rs.quarantined || !rs.byPod() {
			continue
		}
		needed = true
		e.runGuarded(rs, e.limits.losses.Now, func() {
			for _, x := range rs.armed.Items {
				if k := x.Value; !k.disarmed && k.last.T <= t && k.namesPod(pod) {
					k.setDisarmed(true)
				}
			}
		})
	}
	if needed {
		e.departed.noteDeletion(pod, t)
	}
}

// forgetDeparted forgets deleted pods whose last lines are so old that no rule with `silent`
// still waits for the next one.
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

// namesPod reports whether the key names the pod.
func (k *armedKey) namesPod(pod podName) bool {
	name := k.in.rs.podOfKey(k.values, k.namespace, k.who)
	if k.loose {
		name.identity = pod.identity
	}
	return name == pod
}
