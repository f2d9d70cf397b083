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

// Bounds of hits that wait for their rule to be loaded.
const (
	maxHeld     = 512 << 10 // compressed bytes
	maxHeldNode = 128 << 10 // compressed bytes of one node
	heldFor     = time.Hour
)

// rollout compares the active rules with those of the agents. Source.mu guards it.
type rollout struct {
	set     *rules.Set
	since   time.Time                 // start of the set's use
	id      string                    // digest of the set
	digests map[string]string         // rules.Rule.MatchHash of each rule that is on, by name
	behind  map[string]sources.Behind // rules that nodes have in another version
	stale   bool                      // The nodes or their rules changed.
	applied *rules.Set                // set for which the held hits were applied
}

// held is a batch of hits of rules that are not loaded here. Its agent received a new rule
// before this aggregator.
type held struct {
	Node    string        `json:"node"`
	At      time.Time     `json:"at"`
	Hits    int           `json:"hits"`
	Payload []byte        `json:"payload"`
	Shift   time.Duration `json:"shift,omitempty"` // duration to add to the times of the hits
}

// Behind returns the active rules of which agents have another version, or none. It is cheap
// unless something changed. set must be the active rules.
func (s *Source) Behind(set *rules.Set) map[string]sources.Behind {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compareRules(set)
	return s.rollout.behind
}

// compareRules compares the active rules with those of the agents. The caller holds mu.
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
	f.behind, f.stale = map[string]sources.Behind{}, false
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		n := s.nodes[name]
		if n.rules == nil {
			continue // It has not reported them.
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

// addHeldRules adds the rules of held hits that are loaded now but not applied yet. The caller
// holds mu.
func (s *Source) addHeldRules(behind map[string]sources.Behind) {
	for _, x := range s.held {
		batch, err := new(wire.Decoder).Decode(x.Payload)
		if err != nil {
			continue
		}
		from := time.Unix(0, batch.Oldest()).Add(x.Shift).UTC()
		for _, rule := range batch.Rules() {
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

// rulesBehind returns the rules that a node has in another version, and since when by the clock
// of its agent. The caller holds mu.
func (s *Source) rulesBehind(n *node) map[string]time.Time {
	out, shift := map[string]time.Time{}, s.shift(n, s.cfg.Clock())
	for rule, b := range s.rollout.behind {
		if slices.Contains(b.Members, n.name) {
			out[rule] = b.Since.Add(-shift).UTC()
		}
	}
	return out
}

// reportToken identifies the report of a node and the rules that it was compared with. The
// caller holds mu.
func (s *Source) reportToken(n *node) string {
	if n.digest == "" {
		return ""
	}
	return n.digest + "-" + s.rollout.id
}

// hold keeps hits until their rule is loaded, within the bounds. The caller holds mu.
func (s *Source) hold(node string, out outcome) {
	if out.unknown == 0 {
		return
	}
	s.held = append(s.held, &held{Node: node, At: s.cfg.Clock(), Hits: out.unknown, Payload: out.rest, Shift: out.shift})
	s.evictHeld(func(h *held) bool { return h.Node == node }, maxHeldNode)
	s.evictHeld(func(*held) bool { return true }, maxHeld)
}

// evictHeld drops the oldest of the held batches that match, until these are within a bound.
// The caller holds mu.
func (s *Source) evictHeld(matches func(*held) bool, maxBytes int) {
	size := 0
	for _, h := range s.held {
		if matches(h) {
			size += len(h.Payload)
		}
	}
	s.dropHeld(func(h *held) bool {
		if !matches(h) || size <= maxBytes {
			return false
		}
		size -= len(h.Payload)
		return true
	})
}

// dropHeld drops the held batches that match, and counts their hits. The caller holds mu.
func (s *Source) dropHeld(matches func(*held) bool) {
	s.held = slices.DeleteFunc(s.held, func(h *held) bool {
		if !matches(h) {
			return false
		}
		s.stats.Dropped[string(wire.ReasonUnknown)] += int64(h.Hits)
		return true
	})
}

// applyHeld ingests the held hits whose rules are loaded now, and drops the batches that
// waited too long.
func (h *handler) applyHeld() {
	s, set, now := h.s, h.p.Rules(), h.s.cfg.Clock()
	var waiting []*held
	due := false
	s.withLock(func() {
		s.dropHeld(func(x *held) bool { return now.Sub(x.At) >= heldFor })
		waiting = slices.Clone(s.held)
		// Their rules are put on hold first, so that the window of the hits stays open.
		f := &s.rollout
		due = f.applied != set && f.set == set && now.Sub(f.since) >= maintainEvery
	})
	if !due {
		return
	}
	for _, x := range waiting {
		b, err := new(wire.Decoder).Decode(x.Payload)
		if err != nil {
			continue // It was decoded when it was held, or restored.
		}
		h.ingest(b, func() time.Duration { return x.Shift }, func(out outcome) {
			if x.Payload, x.Hits = out.rest, out.unknown; x.Hits == 0 {
				s.held = slices.DeleteFunc(s.held, func(y *held) bool { return y == x })
			}
		})
	}
	s.withLock(func() { s.rollout.applied, s.rollout.stale = set, true })
}
