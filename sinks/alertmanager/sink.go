package alertmanager

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/rs/zerolog"

	"crowsnest/episodes"
	"crowsnest/sinks"
)

// latenciesKept is the number of alerts whose latency the sink remembers as reported.
const latenciesKept = 4096

// Options are a Sink's dependencies.
type Options struct {
	Log zerolog.Logger
	// Latency is called once per episode with the time from the line that made
	// it fire until the first Alertmanager accepted the alert. It may be nil. It
	// must be safe for concurrent use.
	Latency func(time.Duration)
	// Now is the clock; nil means time.Now. Durations use the monotonic reading
	// of its times, if they have one.
	Now func() time.Time
	// Transport replaces the configured one, in tests; nil if there is none.
	Transport http.RoundTripper
	// MaxKeys bounds the alerts, open and ended, in the state of each
	// Alertmanager; 0 means sinks.DefaultMaxKeys.
	MaxKeys int
	// Accepted is called after an Alertmanager accepted a change, which Export then
	// contains. It may be nil and must not block.
	Accepted func()
	// Leads reports whether this process may send now; nil means always. It is asked before
	// each request and must not block.
	Leads func() bool
}

// Sink sends episodes to every configured Alertmanager. Safe for concurrent use.
type Sink struct {
	cfg       Config
	latency   func(time.Duration)
	now       func() time.Time
	endpoints members
	shared    sync.Mutex // guards what endpoints read of each other

	answers *sinks.Deliveries
	ended   sinks.EndedPack

	mu sync.Mutex
	// reported holds the start of each episode whose latency was reported.
	reported *lru.Cache[episodes.Fingerprint, time.Time]
}

var _ sinks.Sink = (*Sink)(nil)

// New returns a Sink. It fails if cfg is not valid; it starts nothing and does
// no I/O.
func New(cfg Config, opt Options) (*Sink, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	reported, err := lru.New[episodes.Fingerprint, time.Time](latenciesKept)
	if err != nil {
		return nil, err
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	s := &Sink{cfg: cfg, latency: opt.Latency, reported: reported, now: opt.Now, answers: sinks.NewDeliveries()}
	for _, raw := range cfg.URLs {
		u, err := url.Parse(raw)
		if err != nil {
			return nil, err
		}
		s.endpoints = append(s.endpoints, newEndpoint(endpointName(u), s, opt))
	}
	for _, e := range s.endpoints {
		e.members = s.endpoints
	}
	return s, nil
}

// Name returns the configured name.
func (s *Sink) Name() string { return s.cfg.Name }

// Notify accepts changed episodes. After a start, and after Import, the caller must
// pass every open episode and the ones that ended recently. Notify does not block.
func (s *Sink) Notify(eps []episodes.Episode) {
	now := s.now()
	eps = withMarks(eps, s.cfg.Inhibit)
	s.shared.Lock()
	for _, e := range s.endpoints {
		e.State().Notify(eps, now)
	}
	s.shared.Unlock()
	for _, e := range s.endpoints {
		e.Wake()
	}
}

// Run sends until ctx ends. Then it tries once more to send what is due, changes
// first, for at most 3 s, and returns nil.
func (s *Sink) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, e := range s.endpoints {
		wg.Go(func() { _ = e.Run(ctx) }) // Run returns nil
	}
	wg.Wait()
	return nil
}

// Status returns the state of each Alertmanager, in configured order. One is up if it
// accepted the last alerts sent to it.
func (s *Sink) Status() []sinks.EndpointStatus {
	out := make([]sinks.EndpointStatus, len(s.endpoints))
	for i, e := range s.endpoints {
		out[i] = e.status()
	}
	return out
}

// Answers returns the Alertmanagers' answers to an alert, repeats merged.
func (s *Sink) Answers(fp episodes.Fingerprint) []sinks.Delivery { return s.answers.Of(fp) }

// Notified returns how many answers accepted an episode that fired at a time.
func (s *Sink) Notified(fp episodes.Fingerprint, fired time.Time) int {
	return s.answers.Notified(fp, fired)
}

// retryOthers makes the other endpoints try now, because this one is back after an outage,
// which was that of all perhaps. Members of a cluster that get the end of an alert at
// different times notify the alert once more.
func (s *Sink) retryOthers(back *endpoint) {
	for _, e := range s.endpoints {
		if e != back {
			e.Retry()
		}
	}
}

// began reports the latency of episodes that an Alertmanager accepted for the first
// time.
func (s *Sink) began(eps []episodes.Episode) {
	now := s.now()
	var latencies []time.Duration
	s.mu.Lock()
	for _, ep := range eps {
		if starts, _ := s.reported.Get(ep.Fingerprint); !ep.Written.IsZero() && !starts.Equal(ep.StartsAt) {
			latencies = append(latencies, max(now.Sub(ep.Written), 0))
		}
		s.reported.Add(ep.Fingerprint, ep.StartsAt)
	}
	s.mu.Unlock()
	if s.latency == nil {
		return
	}
	for _, d := range latencies {
		s.latency(d)
	}
}
