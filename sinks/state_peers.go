package sinks

import (
	"slices"
	"time"

	"crowsnest/internal/times"
)

// SetPeers sets the states of the other endpoints that notify the same people:
// the members of one cluster. If one of them had an episode long enough to notify
// of it, that counts for all. States of one cluster must be used under one lock.
func (s *State) SetPeers(peers []*State) { s.peers = peers }

// Reached records whether the endpoint answered at now. One that does not may
// have died: it may never notify of what it accepted just before.
func (s *State) Reached(up bool, now time.Time) {
	switch {
	case up:
		s.away = time.Time{}
	case s.up || s.away.IsZero():
		s.away = now
	}
	s.up = up
}

// notified reports whether the endpoint had the episode of e as firing for
// MinFiring.
func (s *State) notified(e *slot, now time.Time) bool {
	if e.accepted.IsZero() {
		return false
	}
	enough := e.accepted.Add(s.cfg.MinFiring)
	return !times.Later(e.alive, e.ended).Before(enough) || s.up && !now.Before(enough)
}

// elsewhere calls f for the slots that peers have of the same episode until f
// returns true, and reports whether it did.
func (s *State) elsewhere(e *slot, f func(p *State, o *slot) bool) bool {
	for _, p := range s.peers {
		if o := p.slots[e.ep.Fingerprint]; o != nil && o.ep.StartsAt.Equal(e.ep.StartsAt) && f(p, o) {
			return true
		}
	}
	return false
}

// notifiedElsewhere reports whether a peer notified of e: then only its end is
// sent.
func (s *State) notifiedElsewhere(e *slot, now time.Time) bool {
	return s.elsewhere(e, func(p *State, o *slot) bool { return p.notified(o, now) })
}

// servedElsewhere reports whether a peer notified of e and answers, so that it
// notifies of the end too.
func (s *State) servedElsewhere(e *slot, now time.Time) bool {
	return s.elsewhere(e, func(p *State, o *slot) bool { return p.notified(o, now) && (p.away.IsZero() || !o.ended.IsZero()) })
}

// PeerUp reports whether a peer answers and can notify people.
func (s *State) PeerUp() bool {
	return slices.ContainsFunc(s.peers, func(p *State) bool { return p.up })
}

// endedElsewhere reports whether a peer accepted the end of e.
func (s *State) endedElsewhere(e *slot) bool {
	return s.elsewhere(e, func(_ *State, o *slot) bool { return !o.ended.IsZero() })
}

// owedElsewhere reports whether a peer still has to be sent the end of e: until
// then people may see e as firing.
func (s *State) owedElsewhere(e *slot) bool {
	return s.elsewhere(e, func(p *State, o *slot) bool {
		return o.known && o.over() && o.ended.IsZero() && !o.dropped && (!o.displaced() || p.cfg.Resend == 0)
	})
}
