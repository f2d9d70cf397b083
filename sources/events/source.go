package events

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"crowsnest/internal/times"
	"crowsnest/kube"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
)

const (
	// lateness is how long after an occurrence its Event may reach the API server.
	lateness = 10 * time.Second
	// keptFor is how long API servers keep an Event by default.
	keptFor = time.Hour
	// lagAfter is when a watermark that does not move is reported as a lag. Progress is
	// proved every few seconds.
	lagAfter = 15 * time.Second
	// maxStreams bounds the streams in memory. A stream has no state that matters.
	maxStreams = 2048

	reasonExpired    = "events_expired"
	reasonUnreadable = "events_unreadable"
)

// Source writes Events as lines.
type Source struct {
	cfg      Config
	client   *kube.Client
	watchers []*watcher
	pipe     sources.Pipeline // set by Run

	mu      sync.Mutex // guards what follows, and fields of the watchers
	counts  counts
	streams map[string]*stream // by namespace
	status  sources.Status
}

// stream is the stream of one namespace. It belongs to one watcher.
type stream struct {
	*matcher.Stream
	status sources.StreamStatus // guarded by Source.mu
}

// New returns a source. It does no I/O.
func New(cfg Config) *Source {
	cfg = cfg.withDefaults()
	s := &Source{
		cfg: cfg, client: kube.New(kube.Options{Kubeconfig: cfg.Kubeconfig, Transport: cfg.Transport}),
		counts: newCounts(), streams: map[string]*stream{},
	}
	s.status = sources.Status{Name: cfg.Name, Errors: map[string]int64{"watch": 0, "expired": 0}, Losses: map[string]sources.Loss{}}
	namespaces := cfg.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		s.watchers = append(s.watchers, newWatcher(s, namespace))
	}
	return s
}

// Name returns "events" unless the configuration sets another name.
func (s *Source) Name() string { return s.cfg.Name }

// Serves reports whether the selector can match a stream of this source.
func (s *Source) Serves(from rules.Selector) bool {
	for _, m := range from.Matchers() {
		switch {
		case m.Name == "component" && !m.Matches(component):
			return false
		case m.Name == "namespace" && len(s.cfg.Namespaces) > 0 && !slices.ContainsFunc(s.cfg.Namespaces, m.Matches):
			return false
		case m.Name != "component" && m.Name != "namespace" && !m.Matches(s.cfg.Labels[m.Name]):
			return false
		}
	}
	return true
}

// Lateness is how late an Event may be and still be considered before a conclusion.
func (s *Source) Lateness() time.Duration { return lateness }

// Remote marks the source as served by another process.
func (s *Source) Remote() {}

// Run watches until ctx ends, which also ends requests in progress.
func (s *Source) Run(ctx context.Context, p sources.Pipeline) error {
	s.pipe = p
	defer s.client.Close()
	var watching sync.WaitGroup
	for _, w := range s.watchers {
		watching.Go(func() { w.Run(ctx) })
	}
	watching.Wait()
	s.set(func() { s.status.Up = false })
	return nil
}

func (s *Source) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// write passes on the line of an Event. commit is called under mu.
func (s *Source) write(e *event, now time.Time, commit func()) {
	line, truncated := e.line()
	at, st := e.newest(now), s.stream(e.namespace())
	s.pipe.Match(st.Stream, matcher.Record{Time: at, Text: []byte(line)}, func() {
		c := st.Counters()
		s.mu.Lock()
		defer s.mu.Unlock()
		st.status.Offset, st.status.Size, st.status.Lines, st.status.LastRead = c.Bytes, c.Bytes, c.Lines, now
		s.status.Lines, s.status.Evaluated = s.status.Lines+1, s.status.Evaluated+1
		s.status.Bytes += int64(len(line))
		if truncated {
			s.status.Truncated++
		}
		commit()
	})
}

// stream returns the stream of a namespace.
func (s *Source) stream(namespace string) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st, ok := s.streams[namespace]; ok {
		return st
	}
	if len(s.streams) >= maxStreams {
		s.closeOldest()
	}
	labels := matcher.Labels{}
	maps.Copy(labels, s.cfg.Labels)
	labels["component"], labels["namespace"] = component, namespace
	st := &stream{Stream: matcher.NewStream(labels, matcher.StreamOptions{Format: matcher.FormatText})}
	st.status.Labels = labels
	s.streams[namespace] = st
	return st
}

// closeOldest forgets the half of the streams that had no Event for longest.
func (s *Source) closeOldest() {
	names := slices.SortedFunc(maps.Keys(s.streams), func(a, b string) int {
		return s.streams[a].status.LastRead.Compare(s.streams[b].status.LastRead)
	})
	for _, name := range names[:len(names)/2] {
		delete(s.streams, name)
	}
}

// lose records that Events were or may have been lost. The caller holds mu.
func (s *Source) lose(reason, path string) {
	s.status.Losses[reason] = sources.Loss{Count: s.status.Losses[reason].Count + 1, At: s.cfg.Clock().UTC(), Path: path}
}

// progressed advances the watermark to the time up to which all namespaces were read.
func (s *Source) progressed() {
	s.mu.Lock()
	at := s.watchers[0].proved
	for _, w := range s.watchers {
		at = times.Earlier(at, w.proved)
	}
	ok := at.After(s.status.Watermark)
	if ok {
		s.status.Watermark = at
	}
	s.mu.Unlock()
	if ok {
		s.pipe.AdvanceWatermark(s.cfg.Name, at)
	}
}

// note updates the status from the state of the watchers. The caller holds mu.
func (s *Source) note() {
	st := &s.status
	st.Up, st.Error = true, ""
	for _, w := range s.watchers {
		st.Up = st.Up && w.passed && w.problem == ""
		if st.Error == "" {
			st.Error = w.problem
		}
	}
	st.Opened = st.Opened || st.Up
}

// Status implements sources.Source.
func (s *Source) Status() sources.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	st.Errors, st.Losses = maps.Clone(st.Errors), maps.Clone(st.Losses)
	for _, namespace := range slices.Sorted(maps.Keys(s.streams)) {
		st.Streams = append(st.Streams, s.streams[namespace].status)
	}
	if lag := s.cfg.Clock().Sub(st.Watermark); !st.Watermark.IsZero() && lag > lagAfter {
		st.Lag = lag
	}
	return st
}

// explain adds the fix to an error.
func explain(err error) string {
	switch kube.Code(err) {
	case http.StatusUnauthorized:
		return fmt.Sprintf("the API server refuses the credentials: renew the token or the kubeconfig, it is read again every %v (%v)", kube.SlowRetry, err)
	case http.StatusForbidden:
		return fmt.Sprintf("not allowed: grant list and watch of events.events.k8s.io (%v)", err)
	}
	return fmt.Sprintf("Events cannot be read: %v", err)
}
