package server

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"crowsnest/agent/wire"
	"crowsnest/internal/times"
	"crowsnest/sources"
)

const savedVersion = 1

// savedSource is the state of the source that survives a restart.
type savedSource struct {
	Version     int                  `json:"v"`
	Nodes       map[string]savedNode `json:"nodes"`
	Gap         sources.Loss         `json:"gap,omitzero"`
	HeldBatches []heldBatch          `json:"held,omitempty"`
	// MismatchedRules has, for each rule of which the agent has another version, the time since when. The key is the
	// rule's name.
	MismatchedRules map[string]time.Time `json:"behind,omitempty"`
}

type savedNode struct {
	Instance        string        `json:"instance"`
	Accepted        uint64        `json:"taken"`
	Left            bool          `json:"left,omitempty"`
	HasObject       bool          `json:"node,omitempty"`
	Heard           time.Time     `json:"heard"`
	ClockCorrection time.Duration `json:"ahead,omitempty"` // correction of the agent's clock
	// Token is the hash of the agent's token, and Reviewed is the time at which the API server accepted the token. With
	// both, the aggregator accepts the agent after a restart even if the API server is unreachable.
	Token      string               `json:"token,omitempty"`
	Reviewed   time.Time            `json:"reviewed,omitzero"`
	Conditions map[string]condition `json:"conditions,omitempty"`
	Unread     []string             `json:"unread,omitempty"`
}

// Positions returns the state of all nodes, including the newest accepted batch of each.
func (s *Source) Positions() json.RawMessage {
	now := s.cfg.Clock()
	s.mu.Lock()
	out := savedSource{Version: savedVersion, Nodes: make(map[string]savedNode, len(s.nodes)), Gap: s.gap, MismatchedRules: map[string]time.Time{}}
	for _, h := range s.held {
		out.HeldBatches = append(out.HeldBatches, *h)
	}
	for rule, b := range s.rollout.behind {
		out.MismatchedRules[rule] = b.Since
	}
	for name, n := range s.nodes {
		n.copied = n.accepted
		if !n.known {
			continue
		}
		x := savedNode{
			Instance: n.instance, Accepted: n.accepted, Left: n.left, HasObject: n.hasObject, Heard: n.lastMessageAt.UTC(),
			ClockCorrection: -s.clockShift(n, now), Conditions: n.conditions, Unread: n.unread,
		}
		if !n.caller.reviewed.IsZero() {
			x.Token, x.Reviewed = hex.EncodeToString(n.caller.token[:]), n.caller.reviewed.UTC()
		}
		out.Nodes[name] = x
	}
	s.mu.Unlock()
	b, _ := json.Marshal(out) // strings, numbers and times can always be encoded
	return b
}

// ConfirmSaved records that the last result of Positions is on disk. The agents may then forget the
// batches that it contains.
func (s *Source) ConfirmSaved() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		n.savedSequence = n.copied
	}
}

// Restore sets the nodes from a result of Positions. It must be called before Run. From then
// on, decisions wait for all of these nodes.
func (s *Source) Restore(b json.RawMessage) error {
	if len(b) == 0 || string(b) == "null" {
		return nil
	}
	var in savedSource
	if err := json.Unmarshal(b, &in); err != nil {
		return fmt.Errorf("restore nodes: %w", err)
	}
	if in.Version != savedVersion {
		return fmt.Errorf("restore nodes: version %d is unknown", in.Version)
	}
	if len(in.Nodes) > 10*s.cfg.MaxAgents {
		return errors.New("restore nodes: too many")
	}
	for name, x := range in.Nodes {
		if err := errors.Join(wire.CheckName(name), wire.CheckName(x.Instance)); err != nil {
			return fmt.Errorf("restore nodes: %w", err)
		}
	}
	now := s.cfg.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaitsUnknown, s.restoredAt = false, now
	s.rollout.behind = map[string]sources.RuleMismatch{}
	for rule, since := range in.MismatchedRules {
		s.rollout.behind[rule] = sources.RuleMismatch{Since: times.Min(since, now)}
	}
	for name, x := range in.Nodes {
		s.nodes[name] = &node{
			name: name, known: true, instance: x.Instance, left: x.Left, hasObject: x.HasObject,
			accepted: x.Accepted, copied: x.Accepted, savedSequence: x.Accepted, lastMessageAt: times.Min(x.Heard, now),
			clock:      agentClock{correction: x.ClockCorrection + s.steady.SetAhead(now)},
			conditions: x.Conditions, unread: slices.Sorted(slices.Values(x.Unread)),
		}
		s.restoreToken(s.nodes[name], x)
	}
	for _, h := range in.HeldBatches {
		if _, err := new(wire.Decoder).Decode(h.Payload); err == nil {
			s.held = append(s.held, &h)
		}
	}
	s.gap = in.Gap
	s.gap.Time = times.Min(s.gap.Time, now)
	return nil
}

// restoreToken records that a token was valid when the state was saved.
func (s *Source) restoreToken(n *node, x savedNode) {
	v := verdict{node: n.name, reviewedAt: x.Reviewed}
	size, err := hex.Decode(v.token[:], []byte(x.Token[:min(len(x.Token), 2*len(v.token))]))
	if s.reviews != nil && err == nil && size == len(v.token) {
		s.reviews.addVerdict(v)
		n.caller = caller{nodes: []string{n.name}, token: v.token, reviewed: v.reviewedAt}
	}
}
