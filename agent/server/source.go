// Package server is the aggregator's end of the connection: it accepts the hits that agents
// find on their nodes. Each node is a member of the source with a watermark of its own.
//
// A batch is accepted once and in order, however often it is sent. Each answer names the
// batches that the saved state contains. The agent keeps the others, and sends them again
// after a restart of the aggregator. Input from the network is bounded before memory is
// allocated for it.
package server

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"crowsnest/agent/wire"
	"crowsnest/internal/metric"
	"crowsnest/internal/times"
	"crowsnest/rules"
	"crowsnest/sources"
)

// Bounds of what the network can make the process do.
const (
	maxBodies   = 16 << 20 // bytes of messages that are being read
	maxDecoders = 2        // batches that are unpacked at a time
)

// settleTime is the time for which a start without saved state waits for agents that are
// still unknown. They come back within a few seconds.
const settleTime = 15 * time.Second

// lossGap is the reason of lost hits: the state of the aggregator lacks hits that their agent
// no longer has.
const lossGap = "agent_gap"

// skewShown is the difference of two clocks from which it is reported.
const skewShown = 10 * time.Second

// Source accepts the hits of agents. Safe for concurrent use.
type Source struct {
	cfg           Config
	steady        times.Steady
	process       string // random name of this process
	agentToken    *tokenFile
	operatorToken *tokenFile
	reviews       *reviewer  // nil if tokens are not reviewed
	watch         *nodeWatch // nil if Nodes are not watched
	bodyRoom      *semaphore.Weighted
	decoders      chan *wire.Decoder
	index         atomic.Pointer[wire.Index] // index of the active rules
	onComplaints  atomic.Pointer[func(member string, report []byte) error]

	mu            sync.Mutex
	nodes         map[string]*node
	restoredAt    time.Time
	awaitsUnknown bool // Agents may exist that are still unknown.
	listening     bool
	opened        bool // It has listened at least once.
	listenError   string
	stats         Stats
	gap           sources.Loss
	rollout       rollout
	held          []*held // oldest first
}

// Stats are counters of the source.
type Stats struct {
	Hits      int64              // accepted hits
	Other     int64              // accepted hits that another version of their rule found
	Batches   int64              // accepted batches
	Repeats   int64              // batches that were sent again
	Bytes     int64              // compressed size of the batches
	Dropped   map[string]int64   // hits that no active rule accepts, by reason
	Refused   map[string]int64   // refused messages by reason
	Newest    map[string]Refused // newest refused message by reason
	Forgotten int64              // nodes that are no longer waited for
	Losses    int64              // losses that agents reported
	Held      int                // hits that wait for their rule to be loaded here
}

// Refused is a message that was refused.
type Refused struct {
	At   time.Time
	From string // address of the sender
	Why  string
}

// New returns a source that does not listen yet.
func New(cfg Config) *Source {
	cfg = cfg.withDefaults()
	s := &Source{
		cfg: cfg, steady: times.NewSteady(cfg.Clock()), process: rand.Text(), awaitsUnknown: true,
		bodyRoom: semaphore.NewWeighted(maxBodies), decoders: make(chan *wire.Decoder, maxDecoders), nodes: map[string]*node{},
		stats: Stats{Dropped: map[string]int64{}, Refused: map[string]int64{}, Newest: map[string]Refused{}},
		agentToken: &tokenFile{
			path: cfg.BearerTokenFile, key: "bearer_token_file", reason: refusedAuth, now: cfg.Clock,
			fix: "the agent must present the token of sources.agents.bearer_token_file; set sinks.upstream.http_config.authorization.credentials_file",
		},
		operatorToken: &tokenFile{
			path: cfg.AdminTokenFile, key: "admin_token_file", reason: refusedAdmin, now: cfg.Clock,
			fix: "show the token of sources.agents.admin_token_file",
		},
		reviews: newReviewer(cfg.TokenReview, cfg.MaxAgents, cfg.Clock, cfg.Transport),
		watch:   newNodeWatch(cfg.Nodes, cfg.Clock, cfg.Transport),
	}
	for range maxDecoders {
		s.decoders <- new(wire.Decoder)
	}
	for _, r := range wire.Reasons() {
		s.stats.Dropped[string(r)] = 0
	}
	for _, r := range refusals() {
		s.stats.Refused[r] = 0
	}
	return s
}

// withLock calls f with mu held.
func (s *Source) withLock(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// OnComplaints makes ingest receive the unmatched errors in the report of a member, or nil if
// its agent does not look for them. An error refuses the report. ingest must not block.
func (s *Source) OnComplaints(ingest func(member string, report []byte) error) {
	s.onComplaints.Store(&ingest)
}

// Name is "agents" unless the configuration has another one.
func (s *Source) Name() string { return s.cfg.Name }

// Info implements sources.Source.
func (s *Source) Info() sources.Info { return sources.Info{Lateness: s.cfg.Lateness, Members: s} }

// member returns the name of a node in the pipeline.
func (s *Source) member(node string) string { return s.cfg.Name + "/" + node }

// unknownMember returns the member that stands for nodes that are still unknown. No node has
// that name.
func (s *Source) unknownMember() string { return s.member("?") }

// Members returns the nodes that are waited for. After a start without saved state there is
// one more for some seconds, which stands for nodes that are still unknown.
func (s *Source) Members() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for name, n := range s.nodes {
		if n.known {
			out = append(out, s.member(name))
		}
	}
	if s.awaitsUnknown {
		out = append(out, s.unknownMember())
	}
	slices.Sort(out)
	return out
}

// Serves reports whether an agent reads streams that the selector may select.
func (s *Source) Serves(from rules.Selector) bool {
	return slices.ContainsFunc(s.Members(), func(member string) bool { return s.MemberServes(member)(from) })
}

// MemberServes returns a function that reports whether the streams of an agent can satisfy a
// selector, by its newest report. Without a report they can satisfy all, and no conclusion
// rests on the agent.
func (s *Source) MemberServes(member string) func(rules.Selector) bool {
	var unread []string
	s.withLock(func() {
		if n := s.nodes[strings.TrimPrefix(member, s.cfg.Name+"/")]; n != nil {
			unread = n.unread
		}
	})
	return func(from rules.Selector) bool {
		_, found := slices.BinarySearch(unread, from.String())
		return !found
	}
}

// Stats returns a copy of the counters.
func (s *Source) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	for _, h := range s.held {
		st.Held += h.Hits
	}
	st.Dropped, st.Refused, st.Newest = maps.Clone(st.Dropped), maps.Clone(st.Refused), maps.Clone(st.Newest)
	return st
}

// Status returns the state of the source. Its lines are hits, and its watermark is the one of
// the node that is furthest behind.
func (s *Source) Status() sources.Status {
	now := s.cfg.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := sources.Status{
		Name: s.cfg.Name, Up: s.listening, Opened: s.opened, Error: s.listenError,
		Lines: s.stats.Hits, Evaluated: s.stats.Hits, Bytes: s.stats.Bytes, Errors: maps.Clone(s.stats.Refused),
		Losses: map[string]sources.Loss{}, Members: make(map[string]sources.MemberStatus, len(s.nodes)),
	}
	if out.Error == "" {
		out.Error = s.watch.problem(now)
	}
	if s.gap.Count > 0 {
		out.Losses[lossGap] = s.gap
	}
	out.Conditions = s.conditions(now)
	first := true
	for name, n := range s.nodes {
		if !n.known {
			continue
		}
		out.Members[s.member(name)] = s.memberStatus(n, now)
		if first || n.watermark.Before(out.Watermark) {
			out.Watermark = n.watermark
		}
		first = false
	}
	return out
}

// memberStatus returns the state of one node. The caller holds mu.
func (s *Source) memberStatus(n *node, now time.Time) sources.MemberStatus {
	skew := s.skew(n, now)
	p := sources.MemberStatus{
		Up: true, Since: n.heard, Watermark: n.watermark, Lagging: n.lagging, Skew: skew, Refused: n.refused, Reports: n.openAlerts(), Idle: n.idle,
	}
	silent := now.Sub(n.heard)
	switch {
	case n.left:
		p.Up, p.Error = false, "its agent stopped and has not come back"
	case len(n.clock.samples) == 0:
		p.Up, p.Error = false, "its agent has not been heard from since the start of the aggregator"
	case silent >= s.cfg.SilentAfter:
		p.Up, p.Error = false, fmt.Sprintf("its agent was last heard from %v ago", silent.Round(time.Second))
	case n.blindness() != "":
		p.Error = "its agent reports: " + n.blindness()
	case n.watermark.IsZero():
		p.Error = "its agent has not read up to the present yet"
	case skew >= skewShown:
		p.Error = fmt.Sprintf("its clock is %v ahead, which is corrected", skew.Round(time.Second))
	case skew <= -skewShown:
		p.Error = fmt.Sprintf("its clock is %v behind, which is corrected", -skew.Round(time.Second))
	}
	return p
}

// Metrics returns the metrics of the source. Series of a node exist as long as the source
// waits for the node.
func (s *Source) Metrics() metric.Collector {
	type scrape struct {
		Stats
		status sources.Status
	}
	type scrapedNode struct {
		name string
		sources.MemberStatus
	}
	itself := func(x scrape) []scrape { return []scrape{x} }
	nodes := func(x scrape) []scrapedNode {
		var out []scrapedNode
		for member, status := range x.status.Members {
			out = append(out, scrapedNode{strings.TrimPrefix(member, s.Name()+"/"), status})
		}
		return out
	}
	return metric.New(func() scrape { return scrape{s.Stats(), s.Status()} }, metric.Each(itself, []string{"source"}, func(scrape) []string { return []string{s.Name()} },
		metric.Each(nodes, []string{"node"}, func(n scrapedNode) []string { return []string{n.name} },
			metric.Gauge("agent_up", "Whether the agent of a node is up.", func(n scrapedNode) bool { return n.Up }),
			metric.Gauge("agent_clock_skew_seconds", "How far the clock of a node is ahead, network delay included.", func(n scrapedNode) time.Duration { return n.Skew }),
			metric.Gauge("agent_proved_timestamp_seconds", "Watermark of a node: all its lines up to this time were read; 0: none.", func(n scrapedNode) time.Time { return n.Watermark }),
			metric.Gauge("agent_last_heard_timestamp_seconds", "When the agent of a node last sent a message.", func(n scrapedNode) time.Time { return n.Since }),
		),
		metric.Counter("agents_hits_total", "Hits accepted from agents.", func(x scrape) int64 { return x.Hits }),
		metric.Counter("agents_other_version_hits_total", "Hits accepted although the agent has another version of their rule.", func(x scrape) int64 { return x.Other }),
		metric.Counter("agents_batches_total", "Batches accepted from agents.", func(x scrape) int64 { return x.Batches }),
		metric.Counter("agents_repeated_batches_total", "Batches that were sent again and ignored.", func(x scrape) int64 { return x.Repeats }),
		metric.CounterBy("agents_dropped_hits_total", "Hits that no active rule accepts.", "reason", func(x scrape) map[string]int64 { return x.Dropped }),
		metric.CounterBy("agents_refused_messages_total", "Messages that were refused.", "reason", func(x scrape) map[string]int64 { return x.Refused }),
		metric.Counter("agents_gaps_total", "How often an agent no longer had hits that the saved state lacks.",
			func(x scrape) int64 { return x.status.Losses[lossGap].Count }),
		metric.GaugeBy("agents_reporting", "Nodes whose agent reports this alert about itself.", "alert", func(x scrape) map[string]int {
			out := map[string]int{}
			for _, c := range x.status.Conditions {
				out[c.Alert] += len(c.Members)
			}
			return out
		}),
		metric.Gauge("agents_held_hits", "Hits that wait for their rule to be loaded here.", func(x scrape) int { return x.Held }),
		metric.Counter("agents_losses_total", "Losses of lines that agents reported.", func(x scrape) int64 { return x.Losses }),
		metric.Counter("agents_forgotten_total", "Nodes that are no longer waited for: silent for too long, or gone for good.", func(x scrape) int64 { return x.Forgotten }),
	))
}
