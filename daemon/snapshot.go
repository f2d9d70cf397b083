package daemon

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"crowsnest/daemon/state"
	"crowsnest/internal/times"
)

// snapshotVersion is written to each snapshot. It must increase when an older program could misread a new snapshot.
const snapshotVersion = 1

// snapshot is the part of the state that survives a restart, copied at one moment.
type snapshot struct {
	Version  int                        `json:"version"`
	SavedAt  time.Time                  `json:"saved"`
	Clock    times.Stamps               `json:"clock,omitzero"` // changes of the clock since the first run
	Engine   json.RawMessage            `json:"engine"`
	Sources  map[string]json.RawMessage `json:"sources"`
	Sinks    map[string]json.RawMessage `json:"sinks,omitempty"`
	Self     json.RawMessage            `json:"self,omitempty"`    // alerts about crowsnest itself
	Sentinel json.RawMessage            `json:"unknown,omitempty"` // failures that no rule describes
	History  json.RawMessage            `json:"history,omitempty"` // ended episodes that are not in the history file yet
}

type stateful interface {
	Export() ([]byte, error)
	Import([]byte) error
}

// appendJSON appends the snapshot as json.Marshal would. It does not parse the parts that are already encoded, which
// are most of the snapshot. engine appends the episodes. After an error, appendJSON returns b unchanged.
func (s snapshot) appendJSON(b []byte, engine func([]byte) ([]byte, error)) ([]byte, error) {
	was := b
	saved, err := json.Marshal(s.SavedAt)
	if len(s.Clock.Periods) > 0 {
		clock, _ := json.Marshal(s.Clock) // times and numbers can always be encoded
		saved = fmt.Appendf(saved, `,"clock":%s`, clock)
	}
	if err == nil {
		b, err = engine(fmt.Appendf(b, `{"version":%d,"saved":%s,"engine":`, s.Version, saved))
	}
	if err != nil {
		return was, fmt.Errorf("copy state: %w", err)
	}
	b = appendParts(append(b, `,"sources":`...), s.Sources)
	if len(s.Sinks) > 0 {
		b = appendParts(append(b, `,"sinks":`...), s.Sinks)
	}
	if len(s.Self) > 0 {
		b = append(append(b, `,"self":`...), s.Self...)
	}
	if len(s.Sentinel) > 0 {
		b = append(append(b, `,"unknown":`...), s.Sentinel...)
	}
	if len(s.History) > 0 {
		b = append(append(b, `,"history":`...), s.History...)
	}
	return append(b, '}'), nil
}

func appendParts(b []byte, parts map[string]json.RawMessage) []byte {
	b = append(b, '{')
	for i, name := range slices.Sorted(maps.Keys(parts)) {
		if i > 0 {
			b = append(b, ',')
		}
		key, _ := json.Marshal(name) // a string can always be encoded
		b = append(append(b, key...), ':')
		if parts[name] == nil {
			b = append(b, "null"...)
		}
		b = append(b, parts[name]...)
	}
	return append(b, '}')
}

// restoreState restores the saved state and reports whether there was one. It logs and skips unusable parts, so that
// the daemon starts whatever the folder contains.
func (s *saver) restoreState() bool {
	if !s.savesState() {
		return false
	}
	if s.endedHistory != nil {
		if err := s.endedHistory.load(); err != nil {
			s.log.Error().Err(err).Msg("the history of ended episodes cannot be read; saving tries again")
		}
	}
	payload, note, err := state.Load(s.dir)
	if note != "" {
		s.log.Warn().Msg("saved state: " + note)
	}
	if err != nil {
		s.log.Error().Err(err).Msg("the saved state, or a part of it, cannot be read; starting without that part")
	}
	if payload == nil {
		return false
	}
	var snap snapshot
	if err := json.Unmarshal(payload, &snap); err != nil {
		s.log.Error().Err(err).Msg("saved state has an unknown form; starting without it")
		return false
	}
	if snap.Version > snapshotVersion {
		s.log.Error().Int("version", snap.Version).Msg("saved state was written by a newer version; starting without it")
		return false
	}
	return s.applySnapshot(snap)
}

func (s *saver) applySnapshot(snap snapshot) bool {
	ok := true
	s.restoredSavedAt = snap.SavedAt
	if err := s.pipe.concluder.Restore(snap.Engine, s.pipe.now()); err != nil {
		s.log.Error().Err(err).Msg("saved episodes cannot be used; starting without them")
		ok = false
	}
	if ok {
		s.pipe.continueFrom(snap.SavedAt, snap.Clock, s.clockLead)
	}
	for _, src := range s.sources {
		// If positions were restored without the episodes that belong to them, lines would be skipped.
		pos := snap.Sources[src.Name()]
		if !ok {
			pos = nil
		}
		if err := src.Restore(pos); err != nil {
			s.log.Error().Err(err).Str("source", src.Name()).Msg("saved positions cannot be used; older lines are read again")
		}
	}
	if s.self != nil && snap.Self != nil {
		if err := s.self.Import(snap.Self); err != nil {
			s.log.Error().Err(err).Msg("the saved alerts about crowsnest itself cannot be used")
		}
	}
	if s.unknown != nil && ok && snap.Sentinel != nil {
		if err := s.unknown.Import(snap.Sentinel); err != nil {
			s.log.Error().Err(err).Msg("the saved list of failures without a rule cannot be used; crowsnest reads for an hour before it reports new ones")
		}
	}
	if s.endedHistory != nil && snap.History != nil {
		if err := s.endedHistory.Import(snap.History); err != nil {
			s.log.Error().Err(err).Msg("the history lacks the alerts that ended shortly before the last save")
		}
	}
	for _, r := range s.receivers {
		part, ok := r.(stateful)
		if saved := snap.Sinks[r.Name()]; ok && saved != nil {
			if err := part.Import(saved); err != nil {
				s.log.Error().Err(err).Str("sink", r.Name()).Msg("saved deliveries cannot be used; alerts are sent again")
			}
		}
	}
	return ok
}
