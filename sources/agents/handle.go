package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"crowsnest/hits"
	"crowsnest/internal/times"
	"crowsnest/sources"
)

// The reasons why messages are refused, as named in metrics.
const (
	refusedAuth      = "auth"
	refusedConflict  = "conflict"  // another agent has the name
	refusedMalformed = "malformed" // it cannot be read
	refusedSize      = "too_large" // or of unknown size
	refusedCount     = "too_many_agents"
	refusedBusy      = "busy"        // no memory for it now
	refusedReview    = "unavailable" // the API server cannot authenticate the agent
	refusedAdmin     = "admin"       // the caller may not remove a node
)

func refusals() []string {
	return []string{refusedAuth, refusedConflict, refusedMalformed, refusedSize, refusedCount, refusedBusy, refusedReview, refusedAdmin}
}

// Outsiders returns the reasons of refusals that concern no known node.
func Outsiders() []string {
	return []string{refusedAuth, refusedReview, refusedCount, refusedMalformed}
}

type refusal struct {
	code   int
	reason string
	err    error
}

// handler serves the agents of one run.
type handler struct {
	s *Source
	p sources.Pipeline
}

// Handler returns the handler for messages of agents, which Run serves. It is
// exported for tests and benchmarks.
func (s *Source) Handler(p sources.Pipeline) http.Handler {
	h := &handler{s: s, p: p}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+hits.Path, h.agent(hits.MaxMessage, h.message))
	mux.HandleFunc("POST "+hits.ReportPath, h.agent(hits.MaxReport, h.report))
	mux.HandleFunc("DELETE "+hits.NodePath+"{node}", h.admin(h.forget))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(hits.Header, strconv.Itoa(hits.Version))
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if !s.leads(w) {
			return
		}
		w.Header().Set(hits.ProcessHeader, s.process)
		mux.ServeHTTP(w, r)
	})
}

// leads reports whether this process may accept messages. If not, it answers that another
// one does, without its own name: an agent must not count it as a second aggregator.
func (s *Source) leads(w http.ResponseWriter) bool {
	if s.cfg.Leads == nil {
		return true
	}
	leads, who := s.cfg.Leads()
	if !leads {
		http.Error(w, "this process does not lead; "+cmp.Or(who, "nobody does yet"), http.StatusMisdirectedRequest)
	}
	return leads
}

func (s *Source) refuse(w http.ResponseWriter, r *http.Request, why *refusal) {
	s.mu.Lock()
	s.st.Refused[why.reason]++
	s.st.Newest[why.reason] = Refused{s.cfg.Clock(), r.RemoteAddr, why.err.Error()}
	s.mu.Unlock()
	if why.code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	http.Error(w, why.err.Error(), why.code)
}

func (h *handler) message(ctx context.Context, body []byte, who *caller) (any, *refusal) {
	m, err := hits.ReadMessage(body)
	if err != nil {
		code := http.StatusBadRequest
		if errors.Is(err, hits.ErrVersion) {
			code = http.StatusUnsupportedMediaType
		}
		return nil, &refusal{code, refusedMalformed, err}
	}
	if why := who.mayBe(m.Node); why != nil {
		return nil, why
	}
	return h.accept(ctx, &m, who)
}

// busyAfter is how long a message waits for memory.
const busyAfter = 2 * time.Second

// read reads a body of known and bounded size. done releases its memory.
func (s *Source) read(w http.ResponseWriter, r *http.Request, maxBytes int64) (body []byte, done func(), why *refusal) {
	size := r.ContentLength
	if size < 0 || size > maxBytes {
		return nil, nil, &refusal{http.StatusRequestEntityTooLarge, refusedSize, fmt.Errorf("a message states its size and has at most %d bytes", maxBytes)}
	}
	ctx, cancel := context.WithTimeout(r.Context(), busyAfter)
	defer cancel()
	weight := size + 1<<10
	if s.room.Acquire(ctx, weight) != nil {
		return nil, nil, &refusal{http.StatusServiceUnavailable, refusedBusy, errors.New("too many messages at a time: try again")}
	}
	body = make([]byte, size)
	if _, err := io.ReadFull(http.MaxBytesReader(w, r.Body, size), body); err != nil {
		s.room.Release(weight)
		return nil, nil, &refusal{http.StatusRequestTimeout, refusedMalformed, fmt.Errorf("read message: %w", err)}
	}
	return body, func() { s.room.Release(weight) }, nil
}

// accept handles a message of an agent. It accepts each batch at most once, and in
// order.
func (h *handler) accept(ctx context.Context, m *hits.Message, who *caller) (hits.Answer, *refusal) {
	s := h.s
	n, fresh, why := s.enter(m)
	if why != nil {
		return hits.Answer{}, why
	}
	defer n.busy.Unlock()
	s.set(func() { n.who = *who })
	if fresh {
		h.p.AddMember(n.member)
		// An empty Ingest makes the node part of the next save.
		h.p.Ingest(nothing, func() { s.set(func() { n.known = true }) })
	}
	taken := s.bridge(n, m)
	switch {
	case m.Payload != nil && m.Sequence == taken+1:
		if why := h.batch(ctx, n, m); why != nil {
			return hits.Answer{}, why
		}
	case m.Sequence > taken:
		return s.answer(n), nil // the agent must start with the batch after taken
	case m.Payload != nil:
		s.set(func() { s.st.Repeats++ })
	}
	if !m.Watermark.IsZero() && s.reported(n, m) {
		var upTo time.Time
		s.set(func() {
			now := s.cfg.Clock()
			shift := s.shift(n, now)
			for i := range m.Lagging {
				m.Lagging[i].ReadUpTo = m.Lagging[i].ReadUpTo.Add(shift)
			}
			upTo = m.Watermark.Add(shift)
			n.watermark, n.lagging = times.Earlier(upTo, now), m.Lagging
		})
		h.p.AdvanceWatermark(n.member, upTo, m.Lagging...)
	}
	if m.Goodbye {
		h.goodbye(n, m.Final)
	}
	return s.answer(n), nil
}

// enter returns the node of a message, new or known, with busy held. fresh reports
// whether this is the first message of its agent.
func (s *Source) enter(m *hits.Message) (n *node, fresh bool, why *refusal) {
	for {
		s.mu.Lock()
		n = s.nodes[m.Node]
		if n == nil {
			if len(s.nodes) >= s.cfg.MaxAgents {
				s.mu.Unlock()
				return nil, false, &refusal{http.StatusTooManyRequests, refusedCount, fmt.Errorf("%d agents are known already; raise sources.agents.max_agents", s.cfg.MaxAgents)}
			}
			n = &node{name: m.Node, member: s.member(m.Node)}
			s.nodes[m.Node] = n
		}
		s.mu.Unlock()
		n.busy.Lock()
		s.mu.Lock()
		if n.removed { // while we waited
			s.mu.Unlock()
			n.busy.Unlock()
			continue
		}
		fresh, why = s.admit(n, m, s.cfg.Clock())
		s.mu.Unlock()
		if why != nil {
			n.busy.Unlock()
		}
		return n, fresh, why
	}
}

// admit decides whether the sender may send for the node. The caller holds mu.
func (s *Source) admit(n *node, m *hits.Message, now time.Time) (fresh bool, why *refusal) {
	silent := now.Sub(n.heard)
	switch {
	case n.instance == m.Instance:
	case n.instance == "", n.left, slices.Contains(m.After, n.instance), silent >= s.cfg.SilentAfter || silent < 0:
		n.instance, n.taken, n.copied, n.saved, n.digest = m.Instance, 0, 0, 0, ""
		n.clock.restart()
		fresh = true
		n.object = n.object || s.watch.state(n.name) >= present
	default:
		n.refused = now
		return false, &refusal{http.StatusConflict, refusedConflict, fmt.Errorf("node %s has an agent already, last heard from %v ago; give each its own sinks.upstream.node", n.name, silent.Round(time.Millisecond))}
	}
	n.heard, n.waited, n.spoke, n.left = now, now, true, false
	n.clock.hear(m.Sent.Sub(now.Round(0)) + s.steady.Ahead(now))
	return fresh || !n.known, nil
}

// bridge returns the last accepted batch. If the agent no longer has the next one,
// the state that contained it is lost: bridge counts the loss, and the agent
// continues with the batches that it has.
func (s *Source) bridge(n *node, m *hits.Message) uint64 {
	now := s.cfg.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Sequence > n.taken && m.First > n.taken+1 {
		n.taken = m.First - 1
		l := s.losses[lossGap]
		s.losses[lossGap] = sources.Loss{Count: l.Count + 1, At: now, Path: n.name}
	}
	return n.taken
}

func (h *handler) batch(ctx context.Context, n *node, m *hits.Message) *refusal {
	s := h.s
	var d *hits.Decoder
	select {
	case d = <-s.decoders:
	case <-ctx.Done():
		return &refusal{http.StatusServiceUnavailable, refusedBusy, errors.New("the agent closed the connection")}
	}
	defer func() { s.decoders <- d }()
	b, err := d.Decode(m.Payload)
	if err != nil {
		return &refusal{http.StatusBadRequest, refusedMalformed, err}
	}
	var out outcome
	h.p.Ingest(s.finder(n, b, &out), func() {
		s.set(func() {
			n.taken = m.Sequence
			s.hold(n.name, out)
			s.st.Dropped[string(hits.ReasonUnknown)] += int64(out.Dropped[hits.ReasonUnknown] - out.n)
		})
	})
	s.set(func() {
		s.st.Batches++
		s.st.Bytes += int64(len(m.Payload))
		s.count(&out.Outcome)
	})
	return nil
}

// goodbye records that an agent stops, or that its node was removed.
func (h *handler) goodbye(n *node, final bool) {
	h.s.set(func() { n.left = true })
	if final {
		h.drop(n)
	}
}

// drop removes a node whose busy is held.
func (h *handler) drop(n *node) {
	h.s.set(func() {
		n.removed, n.known = true, false
		delete(h.s.nodes, n.name)
		h.s.force.stale = true
		h.s.st.Forgotten++
	})
	h.p.RemoveMember(n.member)
	h.p.Ingest(nothing, nil) // so that it is saved
}

// forget removes a node at an operator's request.
func (h *handler) forget(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("node")
	h.s.mu.Lock()
	n := h.s.nodes[name]
	h.s.mu.Unlock()
	if n == nil {
		http.Error(w, fmt.Sprintf("no node %q is known", name), http.StatusNotFound)
		return
	}
	n.busy.Lock()
	defer n.busy.Unlock()
	if !n.removed {
		h.drop(n)
	}
	w.WriteHeader(http.StatusNoContent)
}

// set calls f with mu held.
func (s *Source) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *Source) answer(n *node) hits.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return hits.Answer{Taken: n.taken, Saved: n.saved, Report: s.tokenOf(n)}
}
