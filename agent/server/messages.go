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

func (h *handler) handleMessage(ctx context.Context, body []byte, who *caller) (any, *refusal) {
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
	return h.acceptMessage(ctx, &m, who)
}

// acceptMessage handles a message of an agent. It accepts batches in order, each at most once.
func (h *handler) acceptMessage(ctx context.Context, m *wire.Message, who *caller) (wire.Answer, *refusal) {
	s := h.s
	n, fresh, why := s.findOrAddNode(m)
	if why != nil {
		return wire.Answer{}, why
	}
	defer n.busy.Unlock()
	s.withLock(func() { n.caller = *who })
	if fresh {
		h.p.AddMember(s.memberName(n.name))
		h.saveSource(func() { n.known = true })
	}
	accepted := s.bridgeGap(n, m)
	switch {
	case m.Payload != nil && m.Sequence == accepted+1:
		if why := h.handleBatch(ctx, n, m); why != nil {
			return wire.Answer{}, why
		}
	case m.Sequence > accepted:
		return s.newAnswer(n), nil // the agent must continue with the batch after the newest accepted one
	case m.Payload != nil:
		s.withLock(func() { s.stats.Repeats++ })
	}
	h.useWatermark(n, m)
	if m.Goodbye {
		s.withLock(func() { n.left = true })
		if m.Final {
			h.stopWaiting(n)
		}
	}
	return s.newAnswer(n), nil
}

// saveSource changes the saved state of the source and makes the pipeline save it. It calls
// change under the checkpoint lock, with mu held.
func (h *handler) saveSource(change func()) {
	h.p.Ingest(func(*rules.Set) []matcher.Hit { return nil }, func() { h.s.withLock(change) })
}

func (s *Source) newAnswer(n *node) wire.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return wire.Answer{AcceptedSequence: n.accepted, SavedSequence: n.savedSequence, Report: s.reportToken(n), OwnedRules: s.ownedRules.ID}
}

// findOrAddNode returns the known or new node of a message, with n.busy held. fresh reports
// whether this is the first message of the node's agent.
func (s *Source) findOrAddNode(m *wire.Message) (n *node, fresh bool, why *refusal) {
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
		removed := s.isRemoved(n) // another message may have removed the node in the meantime
		if !removed {
			fresh, why = s.checkSender(n, m, s.cfg.Clock())
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

// checkSender returns the reason why the sender may not send for the node, or nil. fresh has
// the same meaning as in findOrAddNode. The caller holds mu.
func (s *Source) checkSender(n *node, m *wire.Message, now time.Time) (fresh bool, why *refusal) {
	silent := now.Sub(n.lastMessageAt)
	switch {
	case n.instance == m.Instance:
	case n.instance == "", n.left, slices.Contains(m.EarlierInstances, n.instance), silent >= s.cfg.SilentAfter || silent < 0:
		n.instance, n.accepted, n.copied, n.savedSequence, n.digest = m.Instance, 0, 0, 0, ""
		n.clock.samples = nil
		n.hasObject = n.hasObject || s.watch.presence(n.name) >= present
		fresh = true
	default:
		n.refusedAt = now
		return false, &refusal{http.StatusConflict, refusedConflict, fmt.Errorf("node %s has an agent already, last heard from %v ago; give each its own sinks.upstream.node", n.name, silent.Round(time.Millisecond))}
	}
	n.lastMessageAt, n.left = now, false
	n.clock.addSample(m.SentAt.Sub(now.Round(0)) + s.steady.SetAhead(now))
	return fresh || !n.known, nil
}

// bridgeGap returns the number of the newest accepted batch. If the agent no longer has the next batch, the aggregator
// once saved the next batch, but has lost its saved state since. bridgeGap then counts the loss, and continues with the
// oldest batch that the agent has.
func (s *Source) bridgeGap(n *node, m *wire.Message) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Sequence > n.accepted && m.OldestSequence > n.accepted+1 {
		n.accepted = m.OldestSequence - 1
		s.gap.Count, s.gap.Time, s.gap.Path = s.gap.Count+1, s.cfg.Clock(), n.name
	}
	return n.accepted
}

func (h *handler) handleBatch(ctx context.Context, n *node, m *wire.Message) *refusal {
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
	h.ingestBatch(b, func() time.Duration { return s.clockShift(n, s.cfg.Clock()) }, func(out outcome) {
		n.accepted = m.Sequence
		s.stats.Batches++
		s.stats.Bytes += int64(len(m.Payload))
		s.stats.DroppedHits[string(wire.ReasonUnknown)] += int64(out.DroppedHits[wire.ReasonUnknown] - out.unknownHits)
		s.holdHits(n.name, out)
	})
	return nil
}

type outcome struct {
	wire.Outcome
	shift          time.Duration // duration that was added to the times of the hits, to correct the agent's clock
	unknownPayload []byte        // encoded batch of the hits whose rules the aggregator has not loaded
	unknownHits    int           // number of hits in unknownPayload
}

// ingestBatch converts a batch to hits of the active rules and ingests them. shift returns the duration that is added
// to the times of the hits. commit records the outcome. Both functions are called with mu held.
func (h *handler) ingestBatch(b *wire.Batch, shift func() time.Duration, commit func(out outcome)) {
	s := h.s
	var out outcome
	h.p.Ingest(func(set *rules.Set) []matcher.Hit {
		s.withLock(func() { out.shift = shift() })
		index := s.index.Load()
		if !index.IsOf(set) {
			index = wire.NewIndex(set)
			s.index.Store(index)
		}
		var found []matcher.Hit
		found, out.Outcome = b.FindHits(index)
		if out.DroppedHits[wire.ReasonUnknown] > 0 {
			out.unknownPayload, out.unknownHits = b.UnknownHits(index)
		}
		for i := range found {
			found[i].Time = found[i].Time.Add(out.shift)
		}
		return found
	}, func() {
		s.withLock(func() {
			s.stats.Hits += int64(out.AcceptedHits)
			s.stats.OtherVersionHits += int64(out.OtherVersionHits)
			for why, n := range out.DroppedHits {
				if why != wire.ReasonUnknown {
					s.stats.DroppedHits[string(why)] += int64(n)
				}
			}
			commit(out)
		})
	})
}

// useWatermark applies the watermark of a message, which is the time up to which the agent has read its logs. If the
// agent sends reports, the watermark counts only after the agent has reported its rules.
func (h *handler) useWatermark(n *node, m *wire.Message) {
	s := h.s
	var upTo time.Time
	s.withLock(func() {
		if m.Watermark.IsZero() || m.Reports && n.digest == "" {
			return
		}
		now := s.cfg.Clock()
		shift := s.clockShift(n, now)
		for i := range m.Lagging {
			m.Lagging[i].ReadUpTo = m.Lagging[i].ReadUpTo.Add(shift)
		}
		upTo = m.Watermark.Add(shift)
		n.watermark, n.lagging = times.Min(upTo, now), m.Lagging
	})
	if !upTo.IsZero() {
		h.p.AdvanceWatermark(s.memberName(n.name), upTo, m.Lagging...)
	}
}

// maintain removes expired nodes, and ingests hits that waited for their rules. It does so
// once a second until ctx ends.
func (h *handler) maintain(ctx context.Context) {
	began := h.s.cfg.Clock()
	tick := time.NewTicker(maintainEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			h.removeExpired(began, h.s.cfg.Clock())
			h.applyHeld()
		}
	}
}

func (h *handler) removeExpired(began, now time.Time) {
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
			continue // a message of the node is being handled, so its agent is back
		}
		still := false
		s.withLock(func() { still = !s.isRemoved(n) && s.hasExpired(n, now) })
		if still {
			h.stopWaiting(n)
		}
		n.busy.Unlock()
	}
}

// stopWaiting removes a node, so that no decision waits for its watermark. The caller holds n.busy.
func (h *handler) stopWaiting(n *node) {
	s := h.s
	s.withLock(func() {
		n.known = false
		delete(s.nodes, n.name)
		s.rollout.stale = true
		s.stats.Forgotten++
	})
	h.p.RemoveMember(s.memberName(n.name))
	h.saveSource(func() {})
}

func (h *handler) handleForget(w http.ResponseWriter, name string) {
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
		h.stopWaiting(n)
	}
	w.WriteHeader(http.StatusNoContent)
}

// addCapped adds increase to a counter, up to math.MaxInt64.
func addCapped(counter *int64, increase int64) {
	*counter += min(max(0, increase), math.MaxInt64-*counter)
}
