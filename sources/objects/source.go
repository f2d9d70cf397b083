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
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
)

// Source writes the state of objects as lines.
type Source struct {
	cfg     Config
	client  *kube.Client
	readers []*reader
	pods    *reader // nil: pods are not read
	pipe    sources.Pipeline

	// turn is held while lines are written, because the readers share streams, and while
	// objects change. It is taken before mu.
	turn       sync.Mutex
	streams    map[streamKey]*stream
	comparison comparison

	mu     sync.Mutex // guards what follows, and the objects of the readers
	status sources.Status
	room   room // of the objects of all readers
}

type streamKey struct {
	component, namespace string
}

// stream is a stream of lines with its state.
type stream struct {
	*matcher.Stream
	status sources.StreamStatus
}

// New returns a source. It does no I/O.
func New(cfg Config) *Source {
	cfg = cfg.withDefaults()
	s := &Source{
		cfg: cfg, streams: map[streamKey]*stream{}, room: newRoom(cfg.MaxObjects),
		client: kube.New(kube.Options{Kubeconfig: cfg.Kubeconfig, Transport: cfg.Transport}),
	}
	s.status = sources.Status{Name: cfg.Name, Errors: map[string]int64{"read": 0}, Losses: map[string]sources.Loss{}}
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

// Name returns "objects" unless the configuration sets another name.
func (s *Source) Name() string { return s.cfg.Name }

// Remote marks the source as served by another process.
func (s *Source) Remote() {}

// Serves reports whether the selector can match a stream of this source.
func (s *Source) Serves(from rules.Selector) bool {
	return slices.ContainsFunc(s.cfg.Components(), func(component string) bool {
		labels := maps.Clone(s.cfg.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		labels["component"] = component
		for _, m := range from.Matchers() {
			// Only the namespace is unknown: any other label is missing.
			if m.Name != "namespace" && !m.Matches(labels[m.Name]) {
				return false
			}
		}
		return true
	})
}

// Image returns the image of a container, "" unless pods are read and its pod is known.
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
	of := wordOf(name)
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

// Run reads until ctx ends, which also ends requests in progress.
func (s *Source) Run(ctx context.Context, p sources.Pipeline) error {
	defer s.client.Close()
	defer s.set(func() { s.status.Up = false })
	s.pipe = p
	var running sync.WaitGroup
	for _, r := range s.readers {
		running.Go(func() { r.run(ctx) })
	}
	running.Wait()
	return nil
}

// Status implements sources.Source.
func (s *Source) Status() sources.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	st.Errors, st.Losses = maps.Clone(st.Errors), maps.Clone(st.Losses)
	st.LeftOut = s.room.leftOutOf()
	if st.Up && st.Idle == "" && s.room.used == 0 && len(st.LeftOut) == 0 {
		st.Idle, st.IdleReason = "the API server has no object of the kinds, or none that may be listed; correct kinds", sources.IdleNoLogs
	}
	for _, key := range slices.SortedFunc(maps.Keys(s.streams), streamKey.compare) {
		st.Streams = append(st.Streams, s.streams[key].status)
	}
	return st
}

func (k streamKey) compare(o streamKey) int {
	return cmp.Or(cmp.Compare(k.component, o.component), cmp.Compare(k.namespace, o.namespace))
}

func (s *Source) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// note updates the status after a reader changed its own.
func (s *Source) note() {
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

// line is a line to be written.
type line struct {
	view      view
	namespace string
	text      string
}

// write passes lines to the pipeline. commit is called with the last of them, or by
// itself if there is none; mu is held. The caller holds turn.
func (s *Source) write(lines []line, at time.Time, commit func()) {
	for i, l := range lines {
		st := s.stream(streamKey{l.view.component(), l.namespace})
		s.pipe.Match(st.Stream, matcher.Record{Time: at, Text: []byte(l.text)}, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			c := st.Counters()
			st.status.Offset, st.status.Size, st.status.Lines, st.status.LastRead = c.Bytes, c.Bytes, c.Lines, at
			s.status.Lines, s.status.Evaluated = s.status.Lines+1, s.status.Evaluated+1
			s.status.Bytes += int64(len(l.text))
			if i == len(lines)-1 {
				commit()
			}
		})
	}
	if len(lines) == 0 {
		s.set(commit)
	}
}

func (s *Source) stream(key streamKey) *stream {
	if st, ok := s.streams[key]; ok {
		return st
	}
	labels := matcher.Labels{}
	maps.Copy(labels, s.cfg.Labels)
	labels["component"] = key.component
	if key.namespace != "" {
		labels["namespace"] = key.namespace
	}
	st := &stream{Stream: matcher.NewStream(labels, matcher.StreamOptions{Format: matcher.FormatText})}
	st.status.Labels = labels
	s.set(func() { s.streams[key] = st })
	return st
}

// closeIdle forgets the streams of namespaces without objects: each has lines within an
// interval. The caller holds turn.
func (s *Source) closeIdle(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.streams, func(_ streamKey, st *stream) bool { return now.Sub(st.status.LastRead) > 3*s.cfg.Interval })
}

// advanceWatermark advances the watermark to the time up to which all kinds were read that
// the API server has. The lines about a kind that appears have the time at which they are
// read, so nothing waits for it. The caller holds turn.
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
	s.set(func() { s.status.Watermark = at })
	s.pipe.AdvanceWatermark(s.cfg.Name, at)
}
