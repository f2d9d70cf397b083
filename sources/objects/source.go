package objects

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"crowsnest/internal/times"
	"crowsnest/kube"
	"crowsnest/sources"
)

// Source writes the state of objects as lines. It is safe for concurrent use.
type Source struct {
	output
	cfg     Config
	readers []*reader
	pods    *reader // reader of pods; nil if pods are not read

	// turn is held while lines are written or objects change. The readers share streams. turn
	// is locked before mu.
	turn       sync.Mutex
	comparison comparison

	room room // shared by the objects of all readers; guarded by turn, and changed only with mu held too
}

// New returns a source. It does no I/O.
func New(cfg Config) *Source {
	cfg = cfg.withDefaults()
	s := &Source{cfg: cfg, room: newRoom(cfg.MaxObjects), output: output{
		name: cfg.Name, components: cfg.Components(), labels: cfg.Labels, clock: cfg.Clock, streams: map[streamKey]*stream{},
		client: kube.New(kube.Options{Kubeconfig: cfg.Kubeconfig, Transport: cfg.Transport}),
		status: sources.Status{Name: cfg.Name, Errors: map[string]int64{"read": 0}, Losses: map[string]sources.Loss{}},
	}}
	for _, name := range cfg.Kinds {
		r := newReader(s, kind(name))
		s.readers = append(s.readers, r)
		switch k := kind(name); {
		case k == pods:
			s.pods = r
		case cfg.Machines != nil && k == nodes:
			s.comparison.nodes = r
		case cfg.Machines != nil && k == machines:
			s.comparison.machines = r
		}
	}
	return s
}

// Info implements sources.Source.
func (s *Source) Info() sources.Info { return sources.Info{Remote: true, Images: s} }

// Image returns the image of a container, or "" if pods are not read or the pod is unknown.
func (s *Source) Image(namespace, pod, name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pods == nil {
		return ""
	}
	o := s.pods.objects[namespace+"/"+pod]
	if o == nil {
		return ""
	}
	of := internWord(name)
	i := slices.IndexFunc(o.containers, func(c container) bool { return c.name == of })
	if i < 0 {
		return ""
	}
	return o.containers[i].image.Value()
}

// Running implements sources.Images.
func (s *Source) Running(trusted func(namespace string) bool) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[word]bool{}
	for _, r := range s.readers {
		for _, o := range r.objects {
			for _, v := range o.versions {
				seen[v] = true
			}
			for i := 0; i < len(o.containers) && trusted(o.namespace); i++ {
				seen[o.containers[i].image] = true
			}
		}
	}
	var out []string
	for w := range seen {
		out = append(out, w.Value())
	}
	slices.Sort(out)
	return out
}

// Run reads objects until ctx ends, which also ends requests in progress.
func (s *Source) Run(ctx context.Context, p sources.Pipeline) error {
	var readers []func(context.Context)
	for _, r := range s.readers {
		readers = append(readers, r.run)
	}
	return s.run(ctx, p, readers)
}

// Status implements sources.Source.
func (s *Source) Status() sources.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.copyStatus()
	st.LeftOut = s.room.leftOutOf()
	if st.Up && st.Idle == "" && s.room.used == 0 && len(st.LeftOut) == 0 {
		st.Idle, st.IdleReason = "the API server has no object of the kinds, or none that may be listed; correct kinds", sources.IdleNoLogs
	}
	return st
}

// updateStatus updates the status of the source after the status of a reader has changed.
func (s *Source) updateStatus() {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := &s.status
	st.Error, st.Idle = "", "the API server has none of the kinds; install what defines them, or name others in kinds"
	st.Absent = nil
	ready := true
	for _, r := range s.readers {
		st.Error = cmp.Or(st.Error, r.problem)
		ready = ready && (r.synced || r.absent)
		if r.absent {
			st.Absent = append(st.Absent, string(r.subject.resource))
		} else {
			st.Idle = ""
		}
	}
	st.Up = ready && st.Error == ""
	st.Opened = st.Opened || st.Up
}

// closeIdle forgets streams that had no line for three intervals. Their namespaces no longer
// have objects. The caller holds turn.
func (s *Source) closeIdle(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.streams, func(_ streamKey, st *stream) bool { return now.Sub(st.status.LastRead) > 3*s.cfg.Interval })
}

// advanceWatermark advances the watermark to the time up to which all kinds that the API server
// has were read. Nothing waits for a kind that is missing. When it appears, its lines have the
// time at which they are read. The caller holds turn.
func (s *Source) advanceWatermark() {
	var at, absent time.Time
	for _, r := range s.readers {
		switch {
		case r.absent:
			absent = times.Later(absent, r.progress)
		case r.progress.IsZero():
			return
		case at.IsZero() || r.progress.Before(at):
			at = r.progress
		}
	}
	if at.IsZero() {
		at = absent
	}
	s.closeIdle(at)
	s.withLock(func() { s.status.Watermark = at })
	s.pipe.AdvanceWatermark(s.cfg.Name, at)
}
