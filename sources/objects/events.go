package objects

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"crowsnest/internal/kube"
	"crowsnest/internal/text"
	"crowsnest/internal/times"
	"crowsnest/sources"
	"crowsnest/sources/internal/logline"
)

const (
	eventsPath = "/apis/events.k8s.io/v1"
	// eventLateness is the longest time between an occurrence and the arrival of its Event at the API server.
	eventLateness = 10 * time.Second
	eventTTL      = time.Hour // time that API servers keep an Event by default
	// lagAfter is the time after which a watermark that does not move is reported as a lag.
	// Normally the watermark moves every few seconds.
	lagAfter   = 15 * time.Second
	maxStreams = 2048 // largest number of Event streams in memory

	reasonExpired    = "events_expired"
	reasonUnreadable = "events_unreadable"
)

// EventsConfig selects the Events to read.
type EventsConfig struct {
	sources.Common `yaml:",inline"`
	// Kubeconfig is the path of a kubeconfig file. Default: the service account of this program's pod.
	Kubeconfig string `yaml:"kubeconfig" bounds:"0,4096"`
	// Namespaces are the namespaces to read one by one, which requires a Role in each of them.
	// If empty, the source reads all namespaces at once, which requires a ClusterRole. Events
	// about Nodes and other objects without a namespace are in the namespace default.
	Namespaces []string `yaml:"namespaces" bounds:"0,1000,4096"`
	// LookBack is the maximum age of the lines that are read if there is no saved position. Default 15m.
	LookBack time.Duration `yaml:"look_back" bounds:"0s,1y"`
	// Labels are labels that are added to every stream, for example cluster.
	Labels map[string]string `yaml:"labels" bounds:"0,64,4096"`

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
	cfg.Common, cfg.LookBack = cfg.WithDefaults("events"), cmp.Or(cfg.LookBack, 15*time.Minute)
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
			Clock: cfg.Clock, Handler: r, Progress: r.provedUpTo,
			Rewound: func() { s.withLock(func() { r.position.Version = "" }) },
		}
		s.readers, s.read = append(s.readers, r), append(s.read, r.Run)
	}
	return s
}

// Info implements sources.Source.
func (s *Events) Info() sources.Info { return sources.Info{Remote: true, Lateness: eventLateness} }

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

// updateStatus computes the status of the source from the readers. The caller holds mu.
func (s *Events) updateStatus() {
	st := &s.status
	st.Up, st.Error = true, ""
	for _, r := range s.readers {
		st.Up = st.Up && r.answered && r.problem == ""
		st.Error = cmp.Or(st.Error, r.problem)
	}
	st.Opened = st.Opened || st.Up
}

func (s *Events) advanceWatermark() {
	s.mu.Lock()
	at := s.readers[0].progress
	for _, r := range s.readers {
		at = times.Min(at, r.progress)
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

// closeOldest makes room for another stream. If there are too many streams, it forgets the
// half that had no lines for the longest time.
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

type eventPositions struct {
	Namespaces map[string]eventPosition `json:"namespaces"` // the key is the namespace, or "" for all namespaces
	Counts     []byte                   `json:"counts,omitempty"`
	Losses     map[string]sources.Loss  `json:"losses,omitempty"`
}

type eventPosition struct {
	Version string    `json:"version"` // version up to which Events were read; empty if none were read yet
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
	b, _ := json.Marshal(out) // this cannot fail
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
		r.StartVersion = r.position.Version
	}
	return nil
}

// eventReader reads the Events of one namespace or of all namespaces. It is a kube.Handler.
type eventReader struct {
	kube.Watcher
	s         *Events
	namespace string // namespace to read; empty means all

	listing bool
	since   time.Time // time before which Events of the current list are skipped; zero means that none are skipped

	// The fields from position on are guarded by s.mu.
	position eventPosition
	progress time.Time // time up to which Events were read since the start
	answered bool      // whether the API server has answered since the start
	problem  string
}

func (r *eventReader) Listing() {
	r.listing, r.since = true, time.Time{}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.position.Version == "" {
		r.since = r.s.clock().Add(-r.s.cfg.LookBack)
	}
}

// Changed writes the line of an Event that was not read before. It reports and skips an
// unreadable Event, because later ones may be readable.
func (r *eventReader) Changed(in json.RawMessage) error {
	s, now := r.s, r.s.clock()
	e, err := readEvent(in)
	if err != nil {
		s.withLock(func() { s.countLost(reasonUnreadable, err.Error()) })
		return nil //nolint:nilerr // the Event is counted as lost and skipped
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

// Deleted records only the version, because the API server deletes Events when they are old.
func (r *eventReader) Deleted(_ context.Context, in json.RawMessage) error {
	if e, err := readEvent(in); err == nil {
		r.setPosition(e.Metadata.Version)
	}
	return nil
}

// setPosition records the version up to which Events were read. It does nothing during a list,
// because lists are not in order of versions.
func (r *eventReader) setPosition(version string) {
	if !r.listing && version != "" {
		r.s.withLock(func() { r.position.Version = version })
	}
}

func (r *eventReader) Listed(context.Context) {
	r.listing, r.since = false, time.Time{}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if at := r.position.At; !at.IsZero() && r.s.clock().Sub(at) > eventTTL {
		r.s.countLost(reasonExpired, r.Path)
	}
	r.position.Version = r.Version()
}

// provedUpTo records that all Events up to t were read.
func (r *eventReader) provedUpTo(t time.Time) {
	r.s.withLock(func() {
		r.progress, r.position = t, eventPosition{r.Version(), t.Truncate(time.Minute).UTC()}
	})
	r.s.advanceWatermark()
}

func (r *eventReader) Passed() {
	r.s.withLock(func() {
		r.answered, r.problem = true, ""
		r.s.updateStatus()
	})
}

func (r *eventReader) Failed(err error, lasting bool) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	reason := "watch"
	if kube.IsExpired(err) {
		reason = "expired"
	}
	r.s.status.Errors[reason]++
	if lasting {
		r.problem = kube.ExplainError(err, "not allowed: grant list and watch of events.events.k8s.io", "Events cannot be read")
	}
	r.s.updateStatus()
}

// Limits of the values of an Event in bytes. Anyone may have written their texts.
const (
	maxNote  = 4 << 10
	maxValue = 256
)

// event holds the used fields of an Event of events.k8s.io/v1 or v1. kubectl and support bundles write v1.
type event struct {
	Metadata struct {
		Namespace string    `json:"namespace"`
		UID       string    `json:"uid"`
		Version   string    `json:"resourceVersion"`
		Created   time.Time `json:"creationTimestamp"`
	} `json:"metadata"`
	At     time.Time `json:"eventTime"`
	Series struct {
		Count int       `json:"count"`
		Last  time.Time `json:"lastObservedTime"`
	} `json:"series"`
	Type       string         `json:"type"`
	Reason     string         `json:"reason"`
	Note       string         `json:"note"`
	Controller string         `json:"reportingController"`
	Regarding  eventReference `json:"regarding"`

	// An Event that was created through v1 has these fields when it is read through events.k8s.io/v1.
	OldCount  int         `json:"deprecatedCount"`
	OldFirst  time.Time   `json:"deprecatedFirstTimestamp"`
	OldLast   time.Time   `json:"deprecatedLastTimestamp"`
	OldSource eventSource `json:"deprecatedSource"`

	// These fields exist only in Events of v1.
	Involved  eventReference `json:"involvedObject"`
	Message   string         `json:"message"`
	First     time.Time      `json:"firstTimestamp"`
	Last      time.Time      `json:"lastTimestamp"`
	Count     int            `json:"count"`
	Component string         `json:"reportingComponent"`
	Source    eventSource    `json:"source"`
}

type eventReference struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

type eventSource struct {
	Component string `json:"component"`
}

func readEvent(in json.RawMessage) (*event, error) {
	var e event
	if err := json.Unmarshal(in, &e); err != nil {
		return nil, fmt.Errorf("read an Event: %w", err)
	}
	return &e, nil
}

// RecordedEvent returns the line of an Event from a file, the namespace of its stream, and its
// time, which is at most now. The Event has the form of events.k8s.io/v1 or v1.
func RecordedEvent(in json.RawMessage, now time.Time) (namespace, line string, at time.Time, err error) {
	e, err := readEvent(in)
	if err != nil {
		return "", "", time.Time{}, err
	}
	line, _ = e.line()
	return e.namespace(), line, e.newestTime(now), nil
}

func (e *event) namespace() string { return cmp.Or(e.Metadata.Namespace, "default") }

func (e *event) version() uint64 { return kube.VersionNumber(e.Metadata.Version) }

func (e *event) count() int { return max(e.Series.Count, e.OldCount, e.Count, 1) }

// newestTime returns the time of the newest occurrence, at most now.
func (e *event) newestTime(now time.Time) time.Time {
	var newest time.Time
	for _, at := range []time.Time{e.At, e.Series.Last, e.OldFirst, e.OldLast, e.First, e.Last} {
		newest = times.Max(newest, at)
	}
	newest = cmp.Or(newest, e.Metadata.Created, now)
	return times.Min(newest, now)
}

func (e *event) line() (line string, truncated bool) {
	short := func(s string, n int) string {
		truncated = truncated || len(s) > n
		return text.Shorten(s, n)
	}
	about := cmp.Or(e.Regarding, e.Involved)
	name := short(about.Name, maxValue)
	object := name
	if about.Namespace != "" {
		object = short(about.Namespace, maxValue) + "/" + name
	}
	pairs := []string{
		"type", short(e.Type, maxValue), "reason", short(e.Reason, maxValue), "kind", short(about.Kind, maxValue), "object", object, "name", name,
	}
	switch about.Kind {
	case "Pod":
		pairs = append(pairs, "pod", name)
	case "Node":
		pairs = append(pairs, "node", name)
	}
	reporter := cmp.Or(e.Controller, e.Component, e.OldSource.Component, e.Source.Component)
	pairs = append(pairs, "uid", short(about.UID, maxValue), "reporter", short(reporter, maxValue),
		"count", strconv.Itoa(e.count()), "message", short(cmp.Or(e.Note, e.Message), maxNote))
	return logline.Format("event", pairs...), truncated
}

const (
	maxCounts  = 8192
	countBytes = 12 // number of bytes of an encoded count: a hash of the UID, and the count
)

// eventCounts remembers the counts of the newest Events by a hash of their UIDs. The hash is the same in every process.
// The hash need not resist attacks, because the API server chooses the UIDs.
type eventCounts struct {
	*simplelru.LRU[uint64, uint32]
}

func newEventCounts() eventCounts {
	lru, _ := simplelru.NewLRU[uint64, uint32](maxCounts, nil) // the size is positive, so there is no error
	return eventCounts{lru}
}

func hashUID(uid string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(uid))
	return h.Sum64()
}

func (c eventCounts) get(uid string) int {
	count, _ := c.Peek(hashUID(uid))
	return int(count)
}

func (c eventCounts) set(uid string, count int) {
	c.Add(hashUID(uid), uint32(min(count, math.MaxUint32)))
}

func (c eventCounts) encode() []byte {
	out := make([]byte, 0, c.Len()*countBytes)
	for _, h := range c.Keys() {
		count, _ := c.Peek(h)
		out = binary.LittleEndian.AppendUint64(out, h)
		out = binary.LittleEndian.AppendUint32(out, count)
	}
	return out
}

func (c eventCounts) decode(b []byte) error {
	if len(b)%countBytes != 0 {
		return errors.New("the counts are incomplete")
	}
	for ; len(b) > 0; b = b[countBytes:] {
		c.Add(binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:]))
	}
	return nil
}
