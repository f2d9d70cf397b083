package alertmanager

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"crowsnest/episodes"
	"crowsnest/sinks"
	"crowsnest/sinks/internal/courier"
)

const (
	savedVersion = 1
	maxSaved     = 512 << 10 // bytes of ended episodes that are saved
)

// saved is the sink in a snapshot. Ended episodes are the same for all
// endpoints and saved once.
type saved struct {
	Version   int                     `json:"version"`
	Endpoints map[string][]sinks.Mark `json:"endpoints"`
	Ended     []sinks.Ended           `json:"ended"`
}

// Export returns what has to outlive the process: what each Alertmanager has
// taken, and ended episodes that one of them still has to be told. It may be
// called at any time, also after Run has returned.
func (s *Sink) Export() ([]byte, error) {
	now := s.now()
	out := saved{Version: savedVersion, Endpoints: map[string][]sinks.Mark{}}
	ended := map[string]sinks.Ended{}
	for _, e := range s.endpoints {
		e.mu.Lock()
		st := e.state.Export(now)
		e.mu.Unlock()
		out.Endpoints[e.name] = st.Marks
		for _, ep := range st.Ended {
			ended[ep.Fingerprint] = ep
		}
	}
	out.Ended = withinBound(slices.Collect(maps.Values(ended)))
	b, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("save sink %s: %w", s.cfg.Name, err)
	}
	return b, nil
}

// withinBound keeps what ended last whole, what ended before that without its
// annotations, and leaves out what is older still.
func withinBound(in []sinks.Ended) []sinks.Ended {
	slices.SortFunc(in, func(a, b sinks.Ended) int {
		return cmp.Or(b.EndsAt.Compare(a.EndsAt), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
	size := 0
	out := make([]sinks.Ended, 0, len(in))
	for _, ep := range in {
		if size+ep.Size() > maxSaved*3/4 {
			ep.Annotations = map[string]string{"summary": courier.Cut(ep.Annotations["summary"], maxValue)}
		}
		if size += ep.Size(); size > maxSaved {
			break
		}
		out = append(out, ep)
	}
	return out
}

// Import takes what Export returned, before the first Notify. An error means
// that nothing of it is used.
func (s *Sink) Import(data []byte) error {
	var in saved
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("read the saved state of sink %s: %w", s.cfg.Name, err)
	}
	if in.Version != savedVersion {
		return fmt.Errorf("read the saved state of sink %s: version %d, want %d", s.cfg.Name, in.Version, savedVersion)
	}
	now := s.now()
	for _, e := range s.endpoints {
		marks, known := in.Endpoints[e.name]
		if !known {
			marks = forNew(in.Endpoints)
		}
		e.mu.Lock()
		e.state.Import(sinks.Saved{Marks: marks, Ended: in.Ended}, now)
		e.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, marks := range in.Endpoints {
		for _, m := range marks {
			if fp, err := strconv.ParseUint(m.Fingerprint, 16, 64); err == nil && !m.Accepted.IsZero() {
				s.begun.Add(episodes.Fingerprint(fp), m.StartsAt)
			}
		}
	}
	return nil
}

// forNew returns the marks of an Alertmanager that was not there before. What
// another one was told the end of is old news to it; an end that nobody was told
// is still to be told.
func forNew(others map[string][]sinks.Mark) []sinks.Mark {
	over := map[string]sinks.Mark{}
	for _, marks := range others {
		for _, m := range marks {
			if old, ok := over[m.Fingerprint]; m.Over && (!ok || old.Ended.Before(m.Ended)) {
				over[m.Fingerprint] = m
			}
		}
	}
	out := make([]sinks.Mark, 0, len(over))
	for _, m := range over {
		if m.Ended.IsZero() {
			m.Accepted, m.Sent = time.Time{}, time.Time{}
		}
		out = append(out, m)
	}
	return out
}
