package fleet

import (
	"encoding/json"
	"fmt"
	"time"
)

// saved is the form of the positions.
type saved struct {
	Clusters []savedCluster `json:"clusters"`
}

type savedCluster struct {
	Cluster
	Delisted time.Time `json:"delisted,omitzero"`
}

// Positions returns what clusters last reported. Between changes it may be some seconds
// old. It does not block.
func (s *Source) Positions() json.RawMessage {
	now := s.cfg.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if age := now.Sub(s.at); s.encoded != nil && !s.changed && age >= 0 && age < encodeEvery {
		return s.encoded
	}
	out := saved{Clusters: []savedCluster{}}
	for _, m := range s.members {
		if !m.last.Answered.IsZero() {
			out.Clusters = append(out.Clusters, savedCluster{m.last, m.delisted})
		}
	}
	b, err := json.Marshal(out)
	if err != nil {
		return s.encoded // cannot fail
	}
	s.encoded, s.at, s.changed = b, now, false
	return b
}

// Restore reads positions. A cluster that is neither in the configuration nor can be found
// by a discovery is omitted.
func (s *Source) Restore(b json.RawMessage) error {
	if len(b) == 0 {
		return nil
	}
	var in saved
	if err := json.Unmarshal(b, &in); err != nil {
		return fmt.Errorf("read the positions of fleet: %w", err)
	}
	now := s.cfg.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range in.Clusters {
		m := s.members[c.Name]
		switch {
		case m == nil && s.cfg.FileSD == nil && s.cfg.HTTPSD == nil, checkName(c.Name) != nil:
			continue
		case m == nil:
			m = newMember(found{target: target{cluster: c.Name}}, now)
			m.err, m.delisted = "discovery has not found it yet", c.Delisted
			s.members[c.Name] = m
		}
		m.last = c.Cluster
		s.opened = true
	}
	return nil
}

// Changed reports whether positions differ from the last result of Positions in more than
// times.
func (s *Source) Changed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}
