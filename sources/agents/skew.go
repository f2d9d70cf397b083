package agents

import (
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/hits"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
)

// Bounds of hits that wait for their rule to be loaded.
const (
	maxHeld     = 512 << 10 // bytes, compressed
	maxHeldNode = 128 << 10 // of one node
	heldFor     = time.Hour
)

// held is a batch of hits of rules that are not loaded here. Its agent received a
// new rule before this aggregator.
type held struct {
	Node    string    `json:"node"`
	At      time.Time `json:"at"`
	Hits    int       `json:"hits"`
	Payload []byte    `json:"payload"`
	// Shift is what to add to the times of the hits.
	Shift time.Duration `json:"shift,omitempty"`
}

// inForce describes the rules in force. Source.mu guards it.
type inForce struct {
	set    *rules.Set
	at     time.Time // since when
	id     string
	finds  map[string]string
	behind map[string]sources.Behind // of the nodes that are known
	stale  bool                      // nodes or their rules changed
}

// Behind returns the rules in force of which agents have another version, or none.
// It is cheap unless something changed. set must be the rules in force.
func (s *Source) Behind(set *rules.Set) map[string]sources.Behind {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.use(set)
	return s.force.behind
}

// use compares the rules in force with those of the agents. The caller holds mu.
func (s *Source) use(set *rules.Set) {
	f := &s.force
	if f.set == set && !f.stale {
		return
	}
	if f.set != set {
		f.set, f.at, f.finds = set, s.cfg.Clock(), make(map[string]string, len(set.Rules))
		for _, r := range set.Rules {
			if r.Mode != rules.ModeOff {
				f.finds[r.Alert] = r.MatchHash()
			}
		}
		f.id = rulesDigest(f.finds)
	}
	now, before := s.cfg.Clock(), f.behind
	f.behind, f.stale = map[string]sources.Behind{}, false
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		n := s.nodes[name]
		if n.rules == nil {
			continue // it does not say
		}
		for rule, digest := range f.finds {
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
	s.behindHeld(f.behind)
}

// behindOf returns since when rules in force are not on a node, by the clock of its agent. The caller holds mu.
func (s *Source) behindOf(n *node) map[string]time.Time {
	out, shift := map[string]time.Time{}, s.shift(n, s.cfg.Clock())
	for rule, b := range s.force.behind {
		if slices.Contains(b.Members, n.name) {
			out[rule] = b.Since.Add(-shift).UTC()
		}
	}
	return out
}

// tokenOf identifies the report of a node, and the rules that it was compared with. The caller holds mu.
func (s *Source) tokenOf(n *node) string {
	if n.digest == "" {
		return ""
	}
	return n.digest + "-" + s.force.id
}

// hold keeps hits until their rule is loaded, within the bounds. The caller holds
// mu.
func (s *Source) hold(node string, out outcome) {
	if out.n == 0 {
		return
	}
	s.held = append(s.held, held{Node: node, At: s.cfg.Clock(), Hits: out.n, Payload: out.held, Shift: out.shift})
	s.trim(func(h held) bool { return h.Node == node }, maxHeldNode)
	s.trim(func(held) bool { return true }, maxHeld)
}

// trim drops the oldest of the held batches that match, until these are within a
// bound. The caller holds mu.
func (s *Source) trim(of func(held) bool, maxBytes int) {
	size := 0
	for _, h := range s.held {
		if of(h) {
			size += len(h.Payload)
		}
	}
	s.held = slices.DeleteFunc(s.held, func(h held) bool {
		if !of(h) || size <= maxBytes {
			return false
		}
		size -= len(h.Payload)
		s.st.Dropped[string(hits.ReasonUnknown)] += int64(h.Hits)
		return true
	})
}

// apply ingests the held hits whose rules are loaded now, and drops the batches
// that waited too long.
func (h *handler) apply() {
	s, set := h.s, h.p.Rules()
	now := s.cfg.Clock()
	s.mu.Lock()
	s.held = slices.DeleteFunc(s.held, func(x held) bool {
		old := now.Sub(x.At) >= heldFor
		if old {
			s.st.Dropped[string(hits.ReasonUnknown)] += int64(x.Hits)
		}
		return old
	})
	waiting := slices.Clone(s.held)
	// Their rules are put on hold first, so that the window of the hits stays open.
	due := s.applied != set && s.force.set == set && now.Sub(s.force.at) >= maintainEvery
	s.mu.Unlock()
	if !due {
		return
	}
	for _, x := range waiting {
		h.applyOne(x)
	}
	s.set(func() { s.applied, s.force.stale = set, true })
}

func (h *handler) applyOne(x held) {
	s := h.s
	b, err := new(hits.Decoder).Decode(x.Payload)
	if err != nil {
		return // it decoded when it was held; a saved state is checked
	}
	var out hits.Outcome
	var rest []byte
	n := 0
	h.p.Ingest(func(set *rules.Set) []matcher.Hit {
		index := s.indexOf(set)
		var found []matcher.Hit
		found, out = b.Find(index)
		rest, n = b.Unknown(index)
		return shifted(found, x.Shift)
	}, func() {
		s.set(func() {
			i := slices.IndexFunc(s.held, func(y held) bool { return &y.Payload[0] == &x.Payload[0] })
			if i < 0 {
				return // it was dropped meanwhile
			}
			if s.held[i].Payload, s.held[i].Hits = rest, n; n == 0 {
				s.held = slices.Delete(s.held, i, i+1)
			}
			s.count(&out)
		})
	})
}

// count adds the outcome of hits, without those that are held. The caller holds mu.
func (s *Source) count(out *hits.Outcome) {
	s.st.Hits += int64(out.Taken)
	s.st.Other += int64(out.Other)
	for why, n := range out.Dropped {
		if why != hits.ReasonUnknown {
			s.st.Dropped[string(why)] += int64(n)
		}
	}
}

// heldHits returns how many hits wait, and since when. The caller holds mu.
func (s *Source) heldHits() (n int, since time.Time) {
	for _, h := range s.held {
		if n += h.Hits; since.IsZero() || h.At.Before(since) {
			since = h.At
		}
	}
	return n, since
}

// behindHeld adds the rules of held hits that are loaded now but not applied yet.
// The caller holds mu.
func (s *Source) behindHeld(behind map[string]sources.Behind) {
	if s.applied == s.force.set {
		return
	}
	for _, x := range s.held {
		batch, err := new(hits.Decoder).Decode(x.Payload)
		if err != nil {
			continue
		}
		from := time.Unix(0, batch.Oldest()).Add(x.Shift).UTC()
		for _, name := range batch.Rules() {
			if s.force.finds[name] == "" {
				continue
			}
			b := behind[name]
			if b.Since.IsZero() || from.Before(b.Since) {
				b.Since = from
			}
			if !slices.Contains(b.Members, x.Node) {
				b.Members = append(b.Members, x.Node)
			}
			behind[name] = b
		}
	}
}

// rulesDigest identifies rules by their names and digests (rules.Rule.MatchHash).
func rulesDigest(byName map[string]string) string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		text.WriteString(name + byName[name])
	}
	return hits.Digest([]byte(text.String()))
}
