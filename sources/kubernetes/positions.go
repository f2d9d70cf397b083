package kubernetes

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/sources"
)

type savedState struct {
	Streams map[string]savedStream  `json:"streams"`
	Losses  map[string]sources.Loss `json:"losses,omitempty"`
}

// savedStream is a saved position. Times are ns since 1970.
type savedStream struct {
	key      string
	ID       string `json:"id"`
	Restarts int    `json:"restarts,omitempty"`
	Done     bool   `json:"done,omitempty"`
	Unread   bool   `json:"unread,omitempty"`
	Newest   int64  `json:"newest,omitempty"`
	Last     int64  `json:"last,omitempty"`
	Floor    int64  `json:"floor,omitempty"`
	AtFloor  int    `json:"at_floor,omitempty"`
	Conns    []conn `json:"conns,omitempty"`
	Lines    string `json:"lines,omitempty"`
}

func (p *position) save() savedStream {
	lines, floor, at := p.pack()
	return savedStream{
		ID: p.id, Restarts: p.restarts, Done: p.done, Unread: p.unread,
		Newest: p.newest, Last: p.last, Floor: floor, AtFloor: at, Conns: slices.Clone(p.conns), Lines: lines,
	}
}

// position restores a position. If its lines are damaged, lines are read twice.
func (o savedStream) position() position {
	p := position{id: o.ID, restarts: o.Restarts, done: o.Done, unread: o.Unread}
	p.newest, p.last = o.Newest, o.Last
	p.conns = slices.Clone(o.Conns[:min(len(o.Conns), maxConns)])
	p.floor, p.atFloor = o.Floor, o.AtFloor
	p.lines, _ = unpack(o.Lines)
	return p
}

func (o savedStream) valid() bool {
	return strings.Count(o.key, "/") == 3 && o.ID != "" && o.Newest >= 0 && o.Last >= 0 && o.Floor >= 0 && o.AtFloor >= 0
}

func (o savedStream) parts() []string { return strings.SplitN(o.key, "/", 4) }

func (o savedStream) name() podName {
	p := o.parts()
	return podName{p[0], p[1], p[2]}
}

func (o savedStream) path() string {
	p := o.parts()
	return p[0] + "/" + p[1] + "/" + p[3]
}

// Positions returns the input of Restore. It does not block. It omits logs that
// ended before the look-back period.
func (s *Source) Positions() json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := savedState{Streams: make(map[string]savedStream, len(s.all)), Losses: s.losses}
	maps.Copy(out.Streams, s.saved)
	now := s.cfg.Clock()
	for key, st := range s.all {
		if saved, ok := st.save(now); ok {
			out.Streams[key] = saved
		}
	}
	b, _ := json.Marshal(out) // strings, numbers and times: cannot fail
	return b
}

func (st *stream) save(now time.Time) (savedStream, bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	old := st.pos.done && !st.c.finished.IsZero() && st.c.finished.Before(now.Add(-st.s.cfg.LookBack))
	if st.pos.id == "" || !st.leftAt.IsZero() || old {
		return savedStream{}, false
	}
	return st.pos.save(), true
}

// Restore sets the positions before Run. It drops damaged ones; their logs are read
// like those without a position.
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
	for key, o := range in.Streams {
		if o.key = key; o.valid() {
			s.saved[key] = o
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
