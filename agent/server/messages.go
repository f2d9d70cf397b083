package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"crowsnest/agent/wire"
	"crowsnest/internal/times"
	"crowsnest/matcher"
	"crowsnest/rules"
)

func (h *handler) message(ctx context.Context, body []byte, who *caller) (any, *refusal) {
	m, err := wire.ReadMessage(body)
	if err != nil {
		code := http.StatusBadRequest
		if errors.Is(err, wire.ErrVersion) {
			code = http.StatusUnsupportedMediaType
		}
		return nil, &refusal{code, refusedMalformed, err}
	}
	if why := who.checkNode(m.Node); why != nil {
		return nil, why
	}
	return h.accept(ctx, &m, who)
}

// accept handles a message of an agent. It accepts each batch at most once, and in order.
func (h *handler) accept(ctx context.Context, m *wire.Message, who *caller) (wire.Answer, *refusal) {
	s := h.s
	n, fresh, why := s.enter(m)
	if why != nil {
		return wire.Answer{}, why
	}
	defer n.busy.Unlock()
	s.withLock(func() { n.who = *who })
	if fresh {
		h.p.AddMember(s.member(n.name))
		h.save(func() { n.known = true })
	}
	accepted := s.bridgeGap(n, m)
	switch {
	case m.Payload != nil && m.Sequence == accepted+1:
		if why := h.batch(ctx, n, m); why != nil {
			return wire.Answer{}, why
		}
	case m.Sequence > accepted:
		return s.answer(n), nil // The agent must continue with the batch after the accepted one.
	case m.Payload != nil:
		s.withLock(func() { s.stats.Repeats++ })
	}
	h.advance(n, m)
	if m.Goodbye {
		s.withLock(func() { n.left = true })
		if m.Final {
			h.remove(n)
		}
	}
	return s.answer(n), nil
}

// save makes the pipeline save the source. It calls change with mu held, together with the
// save's start.
func (h *handler) save(change func()) {
	h.p.Ingest(func(*rules.Set) []matcher.Hit { return nil }, func() { h.s.withLock(change) })
}

func (s *Source) answer(n *node) wire.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return wire.Answer{Taken: n.accepted, Saved: n.saved, Report: s.reportToken(n)}
}

// enter returns the node of a message, new or known, with busy held. fresh reports whether
// this is the first message of its agent.
func (s *Source) enter(m *wire.Message) (n *node, fresh bool, why *refusal) {
	for {
		s.mu.Lock()
		n = s.nodes[m.Node]
		if n == nil {
			if len(s.nodes) >= s.cfg.MaxAgents {
				s.mu.Unlock()
				return nil, false, &refusal{http.StatusTooManyRequests, refusedCount, fmt.Errorf("%d agents are known already; raise sources.agents.max_agents", s.cfg.MaxAgents)}
			}
			n = &node{name: m.Node}
			s.nodes[m.Node] = n
		}
		s.mu.Unlock()
		n.busy.Lock()
		s.mu.Lock()
		removed := s.isRemoved(n) // while this message waited
		if !removed {
			fresh, why = s.admit(n, m, s.cfg.Clock())
		}
		s.mu.Unlock()
		if removed || why != nil {
			n.busy.Unlock()
		}
		if !removed {
			return n, fresh, why
		}
	}
}

// admit decides whether the sender may send for the node. The caller holds mu.
func (s *Source) admit(n *node, m *wire.Message, now time.Time) (fresh bool, why *refusal) {
	silent := now.Sub(n.heard)
	switch {
	case n.instance == m.Instance:
	case n.instance == "", n.left, slices.Contains(m.After, n.instance), silent >= s.cfg.SilentAfter || silent < 0:
		n.instance, n.accepted, n.copied, n.saved, n.digest = m.Instance, 0, 0, 0, ""
		n.clock.samples = nil
		n.hasObject = n.hasObject || s.watch.presence(n.name) >= present
		fresh = true
	default:
		n.refused = now
		return false, &refusal{http.StatusConflict, refusedConflict, fmt.Errorf("node %s has an agent already, last heard from %v ago; give each its own sinks.upstream.node", n.name, silent.Round(time.Millisecond))}
	}
	n.heard, n.left = now, false
	n.clock.addSample(m.Sent.Sub(now.Round(0)) + s.steady.Ahead(now))
	return fresh || !n.known, nil
}

// bridgeGap returns the last accepted batch. If the agent no longer has the next one, the
// state that contained it is lost. Then bridgeGap counts the loss, and the agent continues
// with the batches that it has.
func (s *Source) bridgeGap(n *node, m *wire.Message) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Sequence > n.accepted && m.First > n.accepted+1 {
		n.accepted = m.First - 1
		s.gap.Count, s.gap.At, s.gap.Path = s.gap.Count+1, s.cfg.Clock(), n.name
	}
	return n.accepted
}

func (h *handler) batch(ctx context.Context, n *node, m *wire.Message) *refusal {
	s := h.s
	var d *wire.Decoder
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
	h.ingest(b, func() time.Duration { return s.shift(n, s.cfg.Clock()) }, func(out outcome) {
		n.accepted = m.Sequence
		s.stats.Batches++
		s.stats.Bytes += int64(len(m.Payload))
		s.stats.Dropped[string(wire.ReasonUnknown)] += int64(out.Dropped[wire.ReasonUnknown] - out.unknown)
		s.hold(n.name, out)
	})
	return nil
}

// outcome is the result of a batch.
type outcome struct {
	wire.Outcome
	shift   time.Duration // duration that was added to the times of hits
	rest    []byte        // batch of the hits whose rules are not loaded
	unknown int           // hits in rest
}

// ingest turns a batch into hits of the active rules. shift returns the duration to add to
// their times, and commit records the outcome. Both are called with mu held.
func (h *handler) ingest(b *wire.Batch, shift func() time.Duration, commit func(out outcome)) {
	s := h.s
	var out outcome
	h.p.Ingest(func(set *rules.Set) []matcher.Hit {
		s.withLock(func() { out.shift = shift() })
		index := s.index.Load()
		if !index.Of(set) {
			index = wire.NewIndex(set)
			s.index.Store(index)
		}
		var found []matcher.Hit
		found, out.Outcome = b.Find(index)
		if out.Dropped[wire.ReasonUnknown] > 0 {
			out.rest, out.unknown = b.Unknown(index)
		}
		for i := range found {
			found[i].Time = found[i].Time.Add(out.shift)
		}
		return found
	}, func() {
		s.withLock(func() {
			s.stats.Hits += int64(out.Taken)
			s.stats.Other += int64(out.Other)
			for why, n := range out.Dropped {
				if why != wire.ReasonUnknown {
					s.stats.Dropped[string(why)] += int64(n)
				}
			}
			commit(out)
		})
	})
}

// advance uses the watermark of a message. An agent that sends reports must first have
// reported its rules.
func (h *handler) advance(n *node, m *wire.Message) {
	s := h.s
	var upTo time.Time
	s.withLock(func() {
		if m.Watermark.IsZero() || m.Reports && n.digest == "" {
			return
		}
		now := s.cfg.Clock()
		shift := s.shift(n, now)
		for i := range m.Lagging {
			m.Lagging[i].ReadUpTo = m.Lagging[i].ReadUpTo.Add(shift)
		}
		upTo = m.Watermark.Add(shift)
		n.watermark, n.lagging = times.Earlier(upTo, now), m.Lagging
	})
	if !upTo.IsZero() {
		h.p.AdvanceWatermark(s.member(n.name), upTo, m.Lagging...)
	}
}

// maintain removes expired nodes and applies held hits, once a second until ctx ends.
func (h *handler) maintain(ctx context.Context) {
	began := h.s.cfg.Clock()
	tick := time.NewTicker(maintainEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			h.expire(began, h.s.cfg.Clock())
			h.applyHeld()
		}
	}
}

func (h *handler) expire(began, now time.Time) {
	s := h.s
	var expired []*node
	settled := false
	s.withLock(func() {
		if settled = s.awaitsUnknown && now.Sub(began) >= settleTime; settled {
			s.awaitsUnknown = false
		}
		for _, n := range s.nodes {
			if s.hasExpired(n, now) {
				expired = append(expired, n)
			}
		}
	})
	if settled {
		h.p.RemoveMember(s.unknownMember())
	}
	for _, n := range expired {
		if !n.busy.TryLock() {
			continue // Its agent came back.
		}
		still := false
		s.withLock(func() { still = !s.isRemoved(n) && s.hasExpired(n, now) })
		if still {
			h.remove(n)
		}
		n.busy.Unlock()
	}
}

// remove ends the wait for a node. The caller holds its busy.
func (h *handler) remove(n *node) {
	s := h.s
	s.withLock(func() {
		n.known = false
		delete(s.nodes, n.name)
		s.rollout.stale = true
		s.stats.Forgotten++
	})
	h.p.RemoveMember(s.member(n.name))
	h.save(func() {})
}

// forget removes a node at an operator's request.
func (h *handler) forget(w http.ResponseWriter, name string) {
	var n *node
	h.s.withLock(func() { n = h.s.nodes[name] })
	if n == nil {
		http.Error(w, fmt.Sprintf("no node %q is known", name), http.StatusNotFound)
		return
	}
	n.busy.Lock()
	defer n.busy.Unlock()
	removed := false
	h.s.withLock(func() { removed = h.s.isRemoved(n) })
	if !removed {
		h.remove(n)
	}
	w.WriteHeader(http.StatusNoContent)
}

// addCapped adds an increase to a counter, and stops at the largest number.
func addCapped(counter *int64, increase int64) {
	*counter += min(max(0, increase), math.MaxInt64-*counter)
}
