package daemon

// maxCuts is how many copies wait until they are safe: one that is nearly, and one
// that is newer.
const maxCuts = 2

// staged are the copies of an agent that may be written only when the aggregator
// has everything on its disk that was found before them. They are used by one
// goroutine at a time.
type staged struct {
	cuts []cut // oldest first
}

// cut is a copy of the state and the last batch before it.
type cut struct {
	payload []byte
	seq     uint64
}

// saveSafe copies the state of an agent, if it changed, and writes the newest
// copy that is safe. last takes a copy in any case, in the place of the newest if
// there are too many.
func (s *saver) saveSafe(last bool) {
	up := s.pipe.up
	if last && len(s.staged.cuts) == maxCuts {
		s.staged.cuts = s.staged.cuts[:maxCuts-1]
	}
	if last || len(s.staged.cuts) < maxCuts && (s.pipe.changed.Load() || s.lastFailed()) {
		c, holds := cut{}, false
		payload, err := s.copy(func() { c.seq, holds = up.Cut() })
		if err != nil {
			s.write(nil, err)
			return
		}
		if c.payload = payload; holds {
			s.staged.cuts = append(s.staged.cuts, c)
		}
	}
	acked, safe := up.Acked(), 0
	for safe < len(s.staged.cuts) && s.staged.cuts[safe].seq <= acked {
		safe++
	}
	if safe == 0 {
		return
	}
	s.write(s.staged.cuts[safe-1].payload, nil)
	s.staged.cuts = append(s.staged.cuts[:0:0], s.staged.cuts[safe:]...)
}
