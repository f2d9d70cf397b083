package sinks

import (
	"time"

	"crowsnest/episodes"
)

// maxLater is the largest number of episodes of one key that wait for an earlier one.
const maxLater = 16

// keepForLater keeps ep if the end of an earlier episode of its key still has to be sent. It
// reports whether it does.
func (s *State) keepForLater(old *slot, ep episodes.Episode) bool {
	if !s.cfg.EachEpisode || !old.known || old.dropped || !old.isOver() || !old.ended.IsZero() || !ep.StartsAt.After(old.ep.StartsAt) {
		return false
	}
	n := len(old.later)
	switch {
	case n > 0 && old.later[n-1].StartsAt.Equal(ep.StartsAt):
		if old.later[n-1].State == episodes.StateFiring {
			old.later[n-1] = ep
		}
		return true
	case n == maxLater:
		old.later = old.later[1:]
		s.evicted++
	}
	old.later = append(old.later, ep)
	return true
}

// endLast ends the newest of the waiting episodes. Its key is no longer sent.
func endLast(later []episodes.Episode, ep episodes.Episode, now time.Time) {
	last := &later[len(later)-1]
	if last.State != episodes.StateFiring {
		return
	}
	last.State, last.Reason, last.EndsAt = episodes.StateResolved, ep.Reason, ep.EndsAt
	if ep.EndsAt.IsZero() {
		last.EndsAt = now
	}
}

// advanceSlot replaces the episode of e, which needs no more messages, with the next one.
func (s *State) advanceSlot(e *slot) {
	if len(e.later) == 0 {
		return
	}
	s.versions++
	*e = slot{epoch: s.versions, version: s.versions, ep: e.later[0], known: true, refused: e.refused, later: e.later[1:]}
}
