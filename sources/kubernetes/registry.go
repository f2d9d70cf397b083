package kubernetes

import (
	"maps"
	"slices"
	"time"

	"crowsnest/matcher"
)

// updatePod applies what the API reports about a pod.
func (s *Source) updatePod(p *pod) {
	name := p.name()
	if !s.cfg.selects(name.namespace, name.name) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, changed := s.cfg.Clock(), false
	for _, c := range p.containers() {
		st := s.all[c.key()]
		if st == nil {
			st = newStream(s, c, now)
			st.pos = s.saved[st.key]
			delete(s.saved, st.key)
			s.all[st.key] = st
			changed = true
		}
		changed = st.updateContainer(c) || changed
	}
	if changed {
		s.wakeUp()
	}
}

// unlistedPods returns the known pods that are not in found. They are in one namespace, or in
// any if namespace is "".
func (s *Source) unlistedPods(namespace string, found map[podName]bool) []podName {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := map[podName]bool{}
	check := func(name podName) {
		if (namespace == "" || namespace == name.namespace) && !found[name] {
			gone[name] = true
		}
	}
	for _, st := range s.all {
		check(st.name)
	}
	for key := range s.saved {
		name, _, _ := splitKey(key)
		check(name)
	}
	return slices.Collect(maps.Keys(gone))
}

// podDeleted is called when a pod was deleted.
func (s *Source) podDeleted(name podName) {
	s.mu.Lock()
	now := s.cfg.Clock()
	known := s.endStreams(name, now, true)
	s.mu.Unlock()
	if known {
		pod := matcher.Labels{"namespace": name.namespace, "pod": name.name}
		maps.Copy(pod, s.cfg.Labels)
		s.pipe.PodDeleted(pod, now)
		s.wakeUp()
	}
}

// dropPod is called when a pod is no longer selected.
func (s *Source) dropPod(name podName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endStreams(name, s.cfg.Clock(), false)
}

// endStreams ends the streams of a pod. It reports whether the pod had streams.
func (s *Source) endStreams(name podName, now time.Time, deleted bool) (known bool) {
	for _, st := range s.all {
		if st.name == name {
			known = st.podGone(now) || known
		}
	}
	for key, old := range s.saved {
		pod, container, _ := splitKey(key)
		if pod != name {
			continue
		}
		known = true
		delete(s.saved, key)
		if deleted && !old.Done {
			s.countLoss("removed", pod.namespace+"/"+pod.name+"/"+container, now)
		}
	}
	return known
}
