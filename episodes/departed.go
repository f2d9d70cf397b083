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

// note notes the deletion of a pod.
func (d podTimes) note(pod podName, at int64) {
	d.Remove(pod) // so that entries stay in order of their deletion
	d.Add(pod, at)
}

// after reports whether the pod was deleted at t or later.
func (d podTimes) after(pod podName, t int64) bool {
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

// move adds by to every time.
func (d podTimes) move(by int64) {
	for _, pod := range d.Keys() {
		if at, ok := d.Peek(pod); ok {
			d.Add(pod, at+by)
		}
	}
}

// byPod reports whether the key of the rule names a pod.
func (rs *ruleState) byPod() bool { return slices.Contains(rs.rule.By, "pod") }

// podOf returns the pod that a key names. If the key has no namespace, that of the stream
// counts.
func (rs *ruleState) podOf(values []redact.Text, namespace string, who *intake.Identity) podName {
	pod := podName{Namespace: namespace, identity: who.Suffix()}
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

// disarmDeleted disarms the keys that name a pod, which was deleted at a time.
func (e *Engine) disarmDeleted(pod podName, at int64) {
	needed := false
	for _, rs := range e.order {
		if rs.armed == nil || rs.quarantined || !rs.byPod() {
			continue
		}
		needed = true
		e.guard(rs, e.limits.losses.Now, func() {
			for _, x := range rs.armed.Items {
				if k := x.Value; !k.disarmed && k.last.T <= at && k.names(pod) {
					k.set(true)
				}
			}
		})
	}
	if needed {
		e.departed.note(pod, at)
	}
}

// forgetDeparted forgets the pods whose lines are so old that their silence would be over for
// every rule.
func (e *Engine) forgetDeparted() {
	if e.departed.Len() == 0 {
		return
	}
	over := int64(math.MaxInt64)
	for _, rs := range e.order {
		if rs.armed != nil && rs.byPod() {
			over = min(over, rs.watermark()-rs.quiet())
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

// names reports whether the key names the pod.
func (k *armedKey) names(pod podName) bool {
	name := k.in.rs.podOf(k.values, k.namespace, k.who)
	if k.loose {
		name.identity = pod.identity
	}
	return name == pod
}
