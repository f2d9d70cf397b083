package objects

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"crowsnest/internal/times"
	"crowsnest/kube"
	"crowsnest/sources"
)

const (
	eventsPath = "/apis/events.k8s.io/v1"
	// defaultLookBack is the maximum age of Events that are read without a position.
	defaultLookBack = 15 * time.Minute
	// eventLateness is the longest time between an occurrence and the arrival of its Event at
	// the API server.
	eventLateness = 10 * time.Second
	// eventTTL is the time that API servers keep an Event by default.
	eventTTL = time.Hour
	// lagAfter is the time after which a watermark that does not move is reported as a lag.
	// Progress is normally proved every few seconds.
	lagAfter = 15 * time.Second
	// maxStreams is the largest number of Event streams in memory.
	maxStreams = 2048

	reasonExpired    = "events_expired"
	reasonUnreadable = "events_unreadable"
)

// EventsConfig selects the Events to read.
type EventsConfig struct {
	// Name is the source's name if there are several of the kind. Default: the kind.
	Name string `yaml:"name" bounds:"0,4096"`
	// Kubeconfig is the path of a file. The default is the service account of the
	// pod that this program runs in.
	Kubeconfig string `yaml:"kubeconfig" bounds:"0,4096"`
	// Namespaces are the namespaces to read one by one, which requires a Role in each of them.
	// If empty, the source reads all namespaces at once, which requires a ClusterRole. Events
	// about Nodes and other objects without a namespace are in the namespace default.
	Namespaces []string `yaml:"namespaces" bounds:"0,1000,4096"`
	// LookBack is the maximum age of lines that are read without a saved position. Default
	// 15m.
	LookBack time.Duration `yaml:"look_back" bounds:"0s,1y"`
	// Labels are added to every stream, for example cluster.
	Labels map[string]string `yaml:"labels" bounds:"0,64,4096"`

	// Clock replaces time.Now in tests.
	Clock func() time.Time `yaml:"-"`
	// Transport replaces the network in tests.
	Transport http.RoundTripper `yaml:"-"`
}

// Validate returns all errors of the configuration.
func (c EventsConfig) Validate() error {
	errs := kube.CheckNamespaces("events", c.Namespaces, "list names, or remove the key to select all", "which selects all")
	if c.LookBack < 0 {
		errs = append(errs, fmt.Errorf("events: look_back is %v; use a duration above 0, such as 15m", c.LookBack))
	}
	return errors.Join(append(errs, sources.CheckLabels("events", c.Labels, "the source", "component", "namespace")...)...)
}

// Events writes the Events of a cluster as lines. It is safe for concurrent use.
type Events struct {
	output
	cfg     EventsConfig
	readers []*eventReader
	counts  eventCounts // guarded by mu
}

// NewEvents returns a source of Events. It does no I/O.
func NewEvents(cfg EventsConfig) *Events {
	cfg.Name, cfg.LookBack = cmp.Or(cfg.Name, "events"), cmp.Or(cfg.LookBack, defaultLookBack)
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	s := &Events{cfg: cfg, counts: newEventCounts(), output: output{
		name: cfg.Name, components: []string{eventsView.component()}, namespaces: cfg.Namespaces, labels: cfg.Labels, clock: cfg.Clock,
		client: kube.New(kube.Options{Kubeconfig: cfg.Kubeconfig, Transport: cfg.Transport}), streams: map[streamKey]*stream{},
		status: sources.Status{Name: cfg.Name, Errors: map[string]int64{"watch": 0, "expired": 0}, Losses: map[string]sources.Loss{}},
	}}
	namespaces := cfg.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		r := &eventReader{s: s, namespace: namespace}
		r.Watcher = kube.Watcher{
			Client: s.client, Path: Resource{Path: eventsPath + "/events", Namespaced: true}.ListPath(namespace),
			Clock: cfg.Clock, Handler: r, Progress: r.provedUpTo, Rewound: r.resetVersion,
		}
		s.readers = append(s.readers, r)
	}
	return s
}

// Info implements sources.Source.
func (s *Events) Info() sources.Info { return sources.Info{Remote: true, Lateness: eventLateness} }

// Run watches Events until ctx ends, which also ends requests in progress.
func (s *Events) Run(ctx context.Context, p sources.Pipeline) error {
	var readers []func(context.Context)
	for _, r := range s.readers {
		readers = append(readers, r.Run)
	}
	return s.run(ctx, p, readers)
}

// Status implements sources.Source.
func (s *Events) Status() sources.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.copyStatus()
	if lag := s.clock().Sub(st.Watermark); !st.Watermark.IsZero() && lag > lagAfter {
		st.Lag = lag
	}
	return st
}

// updateStatus updates the status from the states of the readers. The caller holds mu.
func (s *Events) updateStatus() {
	st := &s.status
	st.Up, st.Error = true, ""
	for _, r := range s.readers {
		st.Up = st.Up && r.answered && r.problem == ""
		st.Error = cmp.Or(st.Error, r.problem)
	}
	st.Opened = st.Opened || st.Up
}

// advanceWatermark advances the watermark to the time up to which all namespaces were
// read.
func (s *Events) advanceWatermark() {
	s.mu.Lock()
	at := s.readers[0].progress
	for _, r := range s.readers {
		at = times.Earlier(at, r.progress)
	}
	later := at.After(s.status.Watermark)
	if later {
		s.status.Watermark = at
	}
	s.mu.Unlock()
	if later {
		s.pipe.AdvanceWatermark(s.name, at)
	}
}

// closeOldest makes room for another stream. If there are too many, it forgets the half that
// had no lines for the longest time.
func (s *Events) closeOldest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.streams) < maxStreams {
		return
	}
	keys := slices.SortedFunc(maps.Keys(s.streams), func(a, b streamKey) int {
		return s.streams[a].status.LastRead.Compare(s.streams[b].status.LastRead)
	})
	for _, key := range keys[:len(keys)/2] {
		delete(s.streams, key)
	}
}

// eventPositions is the saved form of the positions.
type eventPositions struct {
	Namespaces map[string]eventPosition `json:"namespaces"` // positions by namespace; the empty name stands for all namespaces
	Counts     []byte                   `json:"counts,omitempty"`
	Losses     map[string]sources.Loss  `json:"losses,omitempty"`
}

// eventPosition is the position up to which Events of a namespace were read.
type eventPosition struct {
	Version string    `json:"version"` // empty if nothing was read yet
	At      time.Time `json:"at"`      // time at which Version was the newest version, to the minute
}

// Positions returns the positions up to which Events were read. It does not block.
func (s *Events) Positions() json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := eventPositions{Namespaces: map[string]eventPosition{}, Losses: s.status.Losses, Counts: s.counts.encode()}
	for _, r := range s.readers {
		out.Namespaces[r.namespace] = r.position
	}
	b, err := json.Marshal(out)
	if err != nil {
		return nil // this cannot fail
	}
	return b
}

// Restore sets the positions up to which Events were read.
func (s *Events) Restore(b json.RawMessage) error {
	if len(b) == 0 {
		return nil
	}
	var in eventPositions
	err := json.Unmarshal(b, &in)
	known := newEventCounts()
	if err == nil {
		err = known.decode(in.Counts)
	}
	if err != nil {
		return fmt.Errorf("read the positions of %s: %w", s.name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts = known
	maps.Copy(s.status.Losses, in.Losses)
	for _, r := range s.readers {
		r.position = in.Namespaces[r.namespace]
		r.From = r.position.Version
	}
	return nil
}

// eventReader reads the Events of one namespace or of all namespaces.
type eventReader struct {
	kube.Watcher
	s         *Events
	namespace string // namespace to read; empty means all

	listing bool
	since   time.Time // time before which the current list skips Events; zero means none are skipped

	// The following fields are guarded by s.mu.
	position eventPosition
	progress time.Time // time up to which this run has read
	answered bool      // whether the API server has answered
	problem  string
}

// resetVersion forgets the version, because the API server has begun to count again.
func (r *eventReader) resetVersion() { r.s.withLock(func() { r.position.Version = "" }) }

// Listing implements kube.Handler.
func (r *eventReader) Listing() {
	r.listing, r.since = true, time.Time{}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.position.Version == "" {
		r.since = r.s.clock().Add(-r.s.cfg.LookBack)
	}
}

// Changed implements kube.Handler. It writes the line of an Event that was not read before. It
// reports and skips an unreadable Event, because later ones may be readable.
func (r *eventReader) Changed(in json.RawMessage) error {
	s, now := r.s, r.s.clock()
	e, err := readEvent(in)
	if err != nil {
		s.withLock(func() { s.countLost(reasonUnreadable, err.Error()) })
		return nil
	}
	s.mu.Lock()
	read := r.listing && e.version() > 0 && e.version() <= kube.VersionNumber(r.position.Version)
	read = read || e.count() <= s.counts.get(e.Metadata.UID) || e.newestTime(now).Before(r.since)
	s.mu.Unlock()
	if read {
		r.setPosition(e.Metadata.Version)
		return nil
	}
	text, truncated := e.line()
	s.closeOldest()
	s.writeLines([]line{{eventsView, e.namespace(), text}}, e.newestTime(now), func() {
		if truncated {
			s.status.Truncated++
		}
		s.counts.set(e.Metadata.UID, e.count())
		if !r.listing {
			r.position.Version = e.Metadata.Version
		}
	})
	return nil
}

// Deleted implements kube.Handler. The API server deletes Events when they are old.
func (r *eventReader) Deleted(_ context.Context, in json.RawMessage) error {
	if e, err := readEvent(in); err == nil {
		r.setPosition(e.Metadata.Version)
	}
	return nil
}

// setPosition sets the version of the position. It does nothing during a list, because lists
// are not in order of versions.
func (r *eventReader) setPosition(version string) {
	if !r.listing && version != "" {
		r.s.withLock(func() { r.position.Version = version })
	}
}

// Listed implements kube.Handler.
func (r *eventReader) Listed(context.Context) {
	r.listing, r.since = false, time.Time{}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if at := r.position.At; !at.IsZero() && r.s.clock().Sub(at) > eventTTL {
		r.s.countLost(reasonExpired, r.Path)
	}
	r.position.Version = r.Version()
}

// provedUpTo records the time up to which everything was read.
func (r *eventReader) provedUpTo(t time.Time) {
	r.s.withLock(func() {
		r.progress, r.position = t, eventPosition{r.Version(), t.Truncate(time.Minute).UTC()}
	})
	r.s.advanceWatermark()
}

// Passed implements kube.Handler.
func (r *eventReader) Passed() {
	r.s.withLock(func() {
		r.answered, r.problem = true, ""
		r.s.updateStatus()
	})
}

// Failed implements kube.Handler.
func (r *eventReader) Failed(err error, lasting bool) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if kube.IsExpired(err) {
		r.s.status.Errors["expired"]++
	} else {
		r.s.status.Errors["watch"]++
	}
	if lasting {
		r.problem = kube.ExplainError(err, "not allowed: grant list and watch of events.events.k8s.io", "Events cannot be read")
	}
	r.s.updateStatus()
}
