package server

import (
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/agent/wire"
	"crowsnest/rules"
	"crowsnest/sources"
)

// Limits of the size of the hits that wait until their rule is loaded.
const (
	maxHeld     = 512 << 10 // largest total size of the compressed hits, in bytes
	maxHeldNode = 128 << 10 // largest size of the compressed hits of one node, in bytes
	heldFor     = time.Hour
)

// rollout compares the active rules with the rules of the agents. It is guarded by Source.mu.
type rollout struct {
	set     *rules.Set
	since   time.Time                       // time since which this set of rules is active
	id      string                          // digest of the active set of rules
	digests map[string]string               // rules.Rule.MatchHash of each rule that is not off; the key is the name
	behind  map[string]sources.RuleMismatch // rules that some nodes lack or have in another version; the key is a name
	stale   bool                            // whether the nodes or their rules have changed since the last comparison
	applied *rules.Set                      // active set of rules when held hits were last ingested
}

// heldBatch is a batch of hits whose rules are not loaded here. This happens if the agent received
// a new rule before the aggregator did.
type heldBatch struct {
	Node       string        `json:"node"`
	ReceivedAt time.Time     `json:"at"`
	Hits       int           `json:"hits"`
	Payload    []byte        `json:"payload"`
	Shift      time.Duration `json:"shift,omitempty"` // duration that must be added to the times of the hits
}

// MismatchedRules returns the active rules that some agents lack or have in another version. It is cheap
// if nothing has changed. set must be the active rules.
func (s *Source) MismatchedRules(set *rules.Set) map[string]sources.RuleMismatch {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compareRules(set)
	return s.rollout.behind
}

// compareRules compares the active rules with the rules of the agents. The caller holds mu.
func (s *Source) compareRules(set *rules.Set) {
	f, now := &s.rollout, s.cfg.Clock()
	if f.set == set && !f.stale {
		return
	}
	if f.set != set {
		f.set, f.since, f.digests = set, now, make(map[string]string, len(set.Rules))
		for _, r := range set.Rules {
			if r.Mode != rules.ModeOff {
				f.digests[r.Alert] = r.MatchHash()
			}
		}
		var text strings.Builder
		for _, rule := range slices.Sorted(maps.Keys(f.digests)) {
			text.WriteString(rule + f.digests[rule])
		}
		f.id = wire.Digest([]byte(text.String()))
	}
	before := f.behind
	f.behind, f.stale = map[string]sources.RuleMismatch{}, false
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		n := s.nodes[name]
		if n.rules == nil {
			continue // the node has not reported its rules
		}
		for rule, digest := range f.digests {
			if n.rules[rule] == digest {
				continue
			}
			b := f.behind[rule]
			if b.Since = now; !before[rule].Since.IsZero() {
				b.Since = before[rule].Since
			}
			b.Members = append(b.Members, name)
			f.behind[rule] = b
		}
	}
	if f.applied != set {
		s.addHeldRules(f.behind)
	}
}

// addHeldRules adds to behind each rule that is loaded now and has held hits that were not
// ingested yet. The caller holds mu.
func (s *Source) addHeldRules(behind map[string]sources.RuleMismatch) {
	for _, x := range s.held {
		batch, err := new(wire.Decoder).Decode(x.Payload)
		if err != nil {
			continue
		}
		from := time.Unix(0, batch.OldestTime()).Add(x.Shift).UTC()
		for _, rule := range batch.RuleNames() {
			if s.rollout.digests[rule] == "" {
				continue
			}
			b := behind[rule]
			if b.Since.IsZero() || from.Before(b.Since) {
				b.Since = from
			}
			if !slices.Contains(b.Members, x.Node) {
				b.Members = append(b.Members, x.Node)
			}
			behind[rule] = b
		}
	}
}

// rulesBehind returns the rules that a node has in another version, and since when. The times
// are by the clock of the node's agent. The caller holds mu.
func (s *Source) rulesBehind(n *node) map[string]time.Time {
	out, shift := map[string]time.Time{}, s.clockShift(n, s.cfg.Clock())
	for rule, b := range s.rollout.behind {
		if slices.Contains(b.Members, n.name) {
			out[rule] = b.Since.Add(-shift).UTC()
		}
	}
	return out
}

// reportToken returns an identifier of the node's report and of the rules with which it was
// compared. The caller holds mu.
func (s *Source) reportToken(n *node) string {
	if n.digest == "" {
		return ""
	}
	return n.digest + "-" + s.rollout.id
}

// holdHits keeps hits until their rules are loaded, within maxHeld and maxHeldNode. The caller holds mu.
func (s *Source) holdHits(node string, out outcome) {
	if out.unknownHits == 0 {
		return
	}
	s.held = append(s.held, &heldBatch{Node: node, ReceivedAt: s.cfg.Clock(), Hits: out.unknownHits, Payload: out.unknownPayload, Shift: out.shift})
	s.evictHeld(func(h *heldBatch) bool { return h.Node == node }, maxHeldNode)
	s.evictHeld(func(*heldBatch) bool { return true }, maxHeld)
}

// evictHeld drops the oldest held batches for which matches returns true, until such batches
// have at most maxBytes. The caller holds mu.
func (s *Source) evictHeld(matches func(*heldBatch) bool, maxBytes int) {
	size := 0
	for _, h := range s.held {
		if matches(h) {
			size += len(h.Payload)
		}
	}
	s.dropHeld(func(h *heldBatch) bool {
		if !matches(h) || size <= maxBytes {
			return false
		}
		size -= len(h.Payload)
		return true
	})
}

// dropHeld drops the held batches for which matches returns true, and counts their hits as
// dropped. The caller holds mu.
func (s *Source) dropHeld(matches func(*heldBatch) bool) {
	s.held = slices.DeleteFunc(s.held, func(h *heldBatch) bool {
		if !matches(h) {
			return false
		}
		s.stats.DroppedHits[string(wire.ReasonUnknown)] += int64(h.Hits)
		return true
	})
}

// applyHeld ingests the held hits whose rules are now loaded, and drops batches that are too old.
func (h *handler) applyHeld() {
	s, set, now := h.s, h.p.Rules(), h.s.cfg.Clock()
	var waiting []*heldBatch
	due := false
	s.withLock(func() {
		s.dropHeld(func(x *heldBatch) bool { return now.Sub(x.ReceivedAt) >= heldFor })
		waiting = slices.Clone(s.held)
		// Held hits are ingested a second after their rules were loaded. Until then, MismatchedRules keeps decisions of
		// these rules on hold, so no window of the hits ends too early.
		f := &s.rollout
		due = f.applied != set && f.set == set && now.Sub(f.since) >= maintainEvery
	})
	if !due {
		return
	}
	for _, x := range waiting {
		b, err := new(wire.Decoder).Decode(x.Payload)
		if err != nil {
			continue // impossible, because the batch was decoded when it was held or restored
		}
		h.ingestBatch(b, func() time.Duration { return x.Shift }, func(out outcome) {
			if x.Payload, x.Hits = out.unknownPayload, out.unknownHits; x.Hits == 0 {
				s.held = slices.DeleteFunc(s.held, func(y *heldBatch) bool { return y == x })
			}
		})
	}
	s.withLock(func() { s.rollout.applied, s.rollout.stale = set, true })
}
