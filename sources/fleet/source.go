package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"crowsnest/httpconfig"
	"crowsnest/internal/pause"
	"crowsnest/rules"
	"crowsnest/sources"
)

const (
	// tickEvery is how often the list of targets is compared with what is polled, and the
	// watermark moves.
	tickEvery = time.Second
	// spread is the time within which the first polls of all clusters begin.
	spread = 2 * time.Second
	// encodeEvery is how soon positions are encoded again if only times changed.
	encodeEvery = 15 * time.Second
	// idleTimeout is how long a connection to a daemon is kept for the next poll.
	idleTimeout = 90 * time.Second
	userAgent   = "crowsnest"
)

// Source polls the clusters.
type Source struct {
	cfg  Config
	slot chan struct{} // of polls at the same time

	mu       sync.Mutex
	members  map[string]*member // by name of the cluster
	opened   bool               // some cluster answered
	counts   map[string]int64   // errors, by reason
	polls    Polls
	problems map[string]problem // of service discoveries
	lists    map[string][]found // what they found last
	changed  bool               // since encoded was made
	encoded  json.RawMessage
	at       time.Time // of encoded
}

// problem is why a service discovery failed last.
type problem struct {
	err   string
	since time.Time
}

// Polls counts what was asked.
type Polls struct {
	Answered int64 // polls with an answer that was used
	Same     int64 // those of them whose alerts had not changed
	Bytes    int64 // of answers, after decompression
}

// New returns a source. It does no I/O.
func New(cfg Config) *Source {
	cfg = cfg.withDefaults()
	s := &Source{
		cfg: cfg, slot: make(chan struct{}, cfg.Concurrency), members: map[string]*member{}, problems: map[string]problem{}, lists: map[string][]found{},
		counts: map[string]int64{"poll": 0, "refused": 0, "discovery": 0},
	}
	now := cfg.Clock()
	for _, t := range cfg.Clusters {
		base, err := parseAddress(t.URL)
		s.members[t.Cluster] = newMember(found{target{t.Cluster, base}, err}, now)
	}
	return s
}

// Name returns "fleet".
func (s *Source) Name() string { return "fleet" }

// Serves returns false: a fleet has no lines.
func (s *Source) Serves(rules.Selector) bool { return false }

// Remote marks the source as served by other processes.
func (s *Source) Remote() {}

// Clusters returns all clusters, by name. The caller may change the result, but not the
// lists and maps in it. Safe for concurrent use.
func (s *Source) Clusters() []Cluster {
	now := s.cfg.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Cluster, 0, len(s.members))
	for _, m := range s.members {
		out = append(out, m.at(now, s.cfg.UnknownAfter))
	}
	slices.SortFunc(out, byName)
	return out
}

// Alert returns when a failure in many clusters is an alert.
func (s *Source) Alert() Alert { return s.cfg.Alert }

// Discovery is the state of a service discovery.
type Discovery struct {
	Kind  string    `json:"kind"` // http_sd, file_sd
	Error string    `json:"error"`
	Since time.Time `json:"since"`
}

// Failing returns the service discoveries that fail. Meanwhile the targets of before are
// polled. Safe for concurrent use.
func (s *Source) Failing() []Discovery {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []Discovery{}
	for _, kind := range []string{"file_sd", "http_sd"} {
		if p, fails := s.problems[kind]; fails {
			out = append(out, Discovery{kind, p.err, p.since})
		}
	}
	return out
}

// Status implements sources.Source.
func (s *Source) Status() sources.Status {
	all := s.Clusters()
	failing := s.Failing()
	up := 0
	why := ""
	for _, c := range all {
		if c.State == Up {
			up++
		} else if why == "" && c.Error != "" {
			why = c.Name + ": " + c.Error
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := sources.Status{Name: s.Name(), Up: up > 0, Opened: s.opened, Errors: map[string]int64{}, Watermark: s.cfg.Clock(), Bytes: s.polls.Bytes}
	for reason, n := range s.counts {
		st.Errors[reason] = n
	}
	switch {
	case up > 0:
	case len(all) == 0 && len(failing) > 0:
		st.Error = failing[0].Error
	case len(all) == 0 && (s.cfg.FileSD != nil || s.cfg.HTTPSD != nil):
		st.Up, st.Opened, st.Idle = true, true, "discovery finds no cluster"
	case why != "":
		st.Error = fmt.Sprintf("none of %d clusters answers; %s", len(all), why)
	}
	return st
}

// Run polls until ctx ends, and waits for the polls in progress, which ctx ends as well.
func (s *Source) Run(ctx context.Context, p sources.Pipeline) error {
	client := s.client()
	defer client.Close()
	var running sync.WaitGroup
	defer running.Wait()
	s.discoverAll(ctx, &running)
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		h, err := client.Client()
		if err != nil {
			s.fails(err)
		} else {
			s.start(ctx, &running, h)
		}
		p.AdvanceWatermark(s.Name(), s.cfg.Clock())
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (s *Source) client() *httpconfig.Lazy {
	return &httpconfig.Lazy{Config: s.cfg.HTTP, Name: "fleet", UserAgent: userAgent, Idle: idleTimeout, Transport: s.cfg.Transport}
}

// fails records why no cluster can be asked.
func (s *Source) fails(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		m.err = err.Error()
	}
}

// start begins to poll the members that are not polled yet, and ends those that are gone.
func (s *Source) start(ctx context.Context, running *sync.WaitGroup, client *http.Client) {
	now := s.cfg.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, m := range s.members {
		if m.expired(now, s.cfg.ForgetAfter) {
			m.stop()
			delete(s.members, name)
			s.changed = true
			continue
		}
		if m.cancel != nil || !m.pollable() {
			continue
		}
		own, cancel := context.WithCancel(ctx)
		m.cancel = cancel
		d := &daemon{target: m.target, client: client, max: int64(s.cfg.MaxAnswerMiB) << 20}
		running.Go(func() {
			defer cancel()
			s.follow(own, m, d)
		})
	}
}

// follow polls one cluster until ctx ends.
func (s *Source) follow(ctx context.Context, m *member, d *daemon) {
	wait := time.Duration(rand.Int64N(int64(min(spread, s.cfg.Interval)))) //nolint:gosec // it spreads load
	for pause.Sleep(ctx, wait, nil) {
		select {
		case s.slot <- struct{}{}:
		case <-ctx.Done():
			return
		}
		s.poll(ctx, m, d)
		<-s.slot
		wait = jittered(s.cfg.Interval)
	}
}

// jittered returns a duration that is up to a tenth longer or shorter.
func jittered(d time.Duration) time.Duration {
	return d - d/10 + time.Duration(rand.Int64N(int64(d/5)+1)) //nolint:gosec // it spreads load
}

func (s *Source) poll(ctx context.Context, m *member, d *daemon) {
	limited, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	got, err := d.poll(limited)
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.counts[reasonOf(err)]++
		m.err, m.conflict = clean(err.Error(), maxError), false
		return
	}
	s.opened = true
	s.polls.Answered++
	s.polls.Bytes += got.bytes
	if got.same {
		s.polls.Same++
	}
	if m.accept(got, s.cfg.Clock()) {
		s.changed = true
	}
}
