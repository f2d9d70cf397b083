package upstream

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

	"crowsnest/hits"
	"crowsnest/httpconfig"
	"crowsnest/internal/times"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sinks"
)

// DefaultMaxUnacked is how many bytes the agent keeps for the aggregator before it
// stops reading.
const DefaultMaxUnacked = 8 << 20

// Options are a Sink's dependencies.
type Options struct {
	// Now is the clock; nil means time.Now. Durations use the monotonic reading
	// of its times, if they have one.
	Now func() time.Time
	// Transport replaces the configured one, in tests; nil: none.
	Transport http.RoundTripper
	// MaxUnacked bounds the kept bytes; 0 means DefaultMaxUnacked.
	MaxUnacked int
}

// batch is a batch that is not safe yet.
type batch struct {
	seq       uint64
	payload   []byte
	hits      int
	watermark time.Time
	lagging   []matcher.LaggingStream
}

// mark is the low watermark of one source.
type mark struct {
	late time.Duration // in excess of the lateness that the aggregator assumes
	at   time.Time     // by the steady clock; zero: it has no watermark yet
	// lagging are the streams with watermarks of their own, by the steady clock.
	lagging []matcher.LaggingStream
}

// Sink sends hits to the aggregator. Safe for concurrent use.
type Sink struct {
	cfg        Config
	now        func() time.Time
	steady     times.Steady
	instance   string
	maxUnacked int
	targets    targets
	http       httpconfig.Lazy // of the sender

	wake chan struct{} // has one token if there is something to do

	mu        sync.Mutex
	after     []string // instances before this one
	admitted  bool     // the aggregator knows this one
	builder   hits.Builder
	kept      []batch // oldest first
	bytes     int     // of their payloads
	seq       uint64  // of the last batch
	taken     uint64  // last batch that the aggregator accepted
	acked     uint64  // last batch that is on its disk
	room      chan struct{}
	released  bool // reading stops for good: Wait no longer blocks
	dropped   bool // hits were dropped after the release: no later checkpoint is safe
	marks     map[string]mark
	st        Stats
	failed    map[string]int64
	lastErr   string
	up        bool
	report    reporter
	processes processes
	// version is the protocol version of the aggregator, 0 until it has answered.
	version int
}

var _ sinks.Receiver = (*Sink)(nil)

// Stats is the state of the connection to the aggregator.
type Stats struct {
	Node       string
	Endpoint   string
	Reached    bool // the aggregator has answered at least once
	Refused    bool // it refuses this agent: another one has its name
	Unacked    int  // bytes kept for it, in memory
	Batches    int  // that are not on its disk yet
	Taken      int64
	Resent     int64 // batches that were sent more than once
	Lost       int64 // hits that the aggregator refused to read
	Blocked    bool  // reading waits for it
	BlockedFor time.Duration
	LastAnswer time.Time // newest answer of the aggregator; zero: none
	LastAck    time.Time // when more batches reached its disk; zero: never
	LastError  string
	LastReason string // of LastError, such as "auth"
	// ReportError is why the aggregator does not accept the reports of this agent;
	// "" if it does.
	ReportError string
	// Twofold is since when two aggregators answer at Endpoint; zero: only one does.
	Twofold time.Time

	blockedSince time.Time
	waiting      int
}

// New returns a Sink. It fails if cfg is not valid or has no node; it starts
// nothing and does no I/O.
func New(cfg Config, opt Options) (*Sink, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if err := hits.CheckName(cfg.Node); err != nil {
		return nil, fmt.Errorf("node: %w; set sinks.upstream.node or NODE_NAME", err)
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.MaxUnacked <= 0 {
		opt.MaxUnacked = DefaultMaxUnacked
	}
	s := &Sink{
		cfg: cfg, now: opt.Now, steady: times.NewSteady(opt.Now()), instance: rand.Text(), maxUnacked: opt.MaxUnacked, wake: make(chan struct{}, 1),
		room: make(chan struct{}), marks: map[string]mark{}, failed: map[string]int64{},
	}
	if s.targets.urls = cfg.URLs; opt.Transport == nil {
		s.targets.lookup = net.DefaultResolver.LookupHost
	}
	s.http = httpconfig.Lazy{Dial: s.targets.dial, Config: cfg.HTTP, Name: "upstream", UserAgent: "crowsnest", Idle: 5 * time.Minute, Transport: opt.Transport}
	for _, reason := range reasons() {
		s.failed[reason] = 0
	}
	return s, nil
}

// Name is "upstream".
func (s *Sink) Name() string { return "upstream" }

// Node returns the name by which the aggregator knows this agent.
func (s *Sink) Node() string { return s.cfg.Node }

// Take accepts hits in the order in which they were read. It does not block; the
// reader must call Wait before. It does not change the hits, and keeps them no
// longer than until the next batch is closed.
func (s *Sink) Take(found []matcher.Hit) {
	if len(found) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dropped || s.released && s.full() {
		s.dropped = true // they will be read again
		return
	}
	set := s.steady.Ahead(s.now())
	for i := range found {
		h := found[i]
		h.Time = h.Time.Add(-set)
		s.builder.Add(&h)
		if s.builder.Full() {
			s.seal()
		}
	}
	s.notify()
}

// seal closes the open batch. The caller holds mu.
func (s *Sink) seal() {
	n := s.builder.Len()
	if n == 0 {
		return
	}
	s.seq++
	b := batch{seq: s.seq, payload: s.builder.Seal(), hits: n}
	b.watermark, b.lagging = s.watermark()
	s.kept = append(s.kept, b)
	s.bytes += len(b.payload)
}

// full reports whether the kept bytes reach their bound. The caller holds mu.
func (s *Sink) full() bool { return s.bytes+s.builder.Size() >= s.maxUnacked }

// Wait returns when there is room for more hits, or after Release. The caller must
// not hold a lock that a save or a reload waits for.
func (s *Sink) Wait() {
	for {
		s.mu.Lock()
		if s.released || !s.full() {
			s.mu.Unlock()
			return
		}
		if s.st.waiting++; s.st.waiting == 1 {
			s.st.blockedSince = s.now()
		}
		room := s.room
		s.mu.Unlock()
		<-room
		s.mu.Lock()
		if s.st.waiting--; s.st.waiting == 0 {
			s.st.BlockedFor += max(0, s.now().Sub(s.st.blockedSince))
		}
		s.mu.Unlock()
	}
}

// Release ends every Wait, now and later: the sources stop. From then on hits
// beyond the bound are dropped and no later checkpoint is safe: the next process reads
// them again.
func (s *Sink) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = true
	s.wakeReaders()
}

// wakeReaders wakes the callers of Wait. The caller holds mu.
func (s *Sink) wakeReaders() {
	close(s.room)
	s.room = make(chan struct{})
}

// notify wakes the sender. It does not block.
func (s *Sink) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// AddSource adds a source to the watermark. Adding it again only changes the
// lateness.
func (s *Sink) AddSource(source string, lateness time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.marks[source]
	p.late = max(0, lateness-rules.Lateness)
	s.marks[source] = p
}

// RemoveSource removes a source from the watermark.
func (s *Sink) RemoveSource(source string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.marks, source)
}

// AdvanceWatermark records that a source has read everything up to t, except lagging
// streams, and that Take accepted its hits. It ignores sources that were not added.
func (s *Sink) AdvanceWatermark(source string, t time.Time, lagging ...matcher.LaggingStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.marks[source]; ok {
		set := s.steady.Ahead(s.now())
		p.at, p.lagging = t.Add(-set), moved(lagging, -set)
		s.marks[source] = p
	}
}

// moved returns streams whose times are those of all moved by d.
func moved(all []matcher.LaggingStream, d time.Duration) []matcher.LaggingStream {
	out := slices.Clone(all)
	for i := range out {
		out[i].ReadUpTo = out[i].ReadUpTo.Add(d)
	}
	return out
}

// Watermark returns the time up to which all streams of all sources are read; zero if one of
// the sources has no watermark.
func (s *Sink) Watermark() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := earliest(s.watermark()); !t.IsZero() {
		return t.Add(s.steady.Ahead(s.now()))
	}
	return time.Time{}
}

// earliest returns the time up to which all streams are read, the lagging ones too.
func earliest(upTo time.Time, lagging []matcher.LaggingStream) time.Time {
	for _, l := range lagging {
		upTo = times.Earlier(upTo, l.ReadUpTo)
	}
	return upTo
}

// watermark returns the time up to which all sources are read except for lagging streams, by
// the steady clock; zero if one of them has no watermark or hits were dropped. The caller
// holds mu.
func (s *Sink) watermark() (upTo time.Time, lagging []matcher.LaggingStream) {
	if s.dropped {
		return time.Time{}, nil
	}
	for _, p := range s.marks {
		if p.at.IsZero() {
			return time.Time{}, nil
		}
		if t := p.at.Add(-p.late); upTo.IsZero() || t.Before(upTo) {
			upTo = t
		}
		lagging = append(lagging, moved(p.lagging, -p.late)...)
	}
	return upTo, matcher.BoundLagging(lagging)
}

// Checkpoint closes the open batch and returns its number: all hits accepted so far are
// safe when Acked reaches it. false means that they never will be. The caller ensures
// that no hits are accepted meanwhile.
func (s *Sink) Checkpoint() (uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seal()
	s.notify()
	return s.seq, !s.dropped
}

// Acked returns the last batch on the aggregator's disk.
func (s *Sink) Acked() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acked
}

// saved is the state that survives a restart.
type saved struct {
	// Instances are the last instance that the aggregator admitted, as far as is
	// known, and the ones started since.
	Instances []string `json:"instances"`
}

// Export returns what the next process needs to be the successor of this one, and
// not another agent with the same name.
func (s *Sink) Export() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []string{s.instance}
	if !s.admitted {
		all = append(slices.Clone(s.after), s.instance)
	}
	if n := len(all) - hits.MaxAfter; n > 0 {
		all = slices.Delete(all, 1, 1+n)
	}
	return json.Marshal(saved{all})
}

// Import reads the result of Export, before Run.
func (s *Sink) Import(b []byte) error {
	var x saved
	if err := json.Unmarshal(b, &x); err != nil {
		return fmt.Errorf("read the state of upstream: %w", err)
	}
	for _, instance := range x.Instances {
		if err := hits.CheckName(instance); err != nil {
			return fmt.Errorf("read the state of upstream: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after = x.Instances[:min(len(x.Instances), hits.MaxAfter)]
	return nil
}

// Stats returns the state of the connection to the aggregator.
func (s *Sink) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.st
	st.Node, st.Endpoint, st.LastError = s.cfg.Node, s.targets.url(), s.lastErr
	st.Twofold = s.processes.twofold(s.now())
	st.Unacked, st.Batches = s.bytes+s.builder.Size(), len(s.kept)
	if st.waiting > 0 {
		st.Blocked = true
		st.BlockedFor += max(0, s.now().Sub(st.blockedSince))
	}
	return st
}

// Status returns the state of the aggregator as a receiver. Sent counts hits.
func (s *Sink) Status() []sinks.EndpointStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []sinks.EndpointStatus{{
		Sink: s.Name(), Endpoint: s.targets.url(), Up: s.up, Error: s.lastErr, Sent: s.st.Taken, Failed: maps.Clone(s.failed), Pending: len(s.kept),
	}}
}

// ack records what the aggregator has. The caller holds mu.
func (s *Sink) ack(a hits.Answer, now time.Time) {
	s.taken = min(a.Taken, s.seq)
	upTo := min(a.Saved, s.taken)
	if upTo <= s.acked {
		return
	}
	s.acked, s.st.LastAck = upTo, now
	n := 0
	for n < len(s.kept) && s.kept[n].seq <= upTo {
		s.bytes -= len(s.kept[n].payload)
		n++
	}
	if n > 0 {
		s.kept = slices.Delete(s.kept, 0, n)
		s.wakeReaders()
	}
}
