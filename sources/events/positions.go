package events

import (
	"encoding/json"
	"fmt"
	"maps"

	"crowsnest/sources"
)

// positions is what a restart needs.
type positions struct {
	Namespaces map[string]position     `json:"namespaces"` // "": all
	Counts     []byte                  `json:"counts,omitempty"`
	Losses     map[string]sources.Loss `json:"losses,omitempty"`
}

// Positions returns up to where Events were read. It does not block.
func (s *Source) Positions() json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := positions{Namespaces: map[string]position{}, Losses: s.status.Losses}
	for _, w := range s.watchers {
		p.Namespaces[w.namespace] = w.position
	}
	p.Counts, _ = s.counts.MarshalBinary() // cannot fail
	b, err := json.Marshal(p)
	if err != nil {
		return nil // cannot fail
	}
	return b
}

// Restore sets up to where Events were read.
func (s *Source) Restore(b json.RawMessage) error {
	if len(b) == 0 {
		return nil
	}
	var p positions
	err := json.Unmarshal(b, &p)
	known := newCounts()
	if err == nil {
		err = known.UnmarshalBinary(p.Counts)
	}
	if err != nil {
		return fmt.Errorf("read the positions of %s: %w", s.cfg.Name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts = known
	maps.Copy(s.status.Losses, p.Losses)
	for _, w := range s.watchers {
		w.position = p.Namespaces[w.namespace]
		w.From = w.position.Version
	}
	return nil
}
