// Package server is the aggregator's end of the connection to the agents. It accepts the hits that agents find on their
// nodes. Each node is a member of the source with its own watermark, which is the time up to which its logs were read.
//
// A batch is accepted only once and in order, however often it is sent. Each answer names the newest batch in the saved
// state. The agent keeps later batches, and sends them again after a restart of the aggregator. Input from the network
// is limited before memory is allocated for it.
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
	"crowsnest/internal/httpserve"
	"crowsnest/internal/metric"
	"crowsnest/internal/times"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
)

// Limits of the work that the network can cause.
const (
	maxBodies   = 16 << 20 // largest total size of the messages that are being read, in bytes
	maxDecoders = 2        // largest number of batches that are decoded at the same time
)

// settleTime is the time for which a process without saved state waits for agents that it does
// not know. Agents that are running connect within a few seconds.
const settleTime = 15 * time.Second

// lossGap is the reason for losing hits of a batch that neither the state of the aggregator nor the agent has any more.
const lossGap = "agent_gap"

// skewShown is the smallest difference of two clocks that is reported.
const skewShown = 10 * time.Second

// Source accepts the hits of agents. It is safe for concurrent use.
type Source struct {
	cfg           Config
	steady        times.Steady
	process       string // random name of this process
	agentToken    *tokenFile
	operatorToken *tokenFile
	reviews       *reviewer  // reviewer of tokens; nil if tokens are not reviewed
	watch         *nodeWatch // watch of Nodes; nil if Nodes are not watched
	bodyRoom      *semaphore.Weighted
	decoders      chan *wire.Decoder
	index         atomic.Pointer[wire.Index] // index of the active rules
	onComplaints  atomic.Pointer[func(member string, report []byte) error]

	mu            sync.Mutex
	nodes         map[string]*node
	restoredAt    time.Time
	awaitsUnknown bool // whether the source still waits for agents that it does not know yet
	listening     bool
	opened        bool // whether the source has been able to listen
	listenError   string
	stats         Stats
	gap           sources.Loss
	rollout       rollout
	ownedRules    wire.RulesAnswer // active rule files of namespaces; its ID is empty until OfferRules was called
	held          []*heldBatch     // batches that wait for their rules, from old to new
}

// Stats are counters of the source.
type Stats struct {
	Hits             int64                     // number of accepted hits
	OtherVersionHits int64                     // number of accepted hits that another version of the rule had found
	Batches          int64                     // number of accepted batches
	Repeats          int64                     // number of batches that were sent again
	Bytes            int64                     // compressed size of the accepted batches
	DroppedHits      map[string]int64          // number of dropped hits, by reason
	RefusedMessages  map[string]int64          // number of refused messages, by reason
	NewestRefused    map[string]RefusedMessage // newest refused message, by reason
	Forgotten        int64                     // number of nodes that were removed
	Losses           int64                     // number of losses that agents reported
	HeldHits         int                       // number of hits that wait until their rule is loaded
}

// RefusedMessage is a message that was refused.
type RefusedMessage struct {
	Time   time.Time
	Sender string // address from which the message came
	Reason string
}

// New returns a source. It does not listen yet.
func New(cfg Config) *Source {
	cfg = cfg.withDefaults()
	s := &Source{
		cfg: cfg, steady: times.NewSteady(cfg.Clock()), process: rand.Text(), awaitsUnknown: true,
		bodyRoom: semaphore.NewWeighted(maxBodies), decoders: make(chan *wire.Decoder, maxDecoders), nodes: map[string]*node{},
		stats: Stats{DroppedHits: map[string]int64{}, RefusedMessages: map[string]int64{}, NewestRefused: map[string]RefusedMessage{}},
		agentToken: &tokenFile{
			TokenFile: httpserve.TokenFile{Path: cfg.BearerTokenFile, Key: "bearer_token_file"}, reason: refusedAuth,
			fix: "the agent must present the token of sources.agents.bearer_token_file; set sinks.upstream.http_config.authorization.credentials_file",
		},
		operatorToken: &tokenFile{
			TokenFile: httpserve.TokenFile{Path: cfg.AdminTokenFile, Key: "admin_token_file"}, reason: refusedAdmin,
			fix: "show the token of sources.agents.admin_token_file",
		},
		reviews: newReviewer(cfg.TokenReview, cfg.MaxAgents, cfg.Clock, cfg.Transport),
		watch:   newNodeWatch(cfg.Nodes, cfg.Clock, cfg.Transport),
	}
	for range maxDecoders {
		s.decoders <- new(wire.Decoder)
	}
	for _, r := range wire.Reasons() {
		s.stats.DroppedHits[string(r)] = 0
	}
	for _, r := range refusalReasons() {
		s.stats.RefusedMessages[r] = 0
	}
	return s
}

func (s *Source) withLock(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// OnComplaints sets ingest, which receives the unmatched errors that a member reports. report is nil if the member's
// agent does not look for them. If ingest returns an error, the member's report is refused. ingest must not block.
func (s *Source) OnComplaints(ingest func(member string, report []byte) error) {
	s.onComplaints.Store(&ingest)
}

// Name returns "agents" unless the configuration sets another name.
func (s *Source) Name() string { return s.cfg.Name }

// Info implements sources.Source.
func (s *Source) Info() sources.Info { return sources.Info{Lateness: s.cfg.Lateness, Members: s} }

func (s *Source) memberName(node string) string { return s.cfg.Name + "/" + node }

// unknownMember returns the name of the member that represents unknown nodes. No node has it.
func (s *Source) unknownMember() string { return s.memberName("?") }

// Members returns the names of the known nodes. For some seconds after a start without saved
// state, they include a member that represents unknown nodes.
func (s *Source) Members() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for name, n := range s.nodes {
		if n.known {
			out = append(out, s.memberName(name))
		}
	}
	if s.awaitsUnknown {
		out = append(out, s.unknownMember())
	}
	slices.Sort(out)
	return out
}

// Serves reports whether an agent reads streams that the selector can select.
func (s *Source) Serves(from rules.Selector) bool {
	return slices.ContainsFunc(s.Members(), func(member string) bool { return s.MemberServes(member)(from) })
}

// MemberServes returns a function that reports whether the streams of an agent can satisfy a selector. It is based on
// the agent's newest report. Without a report, it assumes that they can satisfy any selector.
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
		st.HeldHits += h.Hits
	}
	st.DroppedHits, st.RefusedMessages, st.NewestRefused = maps.Clone(st.DroppedHits), maps.Clone(st.RefusedMessages), maps.Clone(st.NewestRefused)
	return st
}

// Status returns the state of the source. Its Lines are hits. Its Watermark is the watermark
// of the node that is furthest behind.
func (s *Source) Status() sources.Status {
	now := s.cfg.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := sources.Status{
		Name: s.cfg.Name, Up: s.listening, Opened: s.opened, Error: s.listenError,
		Counters: matcher.Counters{Lines: s.stats.Hits, Evaluated: s.stats.Hits, Bytes: s.stats.Bytes}, Errors: maps.Clone(s.stats.RefusedMessages),
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
		out.Members[s.memberName(name)] = s.memberStatus(n, now)
		if first || n.watermark.Before(out.Watermark) {
			out.Watermark = n.watermark
		}
		first = false
	}
	return out
}

// memberStatus returns the state of one node. The caller holds mu.
func (s *Source) memberStatus(n *node, now time.Time) sources.MemberStatus {
	skew := s.clockSkew(n, now)
	p := sources.MemberStatus{
		Up: true, Since: n.lastMessageAt, Watermark: n.watermark, Lagging: n.lagging, Skew: skew, RefusedAt: n.refusedAt, Reports: n.openAlerts(), Idle: n.idle,
	}
	silent := now.Sub(n.lastMessageAt)
	switch {
	case n.left:
		p.Up, p.Error = false, "its agent stopped and has not come back"
	case len(n.clock.samples) == 0:
		p.Up, p.Error = false, "its agent has not been heard from since the start of the aggregator"
	case silent >= s.cfg.SilentAfter:
		p.Up, p.Error = false, fmt.Sprintf("its agent was last heard from %v ago", silent.Round(time.Second))
	case n.whyBlind() != "":
		p.Error = "its agent reports: " + n.whyBlind()
	case n.watermark.IsZero():
		p.Error = "its agent has not read up to the present yet"
	case skew >= skewShown:
		p.Error = fmt.Sprintf("its clock is %v ahead, which is corrected", skew.Round(time.Second))
	case skew <= -skewShown:
		p.Error = fmt.Sprintf("its clock is %v behind, which is corrected", -skew.Round(time.Second))
	}
	return p
}

// Metrics returns the metrics of the source. A node has series as long as it is known.
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
	return metric.New(func() scrape { return scrape{s.Stats(), s.Status()} }, metric.ForEach(itself, []string{"source"}, func(scrape) []string { return []string{s.Name()} },
		metric.ForEach(nodes, []string{"node"}, func(n scrapedNode) []string { return []string{n.name} },
			metric.Gauge("agent_up", "Whether the agent of a node is up.", func(n scrapedNode) bool { return n.Up }),
			metric.Gauge("agent_clock_skew_seconds", "How far the clock of a node is ahead, network delay included.", func(n scrapedNode) time.Duration { return n.Skew }),
			metric.Gauge("agent_proved_timestamp_seconds", "Watermark of a node, the time up to which all its lines were read; 0 if there is none.", func(n scrapedNode) time.Time { return n.Watermark }),
			metric.Gauge("agent_last_heard_timestamp_seconds", "When the agent of a node last sent a message.", func(n scrapedNode) time.Time { return n.Since }),
		),
		metric.Counter("agents_hits_total", "Hits accepted from agents.", func(x scrape) int64 { return x.Hits }),
		metric.Counter("agents_other_version_hits_total", "Accepted hits whose rule has another version at the agent.", func(x scrape) int64 { return x.OtherVersionHits }),
		metric.Counter("agents_batches_total", "Batches accepted from agents.", func(x scrape) int64 { return x.Batches }),
		metric.Counter("agents_repeated_batches_total", "Batches that were sent again and ignored.", func(x scrape) int64 { return x.Repeats }),
		metric.CounterBy("agents_dropped_hits_total", "Hits that no active rule accepts.", "reason", func(x scrape) map[string]int64 { return x.DroppedHits }),
		metric.CounterBy("agents_refused_messages_total", "Messages that were refused.", "reason", func(x scrape) map[string]int64 { return x.RefusedMessages }),
		metric.Counter("agents_gaps_total", "How often an agent no longer had hits that the saved state lacks.",
			func(x scrape) int64 { return x.status.Losses[lossGap].Count }),
		metric.GaugeBy("agents_reporting", "Nodes whose agent reports this alert about itself.", "alert", func(x scrape) map[string]int {
			out := map[string]int{}
			for _, c := range x.status.Conditions {
				out[c.Alert] += len(c.Members)
			}
			return out
		}),
		metric.Gauge("agents_held_hits", "Hits that wait because their rule is not loaded here yet.", func(x scrape) int { return x.HeldHits }),
		metric.Counter("agents_losses_total", "Losses of lines that agents reported.", func(x scrape) int64 { return x.Losses }),
		metric.Counter("agents_forgotten_total", "Nodes that rules no longer wait for, because they were silent for too long or were deleted.", func(x scrape) int64 { return x.Forgotten }),
	))
}
