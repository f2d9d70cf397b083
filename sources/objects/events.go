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
	// eventLateness is how long after an occurrence its Event may reach the API server.
	eventLateness = 10 * time.Second
	// eventTTL is how long API servers keep an Event by default.
	eventTTL = time.Hour
	// lagAfter is when a watermark that does not move is reported as a lag. Progress is
	// proved every few seconds.
	lagAfter = 15 * time.Second
	// maxStreams bounds the streams of Events in memory.
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
	// Namespaces are the namespaces to read one by one, which needs a Role in each. If
	// empty, the source reads all at once, which needs a ClusterRole. Events about Nodes
	// and other objects without a namespace are in default.
	Namespaces []string `yaml:"namespaces" bounds:"0,1000,4096"`
	// LookBack is the maximum age of lines that are read without a saved position. Default
	// 15m.
	LookBack time.Duration `yaml:"look_back" bounds:"0s,1y"`
	// Labels are added to every stream, for example cluster.
	Labels map[string]string `yaml:"labels" bounds:"0,64,4096"`

	// Clock is time.Now; tests set another one.
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
			Client: s.client, Path: Resource{Path: eventsPath + "/events", Namespaced: true}.Within(namespace),
			Clock: cfg.Clock, Handler: r, Progress: r.proved, Rewound: r.rewound,
		}
		s.readers = append(s.readers, r)
	}
	return s
}

// Info implements sources.Source.
func (s *Events) Info() sources.Info { return sources.Info{Remote: true, Lateness: eventLateness} }

// Run watches until ctx ends, which also ends requests in progress.
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

// note updates the status from the state of the readers. The caller holds mu.
func (s *Events) note() {
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

// closeOldest forgets the half of the streams that had no line for longest, if there are
// too many for another one.
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

// eventPositions are what a restart needs.
type eventPositions struct {
	Namespaces map[string]eventPosition `json:"namespaces"` // the empty name means all
	Counts     []byte                   `json:"counts,omitempty"`
	Losses     map[string]sources.Loss  `json:"losses,omitempty"`
}

// eventPosition is up to where Events were read.
type eventPosition struct {
	Version string    `json:"version"` // empty if nothing was read yet
	At      time.Time `json:"at"`      // the minute in which it was the newest version
}

// Positions returns up to where Events were read. It does not block.
func (s *Events) Positions() json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := eventPositions{Namespaces: map[string]eventPosition{}, Losses: s.status.Losses, Counts: s.counts.encode()}
	for _, r := range s.readers {
		out.Namespaces[r.namespace] = r.position
	}
	b, err := json.Marshal(out)
	if err != nil {
		return nil // cannot fail
	}
	return b
}

// Restore sets up to where Events were read.
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

// eventReader reads the Events of one namespace, or of all.
type eventReader struct {
	kube.Watcher
	s         *Events
	namespace string // empty means all

	listing bool
	since   time.Time // the list in progress leaves out older Events; zero means none

	// Guarded by s.mu.
	position eventPosition
	progress time.Time // up to which this run has read
	answered bool      // the API server has answered
	problem  string
}

// rewound is called when versions began again, so older versions mean nothing.
func (r *eventReader) rewound() { r.s.set(func() { r.position.Version = "" }) }

// Listing implements kube.Handler.
func (r *eventReader) Listing() {
	r.listing, r.since = true, time.Time{}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.position.Version == "" {
		r.since = r.s.clock().Add(-r.s.cfg.LookBack)
	}
}

// Changed implements kube.Handler. It writes the line of an Event that was not read
// before. It reports and skips an Event that it cannot read, because the next one may be
// readable.
func (r *eventReader) Changed(in json.RawMessage) error {
	s, now := r.s, r.s.clock()
	e, err := readEvent(in)
	if err != nil {
		s.set(func() { s.lose(reasonUnreadable, err.Error()) })
		return nil
	}
	s.mu.Lock()
	read := r.listing && e.version() > 0 && e.version() <= kube.VersionNumber(r.position.Version)
	read = read || e.count() <= s.counts.get(e.Metadata.UID) || e.newest(now).Before(r.since)
	s.mu.Unlock()
	if read {
		r.move(e.Metadata.Version)
		return nil
	}
	text, truncated := e.line()
	s.closeOldest()
	s.write([]line{{eventsView, e.namespace(), text}}, e.newest(now), func() {
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
		r.move(e.Metadata.Version)
	}
	return nil
}

// move sets the position, except in a list, which is in no order of versions.
func (r *eventReader) move(version string) {
	if !r.listing && version != "" {
		r.s.set(func() { r.position.Version = version })
	}
}

// Listed implements kube.Handler.
func (r *eventReader) Listed(context.Context) {
	r.listing, r.since = false, time.Time{}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if at := r.position.At; !at.IsZero() && r.s.clock().Sub(at) > eventTTL {
		r.s.lose(reasonExpired, r.Path)
	}
	r.position.Version = r.Version()
}

// proved is called with times up to which everything was read.
func (r *eventReader) proved(at time.Time) {
	r.s.set(func() {
		r.progress, r.position = at, eventPosition{r.Version(), at.Truncate(time.Minute).UTC()}
	})
	r.s.advanceWatermark()
}

// Passed implements kube.Handler.
func (r *eventReader) Passed() {
	r.s.set(func() {
		r.answered, r.problem = true, ""
		r.s.note()
	})
}

// Failed implements kube.Handler.
func (r *eventReader) Failed(err error, lasting bool) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if kube.Expired(err) {
		r.s.status.Errors["expired"]++
	} else {
		r.s.status.Errors["watch"]++
	}
	if lasting {
		r.problem = kube.Explain(err, "not allowed: grant list and watch of events.events.k8s.io", "Events cannot be read")
	}
	r.s.note()
}
