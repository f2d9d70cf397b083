package sinks

import (
	"slices"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/times"
)

// SetPeers sets the peers of s. These are the states of the other members of the endpoint's cluster, which notify the
// same people. If one member has had the alert of an episode for long enough to notify of it, the episode counts as
// notified in the states of all members. States of one cluster must be guarded by the same mutex.
func (s *State) SetPeers(peers []*State) { s.peers = peers }

// Reached records whether the endpoint answered at now. An endpoint that does not answer may
// have stopped before it notified anyone of the last messages that it accepted.
func (s *State) Reached(up bool, now time.Time) {
	switch {
	case up:
		s.downSince = time.Time{}
	case s.up || s.downSince.IsZero():
		s.downSince = now
	}
	s.up = up
}

// wasNotified reports whether the endpoint has had the episode of e as firing for MinFiring.
func (s *State) wasNotified(e *slot, now time.Time) bool {
	if e.acceptedAt.IsZero() {
		return false
	}
	enough := e.acceptedAt.Add(s.cfg.MinFiring)
	return !times.Max(e.lastFiringAt, e.endedAt).Before(enough) || s.up && !now.Before(enough)
}

// anyPeerSlot reports whether f returns true for at least one peer. f gets the peer and its slot of the episode in e.
func (s *State) anyPeerSlot(e *slot, f func(p *State, o *slot) bool) bool {
	for _, p := range s.peers {
		if o := p.slots[e.ep.Fingerprint]; o != nil && o.ep.StartsAt.Equal(e.ep.StartsAt) && f(p, o) {
			return true
		}
	}
	return false
}

// notifiedElsewhere reports whether a peer has notified people of the episode of e. If so, only
// the end of the episode is sent.
func (s *State) notifiedElsewhere(e *slot, now time.Time) bool {
	return s.anyPeerSlot(e, func(p *State, o *slot) bool { return p.wasNotified(o, now) })
}

// servedElsewhere reports whether a peer has notified people of the episode of e and still
// responds. Such a peer will also notify them of the end.
func (s *State) servedElsewhere(e *slot, now time.Time) bool {
	return s.anyPeerSlot(e, func(p *State, o *slot) bool {
		return p.wasNotified(o, now) && (p.downSince.IsZero() || !o.endedAt.IsZero())
	})
}

// PeerUp reports whether a peer responds, so that it can notify people.
func (s *State) PeerUp() bool {
	return slices.ContainsFunc(s.peers, func(p *State) bool { return p.up })
}

// endedElsewhere reports whether a peer accepted the end of e.
func (s *State) endedElsewhere(e *slot) bool {
	return s.anyPeerSlot(e, func(_ *State, o *slot) bool { return !o.endedAt.IsZero() })
}

// owedElsewhere reports whether the end of e still has to be sent to a peer. Until then, people may see e as firing.
func (s *State) owedElsewhere(e *slot) bool {
	return s.anyPeerSlot(e, func(p *State, o *slot) bool {
		return o.known && o.isOver() && o.endedAt.IsZero() && !o.dropped && (!o.isDisplaced() || p.cfg.Resend == 0)
	})
}

// Episodes returns the newest episode of each fingerprint whose messages s still sends or repeats.
func (s *State) Episodes() []episodes.Episode {
	var out []episodes.Episode
	for _, e := range s.slots {
		if e.known && !e.dropped {
			out = append(out, e.ep)
		}
	}
	return out
}

// TakeOver makes s send the ends that s left to its peer gone (see Restarted), because the endpoint of gone no longer
// exists. People may not have been notified of these ends. If people were notified, the members of the cluster know it,
// and another end does no harm.
func (s *State) TakeOver(gone *State) {
	for fp, o := range gone.slots {
		e := s.slots[fp]
		if e == nil || !e.known || !e.dropped || o.dropped || !o.isOver() || !o.ep.StartsAt.Equal(e.ep.StartsAt) {
			continue
		}
		e.acceptedAt, e.lastFiringAt, e.endedAt, e.sentAt, e.dropped = o.acceptedAt, time.Time{}, time.Time{}, time.Time{}, false
		s.findSlot(fp) // unparks the slot
	}
}
