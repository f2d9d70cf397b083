package alertmanager

import (
	"context"
	"net"
	"net/url"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/rs/zerolog"

	"crowsnest/episodes"
	"crowsnest/sinks"
	"crowsnest/sinks/internal/delivery"
)

// latenciesKept is the number of episodes that the sink remembers because it has reported their latency.
const latenciesKept = 4096

// Options are the dependencies of a Sink.
type Options = delivery.Options

// Sink sends episodes to every configured Alertmanager. It is safe for concurrent use.
type Sink struct {
	*sinks.Deliveries // the Alertmanagers' answers to messages

	cfg      Config
	opt      Options
	latency  func(time.Duration)
	now      func() time.Time
	log      zerolog.Logger
	resolver resolver

	shared      sync.Mutex // guards the following fields, and the fields of endpoints that other endpoints read
	endpoints   members    // Alertmanagers that are notified; the list is replaced and never changed
	discoveries []*discovery
	unsent      *sinks.State // messages before the first Alertmanager is found; nil afterwards

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
	s := &Sink{
		cfg: cfg, opt: opt, latency: opt.Latency, reported: reported, now: opt.Now, Deliveries: sinks.NewDeliveries(),
		log:      opt.Log.With().Str("component", "sink").Str("sink", cfg.Name).Logger(),
		resolver: net.DefaultResolver, discoveries: cfg.discoveries(),
	}
	var list members
	for _, raw := range cfg.URLs {
		u, err := url.Parse(raw)
		if err != nil {
			return nil, err
		}
		e := newEndpoint(Target{Name: endpointName(u), URL: endpointName(u), key: "urls"}, s)
		e.isStatic = true
		list = append(list, e)
	}
	s.setEndpoints(list)
	if len(list) == 0 {
		state := cfg.state()
		state.MaxKeys = opt.MaxKeys
		s.unsent = sinks.NewState(state)
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
	list := s.endpoints
	for _, st := range s.states() {
		st.Notify(eps, now)
	}
	s.shared.Unlock()
	for _, e := range list {
		e.Wake()
	}
}

// Run sends until ctx ends. Then it tries for at most 3 s to send the due messages once more, changes first. It returns
// nil.
func (s *Sink) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	start := func(e *endpoint) {
		own, stop := context.WithCancel(ctx)
		e.stop = stop
		wg.Go(func() {
			defer stop()
			_ = e.Run(own) // Run always returns nil
			if ctx.Err() == nil {
				s.removeMember(e)
			}
		})
	}
	for _, e := range s.all() {
		start(e)
	}
	for _, d := range s.discoveries {
		wg.Go(func() { s.discover(ctx, d, start) })
	}
	wg.Wait()
	return nil
}

// Status returns the states of the Alertmanagers in the order of the configuration, followed by those that were found.
// An Alertmanager is up if it accepted the last alerts that were sent to it.
func (s *Sink) Status() []sinks.EndpointStatus {
	list := s.all()
	out := make([]sinks.EndpointStatus, len(list))
	for i, e := range list {
		out[i] = e.status()
	}
	return out
}

// retryOthers makes all other endpoints try now, because the outage from which this endpoint
// has recovered may have affected them too. If members of a cluster receive the end of an
// alert at different times, they repeat the notification of the alert.
func (s *Sink) retryOthers(back *endpoint) {
	for _, e := range s.all() {
		if e != back {
			e.Retry()
		}
	}
}

// observeLatency reports the latency of episodes that were accepted by an Alertmanager for the first time.
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
