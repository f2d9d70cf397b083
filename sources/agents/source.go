package agents

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"crowsnest/hits"
	"crowsnest/internal/times"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
)

// Bounds of what the network can make the process do.
const (
	bodies   = 16 << 20 // bytes of messages that are being read
	decoders = 2        // batches that are unpacked at a time
)

// settle is how long a start without saved state waits for agents that are still
// unknown: they come back within a few seconds.
const settle = 15 * time.Second

// lossGap is the reason of lost hits: an agent no longer has hits that the state of
// the aggregator lacks.
const lossGap = "agent_gap"

// node is the state of one node. Source.mu guards its fields; busy is held while
// one of its messages is handled.
type node struct {
	busy   sync.Mutex
	name   string
	member string

	instance string // of its agent's process; "": there was none yet
	taken    uint64 // last batch of the instance
	copied   uint64 // in the last result of Positions
	saved    uint64 // on disk

	known     bool      // the pipeline waits for its watermark
	object    bool      // a Node of its name was seen
	heard     time.Time // newest message
	waited    time.Time // since when it is waited for: heard, or the start
	spoke     bool      // since the start
	left      bool      // it said goodbye
	watermark time.Time
	lagging   []matcher.LaggingStream // read only up to earlier times; the slice does not change
	clock     agentClock
	clockSet  time.Duration // how far the clock of the node was set since the agent started, as reported last
	refused   time.Time     // when another agent of this name was last refused
	removed   bool
	who       caller // that speaks for it

	conditions map[string]condition // reported by its agent, by key
	rules      map[string]string    // digests by name; nil: not reported
	digest     string               // of the report of this instance; "": there is none
	idle       string               // why its agent has nothing to read, as reported last; "": it has something
	// unread are the selectors of rules that none of its streams satisfies, as reported
	// last, sorted. The slice does not change.
	unread []string
}

// Source accepts the hits of agents. Safe for concurrent use.
type Source struct {
	cfg      Config
	steady   times.Steady
	process  string // random name of this process
	token    *tokenFile
	watch    *nodeWatch // nil: Nodes are not watched
	reviews  *reviewer  // nil: tokens are not reviewed
	room     *semaphore.Weighted
	decoders chan *hits.Decoder
	// adminToken is the token of operators.
	adminToken *tokenFile
	index      atomic.Pointer[hits.Index] // of the rules in force
	// onComplaints takes the complaints in a report of a member.
	onComplaints atomic.Pointer[func(member string, report []byte) error]

	mu        sync.Mutex
	nodes     map[string]*node
	restored  bool // the saved state listed nodes
	settled   bool
	listening bool
	opened    bool
	err       string
	st        Stats
	losses    map[string]sources.Loss
	force     inForce
	held      []held // oldest first
	applied   *rules.Set
}

// Stats are counters of the source; they only grow.
type Stats struct {
	Hits    int64 // accepted
	Other   int64 // of these, found by another version of their rule
	Batches int64 // accepted
	Repeats int64 // batches sent again
	Bytes   int64 // of batches, compressed
	// Dropped counts hits that no rule in force accepts, by reason.
	Dropped map[string]int64
	// Refused counts messages, by reason, and Newest is the newest of each.
	Refused   map[string]int64
	Newest    map[string]Refused
	Forgotten int64 // nodes no longer waited for
	Losses    int64 // losses that agents reported
	Held      int   // hits that wait for their rule to be loaded here
	HeldSince time.Time
}

// Refused is a message that was refused.
type Refused struct {
	At   time.Time
	From string // its address
	Why  string
}

var (
	_ sources.MultiSource = (*Source)(nil)
	_ sources.Saver       = (*Source)(nil)
	_ sources.Late        = (*Source)(nil)
)

// New returns a source that does not listen yet.
func New(cfg Config) *Source {
	s := &Source{
		cfg: cfg.withDefaults(), process: rand.Text(), room: semaphore.NewWeighted(bodies), decoders: make(chan *hits.Decoder, decoders),
		nodes: map[string]*node{}, losses: map[string]sources.Loss{},
		st: Stats{Dropped: map[string]int64{}, Refused: map[string]int64{}, Newest: map[string]Refused{}},
	}
	s.steady = times.NewSteady(s.cfg.Clock())
	s.watch = newNodeWatch(s.cfg.Nodes, s.cfg.Clock, s.cfg.Transport)
	s.token = &tokenFile{
		path: s.cfg.BearerTokenFile, key: "bearer_token_file", reason: refusedAuth, now: s.cfg.Clock,
		fix: "the agent must present the token of sources.agents.bearer_token_file; set sinks.upstream.http_config.authorization.credentials_file",
	}
	s.adminToken = &tokenFile{
		path: s.cfg.AdminTokenFile, key: "admin_token_file", reason: refusedAdmin, now: s.cfg.Clock,
		fix: "show the token of sources.agents.admin_token_file",
	}
	s.reviews = newReviewer(s.cfg.TokenReview, s.cfg.MaxAgents, s.cfg.Clock, s.cfg.Transport)
	for range decoders {
		s.decoders <- new(hits.Decoder)
	}
	for _, r := range hits.Reasons() {
		s.st.Dropped[string(r)] = 0
	}
	for _, r := range refusals() {
		s.st.Refused[r] = 0
	}
	return s
}

// OnComplaints makes take accept the complaints that no rule matches, as the agents of
// members report them; nil: the agent does not look for them. An error refuses the report. take must not block.
func (s *Source) OnComplaints(take func(member string, report []byte) error) {
	s.onComplaints.Store(&take)
}

// Name is "agents" unless the configuration has another.
func (s *Source) Name() string { return s.cfg.Name }

// Serves reports whether an agent reads streams that the selector may select.
func (s *Source) Serves(from rules.Selector) bool {
	return slices.ContainsFunc(s.Members(), func(member string) bool { return s.MemberServes(member)(from) })
}

// MemberServes returns which selectors the streams of an agent can satisfy, as it stated
// last: all of them if it has not stated any. No conclusion rests on an agent before it
// has.
func (s *Source) MemberServes(member string) func(rules.Selector) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[strings.TrimPrefix(member, s.cfg.Name+"/")]
	if n == nil || len(n.unread) == 0 {
		return func(rules.Selector) bool { return true }
	}
	unread := n.unread
	return func(from rules.Selector) bool {
		_, found := slices.BinarySearch(unread, from.String())
		return !found
	}
}

// Lateness returns by how much a node's effective watermark trails its reported one.
func (s *Source) Lateness() time.Duration { return s.cfg.Lateness }

// member returns the name of a node in the pipeline.
func (s *Source) member(node string) string { return s.cfg.Name + "/" + node }

// unknown returns the member that stands for nodes that are still unknown. No node
// has that name.
func (s *Source) unknown() string { return s.member("?") }

// Members returns the nodes that are waited for. After a start without saved state
// there is one more for some seconds, which stands for nodes that are still
// unknown.
func (s *Source) Members() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, n := range s.nodes {
		if n.known {
			out = append(out, n.member)
		}
	}
	if !s.restored && !s.settled {
		out = append(out, s.unknown())
	}
	slices.Sort(out)
	return out
}

type positions struct {
	Version int                     `json:"v"`
	Nodes   map[string]position     `json:"nodes"`
	Losses  map[string]sources.Loss `json:"losses,omitempty"`
	Held    []held                  `json:"held,omitempty"`
	// Behind is since when agents have other versions of rules.
	Behind map[string]time.Time `json:"behind,omitempty"`
}

type position struct {
	Instance string    `json:"instance"`
	Taken    uint64    `json:"taken"`
	Left     bool      `json:"left,omitempty"`
	Node     bool      `json:"node,omitempty"` // a Node of its name was seen
	Heard    time.Time `json:"heard"`
	// Ahead is how far the agent's steady clock is ahead, as corrected.
	Ahead time.Duration `json:"ahead,omitempty"`
	// Token is the hash of the agent's token, and Reviewed when the API server
	// accepted it: the agent stays known if the API server is away at the next
	// start.
	Token    string    `json:"token,omitempty"`
	Reviewed time.Time `json:"reviewed,omitzero"`
	// Conditions are those that the agent last reported.
	Conditions map[string]condition `json:"conditions,omitempty"`
	// Unread are the selectors of rules that its streams do not satisfy.
	Unread []string `json:"unread,omitempty"`
}

// Positions returns the last accepted batch of each node.
func (s *Source) Positions() json.RawMessage {
	now := s.cfg.Clock()
	s.mu.Lock()
	p := positions{Version: 1, Nodes: make(map[string]position, len(s.nodes)), Losses: maps.Clone(s.losses), Held: slices.Clone(s.held)}
	for rule, b := range s.force.behind {
		if p.Behind == nil {
			p.Behind = map[string]time.Time{}
		}
		p.Behind[rule] = b.Since
	}
	for name, n := range s.nodes {
		n.copied = n.taken
		if n.known {
			pos := position{Instance: n.instance, Taken: n.taken, Left: n.left, Node: n.object, Heard: n.heard.UTC(), Ahead: -s.shift(n, now), Conditions: n.conditions, Unread: n.unread}
			if !n.who.at.IsZero() {
				pos.Token, pos.Reviewed = hex.EncodeToString(n.who.token[:]), n.who.at.UTC()
			}
			p.Nodes[name] = pos
		}
	}
	s.mu.Unlock()
	b, _ := json.Marshal(p) // strings, numbers and times: cannot fail
	return b
}

// Saved records that the last result of Positions is on disk: agents may forget
// the batches before it.
func (s *Source) Saved() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		n.saved = n.copied
	}
}

// Restore sets the nodes from a result of Positions, before Run. All of them are
// waited for from now on.
func (s *Source) Restore(b json.RawMessage) error {
	if len(b) == 0 || string(b) == "null" {
		return nil
	}
	var p positions
	if err := json.Unmarshal(b, &p); err != nil {
		return fmt.Errorf("restore nodes: %w", err)
	}
	if p.Version != 1 {
		return fmt.Errorf("restore nodes: version %d is not known", p.Version)
	}
	if len(p.Nodes) > 10*s.cfg.MaxAgents {
		return errors.New("restore nodes: too many")
	}
	for name, pos := range p.Nodes {
		if err := errors.Join(hits.CheckName(name), hits.CheckName(pos.Instance)); err != nil {
			return fmt.Errorf("restore nodes: %w", err)
		}
	}
	now := s.cfg.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restored = true
	s.force.behind = map[string]sources.Behind{}
	for rule, since := range p.Behind {
		s.force.behind[rule] = sources.Behind{Since: times.Earlier(since, now)}
	}
	for name, pos := range p.Nodes {
		s.nodes[name] = &node{
			name: name, member: s.member(name), known: true, instance: pos.Instance, left: pos.Left, object: pos.Node,
			taken: pos.Taken, copied: pos.Taken, saved: pos.Taken, heard: times.Earlier(pos.Heard, now), waited: now,
			clock:      agentClock{ahead: pos.Ahead + s.steady.Ahead(now)},
			conditions: pos.Conditions, unread: slices.Sorted(slices.Values(pos.Unread)),
		}
		s.recall(name, pos)
	}
	s.held = slices.DeleteFunc(p.Held, func(h held) bool {
		_, err := new(hits.Decoder).Decode(h.Payload)
		return err != nil
	})
	if l, ok := p.Losses[lossGap]; ok {
		if l.At.After(now) {
			l.At = now
		}
		s.losses[lossGap] = l
	}
	return nil
}

// recall records that a token was valid when the state was saved.
func (s *Source) recall(node string, pos position) {
	v := verdict{node: node, at: pos.Reviewed}
	n, err := hex.Decode(v.token[:], []byte(pos.Token[:min(len(pos.Token), 2*len(v.token))]))
	if s.reviews != nil && err == nil && n == len(v.token) {
		s.reviews.remember(v)
		s.nodes[node].who = caller{nodes: []string{node}, token: v.token, at: v.at}
	}
}

// Stats returns a copy of the counters.
func (s *Source) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.st
	st.Held, st.HeldSince = s.heldHits()
	st.Dropped, st.Refused, st.Newest = maps.Clone(st.Dropped), maps.Clone(st.Refused), maps.Clone(st.Newest)
	return st
}

// Status returns the state of the source. Lines are hits; its watermark is that of
// the node that is furthest behind.
func (s *Source) Status() sources.Status {
	now := s.cfg.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := sources.Status{
		Name: s.cfg.Name, Up: s.listening, Opened: s.opened, Error: s.err,
		Lines: s.st.Hits, Evaluated: s.st.Hits, Bytes: s.st.Bytes,
		Losses: maps.Clone(s.losses), Members: make(map[string]sources.MemberStatus, len(s.nodes)),
		Errors: map[string]int64{},
	}
	if out.Error == "" {
		out.Error = s.watch.problem(now)
	}
	maps.Copy(out.Errors, s.st.Refused)
	out.Conditions = s.condensed(now)
	first := true
	for _, n := range s.nodes {
		if !n.known {
			continue
		}
		out.Members[n.member] = s.memberStatus(n, now)
		if first || n.watermark.Before(out.Watermark) {
			out.Watermark = n.watermark
		}
		first = false
	}
	return out
}

// skewShown is the difference of two clocks from which it is reported.
const skewShown = 10 * time.Second

// memberStatus returns the state of one node. The caller holds mu.
func (s *Source) memberStatus(n *node, now time.Time) sources.MemberStatus {
	skew := s.skew(n, now)
	p := sources.MemberStatus{
		Up: true, Since: n.heard, Watermark: n.watermark, Lagging: n.lagging, Skew: skew, Refused: n.refused, Reports: n.reports(), Idle: n.idle,
	}
	silent := now.Sub(n.heard)
	switch {
	case n.left:
		p.Up, p.Error = false, "its agent stopped and has not come back"
	case !n.spoke:
		p.Up, p.Error = false, "its agent has not been heard from since the start of the aggregator"
	case silent >= s.cfg.SilentAfter:
		p.Up, p.Error = false, fmt.Sprintf("its agent was last heard from %v ago", silent.Round(time.Second))
	case n.blindness() != "":
		p.Error = "its agent reports: " + n.blindness()
	case n.watermark.IsZero():
		p.Error = "its agent has not read up to the present yet"
	case skew.Abs() >= skewShown:
		p.Error = fmt.Sprintf("its clock is %v %s, which is corrected", skew.Abs().Round(time.Second), aheadOrBehind(skew))
	}
	return p
}

func aheadOrBehind(d time.Duration) string {
	if d > 0 {
		return "ahead"
	}
	return "behind"
}
