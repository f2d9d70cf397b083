package loki

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/sources"
)

const positionsVersion = 1

// positions is the saved state. Times are ns since 1970.
type positions struct {
	Version   int                     `json:"version"`
	Covered   int64                   `json:"covered"`
	Watermark int64                   `json:"proved"`
	Deep      int64                   `json:"deep"`
	Floor     int64                   `json:"floor"`
	Keys      []byte                  `json:"keys,omitempty"`
	Losses    map[string]sources.Loss `json:"losses,omitempty"`
}

// Positions returns the progress and the newest keys of the memory. Each key takes 8 bytes,
// and all tenants together save at most 131072 keys. It does not block.
func (s *Source) Positions() json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.covered == 0 {
		return nil
	}
	pos := positions{Version: positionsVersion, Covered: s.covered, Watermark: s.watermark, Deep: s.deep, Losses: s.status.Losses}
	pos.Keys, pos.Floor = s.memory.export(maxSavedKeys/max(1, len(s.cfg.Tenants)), s.covered-int64(s.cfg.FastOverlap))
	b, _ := json.Marshal(pos) // strings, numbers and times can always be encoded
	return b
}

// Restore sets the positions before Run. After an error nothing is set, and reading starts with
// the look-back.
func (s *Source) Restore(b json.RawMessage) error {
	if b == nil {
		return nil
	}
	var pos positions
	if err := json.Unmarshal(b, &pos); err != nil {
		return fmt.Errorf("read positions of %s: %w", s.name, err)
	}
	switch {
	case pos.Version != positionsVersion:
		return fmt.Errorf("read positions of %s: version %d is unknown", s.name, pos.Version)
	case pos.Floor <= 0 || pos.Covered < pos.Floor || pos.Watermark <= 0 || pos.Deep <= 0 || len(pos.Keys) > 32*maxSavedKeys:
		return fmt.Errorf("read positions of %s: they are inconsistent", s.name)
	}
	m := newMemory(pos.Floor, s.memory.max)
	if err := m.load(pos.Keys); err != nil {
		return fmt.Errorf("read positions of %s: %w", s.name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory, s.covered, s.watermark, s.deep = m, pos.Covered, pos.Watermark, pos.Deep
	if pos.Losses != nil {
		s.status.Losses = pos.Losses
	}
	return nil
}

// Status returns the state of the source. It reports how far reading is behind only while there
// are entries to read. It lists at most 500 streams.
func (s *Source) Status() sources.Status {
	now := s.cfg.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	st.Errors, st.Losses = maps.Clone(st.Errors), maps.Clone(st.Losses)
	if lag := now.Sub(time.Unix(0, s.covered)); s.active && s.covered > 0 && lag > s.cfg.FastInterval+downAfter {
		st.Lag = lag
	}
	if age := now.Sub(st.Watermark); st.Up && s.active && age > staleAfter {
		st.Up, st.Error = false, "it is catching up; read up to "+time.Unix(0, s.covered).UTC().Format(time.RFC3339)
	}
	for _, key := range s.streams.Keys() { // streams come in the order of their last use, the least recent first
		v, _ := s.streams.Peek(key)
		if v.selfWritten {
			continue
		}
		st.Streams = append(st.Streams, sources.StreamStatus{Labels: v.s.Labels(), Lines: v.lines, LastRead: v.read, Rules: v.rules})
	}
	slices.Reverse(st.Streams)
	st.Streams = st.Streams[:min(len(st.Streams), maxListed)]
	return st
}

// warning returns a warning with the names of the rules that make the queries expensive.
func (p plan) warning(unfilter bool) string {
	switch {
	case unfilter:
		return "Loki refuses the query that reads only what rules can match: all lines of the selector are read; check its version and limits"
	case p.dropped:
		return "the texts of the rules do not fit into the queries that Loki accepts: all lines of the selector are read"
	case len(p.everyLine) > 0:
		return fmt.Sprintf("rules without `contains` need every line of their streams (%s): add a text with `contains`", listNames(p.everyLine))
	}
	return ""
}

func listNames(names []string) string {
	if len(names) > 5 {
		return strings.Join(names[:5], ", ") + fmt.Sprintf(" and %d more", len(names)-5)
	}
	return strings.Join(names, ", ")
}

func equalPlans(a, b plan) bool {
	return slices.Equal(a.queries, b.queries) && maps.Equal(a.wanted, b.wanted)
}

// needsOperator reports whether only an operator can remove the cause of a failure.
func needsOperator(reason string) bool {
	switch reason {
	case reasonAuth, reasonRefused, reasonSyntax, reasonQuery, reasonConfig, reasonRedirect:
		return true
	}
	return false
}
