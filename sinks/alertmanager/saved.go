package alertmanager

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"crowsnest/episodes"
	"crowsnest/sinks"
)

const savedVersion = 1

// saved is the state of the sink in a snapshot. Ended episodes are the same for all endpoints,
// so they are saved only once.
type saved struct {
	Version   int                     `json:"version"`
	Endpoints map[string][]sinks.Mark `json:"endpoints"`
	Members   map[string]member       `json:"members,omitempty"`
	// Found are the Alertmanagers of each discovery, which are notified until the next lookup succeeds.
	Found  map[string][]Target `json:"found,omitempty"`
	Packed [][]byte            `json:"packed,omitempty"`
}

// Export returns the state that must survive the process. It contains the messages that each Alertmanager accepted, and
// the ended episodes that still have to be sent to at least one Alertmanager. It may be called at any time, even after
// Run has returned.
func (s *Sink) Export() ([]byte, error) {
	now := s.now()
	out := saved{Version: savedVersion, Endpoints: map[string][]sinks.Mark{}, Members: map[string]member{}, Found: map[string][]Target{}}
	ended := map[string]sinks.EndedEpisode{}
	s.shared.Lock()
	for name, state := range s.states() {
		st := state.Export(now)
		out.Endpoints[name] = st.Marks
		for _, ep := range st.Ended {
			ended[ep.Fingerprint] = ep
		}
	}
	for _, e := range s.endpoints {
		m := e.member
		m.Started = sinks.WallTime(m.Started, now)
		out.Members[e.name] = m
	}
	for _, d := range s.discoveries {
		if len(d.targets) > 0 {
			out.Found[d.name] = d.targets
		}
	}
	s.shared.Unlock()
	var err error
	if out.Packed, err = s.ended.Encode(slices.Collect(maps.Values(ended))); err != nil {
		return nil, fmt.Errorf("save sink %s: %w", s.cfg.Name, err)
	}
	b, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("save sink %s: %w", s.cfg.Name, err)
	}
	return b, nil
}

// Import sets the state that Export returned. It must be called before the first Notify. After an error nothing is set.
func (s *Sink) Import(data []byte) error {
	var in saved
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("read the saved state of sink %s: %w", s.cfg.Name, err)
	}
	if in.Version != savedVersion {
		return fmt.Errorf("read the saved state of sink %s: version %d, want %d", s.cfg.Name, in.Version, savedVersion)
	}
	now := s.now()
	packed := sinks.UnpackEnded(in.Packed)
	s.shared.Lock()
	s.addSaved(in.Found)
	for name, state := range s.states() {
		marks, known := in.Endpoints[name]
		if !known {
			marks = forNew(in.Endpoints)
		}
		state.Import(sinks.SavedState{Marks: marks, Ended: packed}, now)
	}
	for _, e := range s.endpoints {
		e.member = in.Members[e.name]
		e.member.Started = sinks.FromWallTime(e.member.Started, now)
	}
	s.endpoints.linkPeers()
	s.shared.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, marks := range in.Endpoints {
		for _, m := range marks {
			if fp, err := strconv.ParseUint(m.Fingerprint, 16, 64); err == nil && !m.AcceptedAt.IsZero() {
				s.reported.Add(episodes.Fingerprint(fp), m.StartsAt)
			}
		}
	}
	return nil
}

// addSaved adds the Alertmanagers that the previous process found. The caller holds the mutex.
func (s *Sink) addSaved(found map[string][]Target) {
	list := slices.Clone(s.endpoints)
	for _, d := range s.discoveries {
		d.targets = found[d.name]
		for i := range d.targets {
			d.targets[i].key = d.key
			if t := d.targets[i]; !slices.ContainsFunc(list, func(e *endpoint) bool { return e.name == t.Name }) {
				list = append(list, newEndpoint(t, s))
			}
		}
	}
	if len(list) > 0 {
		s.unsent = nil
	}
	s.setEndpoints(list)
}

// forNew returns the marks for an Alertmanager that was added to the configuration or found. It makes them from the
// marks of the other Alertmanagers. A mark records that a message was accepted. An end that at least one Alertmanager
// accepted need not be sent to the new one. An end that no Alertmanager accepted is sent to the new one.
func forNew(others map[string][]sinks.Mark) []sinks.Mark {
	over := map[string]sinks.Mark{}
	for _, marks := range others {
		for _, m := range marks {
			if old, ok := over[m.Fingerprint]; m.IsEnded && (!ok || old.EndedAt.Before(m.EndedAt)) {
				over[m.Fingerprint] = m
			}
		}
	}
	out := make([]sinks.Mark, 0, len(over))
	for _, m := range over {
		m.LastFiringAt = time.Time{} // the new Alertmanager has not received the alert as firing
		if m.EndedAt.IsZero() {
			m.AcceptedAt, m.SentAt = time.Time{}, time.Time{}
		}
		out = append(out, m)
	}
	return out
}
