package kubernetes

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"crowsnest/sources"
)

// position is how far the log of a container was read. It moves together with the state of the
// rules, and is saved.
type position struct {
	ID       string `json:"id"` // ID of the instance that is read; empty if there is none
	Restarts int    `json:"restarts,omitempty"`
	Done     bool   `json:"done,omitempty"`   // whether the instance has terminated and was read to its end
	Unread   bool   `json:"unread,omitempty"` // whether no line of the instance was read, and it is not the first instance
	recent
}

type savedState struct {
	Streams map[string]position     `json:"streams"` // positions by container.key
	Losses  map[string]sources.Loss `json:"losses,omitempty"`
}

// splitKey returns the pod and the container name of a key in savedState.
func splitKey(key string) (pod podName, name string, ok bool) {
	p := strings.Split(key, "/")
	if len(p) != 4 {
		return podName{}, "", false
	}
	return podName{p[0], p[1], p[2]}, p[3], true
}

// isValid reports whether the position is one that can have been saved.
func (p *position) isValid() bool {
	return p.ID != "" && min(p.Newest, p.Last, p.Floor, int64(p.AtFloor)) >= 0
}

// Positions returns the input of Restore. It omits logs that ended before the look-back period.
// It does not block.
func (s *Source) Positions() json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := savedState{Streams: maps.Clone(s.saved), Losses: s.losses}
	now := s.cfg.Clock()
	for key, st := range s.all {
		if saved, ok := st.savedPosition(now); ok {
			out.Streams[key] = saved
		}
	}
	b, _ := json.Marshal(out) // strings, numbers and times can always be encoded
	return b
}

// savedPosition returns the position that is to be saved. ok is false if there is none.
func (st *stream) savedPosition(now time.Time) (out position, ok bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	old := st.pos.Done && !st.c.finished.IsZero() && st.c.finished.Before(now.Add(-st.s.cfg.LookBack))
	if st.pos.ID == "" || !st.leftAt.IsZero() || old {
		return position{}, false
	}
	out = st.pos
	out.recent = st.pos.trimmed()
	return out, true
}

// Restore sets the positions before Run. It drops invalid positions, so that their logs are
// read like those without a position.
func (s *Source) Restore(b json.RawMessage) error {
	if len(b) == 0 {
		return nil
	}
	var in savedState
	if err := json.Unmarshal(b, &in); err != nil {
		return fmt.Errorf("read the positions of %s: %w", s.cfg.Name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, p := range in.Streams {
		if _, _, ok := splitKey(key); ok && p.isValid() {
			p.Conns = p.Conns[:min(len(p.Conns), maxConns)]
			s.saved[key] = p
		}
	}
	for reason, l := range in.Losses {
		if l.Count > 0 {
			s.losses[reason] = l
			s.errs[reason] += l.Count
		}
	}
	return nil
}
