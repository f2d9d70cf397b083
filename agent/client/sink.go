// Package client is the agent's end of the connection to the aggregator. It sends the hits of
// a node and decides nothing.
//
// Hits are sent in numbered batches. The agent keeps each batch until the aggregator has it on disk, and sends it again
// after a failure. The total size of these batches is limited. When they reach the limit, the agent stops reading, so
// the log files serve as the buffer. Checkpoint and AckedBatch connect the agent's positions with the batches.
// Positions may be saved as soon as all batches before them are on the aggregator's disk.
package client

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"crowsnest/agent/wire"
	"crowsnest/internal/httpconfig"
	"crowsnest/internal/metric"
	"crowsnest/internal/times"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sinks"
)

// DefaultMaxUnacked is the default of Options.MaxUnacked.
const DefaultMaxUnacked = 8 << 20

// Options are the dependencies of a Sink.
type Options struct {
	// Now is the clock; nil means time.Now. Durations are measured with the monotonic clock if the times have one.
	Now func() time.Time
	// Transport replaces the configured transport in tests.
	Transport http.RoundTripper
	// MaxUnacked is a size in bytes. The agent stops reading while the batches that the
	// aggregator has not saved are larger in total. Zero means DefaultMaxUnacked.
	MaxUnacked int
}

// batch is a batch that the aggregator does not have on disk yet.
type batch struct {
	sequence  uint64
	payload   []byte
	hits      int
	watermark time.Time
	lagging   []matcher.LaggingStream
}

// sourceMark is the watermark of one source, which is the time up to which the source was
// read. Its times are by the sink's steady clock.
type sourceMark struct {
	extraLateness time.Duration // part of the source's lateness that exceeds the lateness that the aggregator assumes
	readUpTo      time.Time     // time up to which the source was read; zero if unknown
	lagging       []matcher.LaggingStream
}

// Sink sends hits to the aggregator. It is safe for concurrent use.
type Sink struct {
	cfg        Config
	now        func() time.Time
	steady     times.Steady
	instance   string // random name of this process
	maxUnacked int
	targets    targets
	http       httpconfig.Lazy // used only by the sender
	wake       chan struct{}   // holds a token if there is something to send

	mu             sync.Mutex
	spaceFreed     *sync.Cond // signals that released was set or that keptBytes fell
	predecessors   []string   // random names of earlier processes that used the same saved state
	builder        wire.Builder
	unsavedBatches []batch // batches that the aggregator does not have on disk, from old to new
	keptBytes      int     // size of the payloads in unsavedBatches, in bytes
	sealed         uint64  // number of the newest batch
	accepted       uint64  // number of the newest batch that the aggregator accepted
	ackedSequence  uint64  // number of the newest batch on the aggregator's disk
	released       bool    // whether Wait no longer blocks because reading stops for good
	dropped        bool    // whether hits were dropped after Release, so that no later checkpoint may be saved
	sources        map[string]sourceMark
	waiting        int // number of callers in Wait
	blockedSince   time.Time
	stats          Stats
	failed         map[string]int64 // number of failed messages, by reason
	report         reporter
	owned          ownedRules
	processes      processes
}

var _ sinks.Receiver = (*Sink)(nil)

// Stats is the state of the connection to the aggregator.
type Stats struct {
	Endpoint   string
	Refused    bool // whether the aggregator refuses this agent, because another agent has its name
	Unacked    int  // size of the batches that the aggregator has not saved, in bytes
	Batches    int  // number of batches that the aggregator has not saved
	Accepted   int64
	Resent     int64 // number of batches that were sent again
	LostHits   int64 // number of hits that the aggregator refused as malformed
	Blocked    bool  // whether reading waits for the aggregator
	BlockedFor time.Duration
	LastAnswer time.Time // time of the newest response; zero if there is none
	LastAck    time.Time // time at which the aggregator last reported further batches as saved; zero if never
	LastError  string    // error of the newest message; empty if the aggregator accepted the message
	LastReason string    // reason of LastError, such as "auth"
	// ReportError is the reason why the aggregator refuses the agent's reports. It is empty if
	// the aggregator accepts them.
	ReportError string
	// TwoAggregatorsSince is the time since which two aggregators have been answering at Endpoint. It is
	// zero if only one answers.
	TwoAggregatorsSince time.Time
}

// New returns a Sink. It fails if cfg is invalid or has no node. It does no I/O.
func New(cfg Config, opt Options) (*Sink, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if err := wire.CheckName(cfg.Node); err != nil {
		return nil, fmt.Errorf("node: %w; set sinks.upstream.node or NODE_NAME", err)
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.MaxUnacked <= 0 {
		opt.MaxUnacked = DefaultMaxUnacked
	}
	s := &Sink{
		cfg: cfg, now: opt.Now, steady: times.NewSteady(opt.Now()), instance: rand.Text(), maxUnacked: opt.MaxUnacked,
		wake: make(chan struct{}, 1), sources: map[string]sourceMark{}, failed: map[string]int64{},
	}
	s.spaceFreed = sync.NewCond(&s.mu)
	if s.targets.urls = cfg.URLs; opt.Transport == nil {
		s.targets.lookup = net.DefaultResolver.LookupHost
	}
	s.http = httpconfig.Lazy{Dial: s.targets.dial, Config: cfg.HTTP, Name: "upstream", UserAgent: "crowsnest", Idle: 5 * time.Minute, Transport: opt.Transport}
	for _, reason := range errorReasons() {
		s.failed[reason] = 0
	}
	return s, nil
}

// Name returns "upstream".
func (s *Sink) Name() string { return "upstream" }

// Take accepts hits in the order in which they were read. It does not block, so the reader must call Wait first. It
// does not change the hits, and retains them at most until the next batch is sealed.
func (s *Sink) Take(found []matcher.Hit) {
	if len(found) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dropped || s.released && s.isFull() {
		s.dropped = true // the next process reads them again
		return
	}
	set := s.steady.SetAhead(s.now())
	for i := range found {
		h := found[i]
		h.Time = h.Time.Add(-set)
		s.builder.Add(&h)
		if s.builder.IsFull() {
			s.sealBatch()
		}
	}
	s.wakeSender()
}

// sealBatch completes the open batch, so that it can be sent. The caller holds mu.
func (s *Sink) sealBatch() {
	n := s.builder.Len()
	if n == 0 {
		return
	}
	s.sealed++
	b := batch{sequence: s.sealed, payload: s.builder.Seal(), hits: n}
	b.watermark, b.lagging = s.readUpTo()
	s.unsavedBatches = append(s.unsavedBatches, b)
	s.keptBytes += len(b.payload)
}

// isFull reports whether the batches that the aggregator has not saved reach the size limit. The caller holds mu.
func (s *Sink) isFull() bool { return s.keptBytes+s.builder.Size() >= s.maxUnacked }

// wakeSender makes the sender check whether there is something to send. It does not block.
func (s *Sink) wakeSender() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Wait returns when there is room for more hits, or after Release. The caller must not hold a
// lock that a save or a reload needs.
func (s *Sink) Wait() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.released && s.isFull() {
		if s.waiting++; s.waiting == 1 {
			s.blockedSince = s.now()
		}
		s.spaceFreed.Wait()
		if s.waiting--; s.waiting == 0 {
			s.stats.BlockedFor += max(0, s.now().Sub(s.blockedSince))
		}
	}
}

// Release ends all current and later calls of Wait, because the sources stop. From then on, hits beyond the limit are
// dropped, and Checkpoint returns false. The next process therefore reads the lines of these hits again.
func (s *Sink) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = true
	s.spaceFreed.Broadcast()
}

// AddSource makes the watermark wait for a source. Adding it again changes only its lateness.
func (s *Sink) AddSource(source string, lateness time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.sources[source]
	m.extraLateness = max(0, lateness-rules.Lateness)
	s.sources[source] = m
}

// RemoveSource removes a source, so that the watermark no longer waits for it.
func (s *Sink) RemoveSource(source string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sources, source)
}

// AdvanceWatermark records that a source has read everything up to t, except lagging streams,
// and that all its hits were passed to Take. It ignores sources that were not added.
func (s *Sink) AdvanceWatermark(source string, t time.Time, lagging ...matcher.LaggingStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m, ok := s.sources[source]; ok {
		set := s.steady.SetAhead(s.now())
		m.readUpTo, m.lagging = t.Add(-set), shiftLagging(lagging, -set)
		s.sources[source] = m
	}
}

func shiftLagging(all []matcher.LaggingStream, d time.Duration) []matcher.LaggingStream {
	out := slices.Clone(all)
	for i := range out {
		out[i].ReadUpTo = out[i].ReadUpTo.Add(d)
	}
	return out
}

// Watermark returns the time up to which all streams of all sources, including lagging ones,
// were read. It is zero if a source has no watermark.
func (s *Sink) Watermark() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	upTo, lagging := s.readUpTo()
	if upTo.IsZero() {
		return upTo
	}
	for _, l := range lagging {
		upTo = times.Min(upTo, l.ReadUpTo)
	}
	return upTo.Add(s.steady.SetAhead(s.now()))
}

// readUpTo returns the time up to which all streams except the lagging ones were read, by the steady clock. The time is
// zero if a source has no watermark or if hits were dropped. The caller holds mu.
func (s *Sink) readUpTo() (upTo time.Time, lagging []matcher.LaggingStream) {
	if s.dropped {
		return time.Time{}, nil
	}
	for _, m := range s.sources {
		if m.readUpTo.IsZero() {
			return time.Time{}, nil
		}
		if t := m.readUpTo.Add(-m.extraLateness); upTo.IsZero() || t.Before(upTo) {
			upTo = t
		}
		lagging = append(lagging, shiftLagging(m.lagging, -m.extraLateness)...)
	}
	return upTo, matcher.BoundLagging(lagging)
}

// Checkpoint completes the open batch and returns its number. When AckedBatch reaches this number, the aggregator has
// all hits on disk that were accepted so far. Checkpoint returns false if this will never happen. The caller ensures
// that no hits are accepted during the call.
func (s *Sink) Checkpoint() (uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealBatch()
	s.wakeSender()
	return s.sealed, !s.dropped
}

// AckedBatch returns the number of the newest batch on the aggregator's disk.
func (s *Sink) AckedBatch() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ackedSequence
}

// acknowledge records which batches the aggregator has accepted and saved. The caller holds mu.
func (s *Sink) acknowledge(a wire.Answer, now time.Time) {
	s.accepted = min(a.AcceptedSequence, s.sealed)
	upTo := min(a.SavedSequence, s.accepted)
	if upTo <= s.ackedSequence {
		return
	}
	s.ackedSequence, s.stats.LastAck = upTo, now
	for len(s.unsavedBatches) > 0 && s.unsavedBatches[0].sequence <= upTo {
		s.keptBytes -= len(s.unsavedBatches[0].payload)
		s.unsavedBatches = slices.Delete(s.unsavedBatches, 0, 1)
	}
	s.spaceFreed.Broadcast()
}

// emptyBatch removes the hits from a batch that the aggregator cannot read. Without this, later batches would wait
// forever, because batches are accepted in order. The caller holds mu.
func (s *Sink) emptyBatch(sequence uint64) {
	for i := range s.unsavedBatches {
		if b := &s.unsavedBatches[i]; b.sequence == sequence {
			s.stats.LostHits += int64(b.hits)
			s.keptBytes -= len(b.payload)
			b.payload, b.hits = wire.EmptyBatch(), 0
			s.keptBytes += len(b.payload)
			s.spaceFreed.Broadcast()
		}
	}
}

type savedState struct {
	// Instances are random names of processes: the last process that the aggregator is known
	// to have accepted, and every later one.
	Instances []string `json:"instances"`
}

// Export returns the saved state. From this state, the aggregator recognises the next process
// as the successor of this process, and not as another agent with the same name.
func (s *Sink) Export() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []string{s.instance}
	if s.stats.LastAnswer.IsZero() {
		all = append(slices.Clone(s.predecessors), s.instance)
	}
	if n := len(all) - wire.MaxAfter; n > 0 {
		all = slices.Delete(all, 1, 1+n)
	}
	return json.Marshal(savedState{all})
}

// Import sets the state that Export returned. It must be called before Run.
func (s *Sink) Import(b []byte) error {
	var x savedState
	if err := json.Unmarshal(b, &x); err != nil {
		return fmt.Errorf("read the state of upstream: %w", err)
	}
	for _, instance := range x.Instances {
		if err := wire.CheckName(instance); err != nil {
			return fmt.Errorf("read the state of upstream: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.predecessors = x.Instances[:min(len(x.Instances), wire.MaxAfter)]
	return nil
}

// Stats returns the state of the connection to the aggregator.
func (s *Sink) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st, now := s.stats, s.now()
	st.Endpoint, st.Refused = s.targets.baseURL(), st.LastReason == reasonConflict
	st.TwoAggregatorsSince = s.processes.twofoldSince(now)
	st.Unacked, st.Batches = s.keptBytes+s.builder.Size(), len(s.unsavedBatches)
	if s.waiting > 0 {
		st.Blocked = true
		st.BlockedFor += max(0, now.Sub(s.blockedSince))
	}
	return st
}

// Status returns the state of the aggregator as a receiver. Its field Sent counts hits.
func (s *Sink) Status() []sinks.EndpointStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []sinks.EndpointStatus{{
		Sink: s.Name(), Endpoint: s.targets.baseURL(), Up: s.stats.LastError == "" && !s.stats.LastAnswer.IsZero(),
		Error: s.stats.LastError, Sent: s.stats.Accepted, Failed: maps.Clone(s.failed), Pending: len(s.unsavedBatches),
	}}
}

// Metrics returns the metrics of an agent's connection to its aggregator.
func (s *Sink) Metrics() metric.Collector {
	return metric.New(s.Stats,
		metric.Gauge("upstream_unacked_bytes", "Bytes kept in memory until the aggregator has saved them.", func(s Stats) int { return s.Unacked }),
		metric.Gauge("upstream_unacked_batches", "Batches sent by this agent that the aggregator has not saved yet.", func(s Stats) int { return s.Batches }),
		metric.Gauge("upstream_last_answer_timestamp_seconds", "When the aggregator last answered; 0: never.", func(s Stats) time.Time { return s.LastAnswer }),
		metric.Gauge("upstream_last_ack_timestamp_seconds", "When the aggregator last saved more batches; 0: never.", func(s Stats) time.Time { return s.LastAck }),
		metric.Gauge("upstream_refused", "Whether the aggregator refuses this agent because another agent has the same name.", func(s Stats) bool { return s.Refused }),
		metric.Gauge("upstream_blocked", "Whether reading is paused because the aggregator has not saved enough batches.", func(s Stats) bool { return s.Blocked }),
		metric.Counter("upstream_blocked_seconds_total", "Time for which reading was paused.", func(s Stats) time.Duration { return s.BlockedFor }),
		metric.Counter("upstream_hits_total", "Hits that the aggregator accepted.", func(s Stats) int64 { return s.Accepted }),
		metric.Counter("upstream_resent_batches_total", "Batches that were sent again.", func(s Stats) int64 { return s.Resent }),
		metric.Counter("upstream_lost_hits_total", "Hits in batches that the aggregator could not read.", func(s Stats) int64 { return s.LostHits }),
	)
}
