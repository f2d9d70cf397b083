package alertmanager

import (
	"context"
	"net/url"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"crowsnest/episodes"
	"crowsnest/sinks"
	"crowsnest/sinks/internal/delivery"
)

// latenciesKept is the number of episodes that the sink remembers because it has reported
// their latency.
const latenciesKept = 4096

// Options are the dependencies of a Sink.
type Options = delivery.Options

// Sink sends episodes to every configured Alertmanager. It is safe for concurrent use.
type Sink struct {
	*sinks.Deliveries // the Alertmanagers' answers to messages

	cfg       Config
	latency   func(time.Duration)
	now       func() time.Time
	endpoints members
	shared    sync.Mutex // guards the fields of endpoints that other endpoints read

	ended sinks.EndedPack

	mu sync.Mutex
	// reported holds the episodes whose latency was reported, with their start times.
	reported *lru.Cache[episodes.Fingerprint, time.Time]
}

// New returns a Sink. It fails if cfg is invalid. It starts nothing and does no I/O.
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
	s := &Sink{cfg: cfg, latency: opt.Latency, reported: reported, now: opt.Now, Deliveries: sinks.NewDeliveries()}
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

// Notify accepts changed episodes. After a start and after Import, the caller must pass all
// open and recently ended episodes. Notify does not block.
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

// Run sends until ctx ends. Then it tries once more to send what is due, with changes first,
// for at most 3 s. It returns nil.
func (s *Sink) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, e := range s.endpoints {
		wg.Go(func() { _ = e.Run(ctx) }) // Run always returns nil
	}
	wg.Wait()
	return nil
}

// Status returns the states of the Alertmanagers in the order of the configuration. An
// Alertmanager is up if it accepted the last alerts that were sent to it.
func (s *Sink) Status() []sinks.EndpointStatus {
	out := make([]sinks.EndpointStatus, len(s.endpoints))
	for i, e := range s.endpoints {
		out[i] = e.status()
	}
	return out
}

// retryOthers makes all other endpoints try now, because the outage from which this endpoint
// has recovered may have affected them too. If members of a cluster receive the end of an
// alert at different times, they repeat the notification of the alert.
func (s *Sink) retryOthers(back *endpoint) {
	for _, e := range s.endpoints {
		if e != back {
			e.Retry()
		}
	}
}

// observeLatency reports the latency of episodes that were accepted by an Alertmanager for the
// first time.
func (s *Sink) observeLatency(eps []episodes.Episode) {
	now := s.now()
	var latencies []time.Duration
	s.mu.Lock()
	for _, ep := range eps {
		if starts, _ := s.reported.Get(ep.Fingerprint); !ep.EventTime.IsZero() && !starts.Equal(ep.StartsAt) {
			latencies = append(latencies, max(now.Sub(ep.EventTime), 0))
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
