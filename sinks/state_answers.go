package sinks

import (
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/times"
)

// Accepted records that the endpoint accepted the messages at now. It returns the
// episodes that it accepted for the first time.
func (s *State) Accepted(msgs []Message, now time.Time) []episodes.Episode {
	var first []episodes.Episode
	for _, m := range msgs {
		e := s.slot(m.Episode.Fingerprint)
		if e == nil || e.epoch != m.epoch {
			continue // another episode took its place meanwhile
		}
		e.sent, e.sentVersion, e.refused = now, m.version, time.Time{}
		if !m.Resolved {
			e.alive = now
		}
		switch {
		case m.Resolved && e.ended.IsZero():
			e.ended = now
			s.next(e)
		case !m.Resolved && e.accepted.IsZero():
			e.accepted = now
			if !e.counted {
				first = append(first, m.Episode)
			}
			e.counted = true
		}
	}
	return first
}

// Postpone makes m due again Resend after now, as if it had been sent.
func (s *State) Postpone(m Message, now time.Time) {
	if e := s.slot(m.Episode.Fingerprint); e != nil && e.epoch == m.epoch {
		e.sent = now
	}
}

// Refused records that the endpoint refuses the message as it is, and reports
// whether this is the first time. A refused end is dropped.
func (s *State) Refused(m Message, now time.Time) bool {
	e := s.slot(m.Episode.Fingerprint)
	if e == nil || e.epoch != m.epoch {
		return false
	}
	first := e.refused.IsZero()
	e.refused = now
	if e.over() {
		e.accepted, e.ended, e.sent, e.dropped = now, now, now, true
		s.next(e)
	}
	return first
}

// Restarted records at now that the endpoint lost what it accepted before then.
// Open episodes are due at once. So is the beginning of an episode whose end was
// not accepted, unless a peer notified of it: that episode needs nothing more,
// since two members that learn of an end at once may both notify of it. An
// accepted end is due again, as an end: the process that accepted it may have died
// before it notified anybody.
func (s *State) Restarted(then, now time.Time) {
	s.wakeAll()
	for _, e := range s.slots {
		endOnly := !e.ended.IsZero() && (e.ended.Before(then) || e.alive.IsZero())
		switch {
		case !e.accepted.Before(then):
		case !e.alive.Before(then): // the alert was sent since, at the latest after Resend
			if e.ended.IsZero() {
				e.accepted = times.Earlier(e.alive, then.Add(s.cfg.Resend))
			}
		case endOnly:
			if e.sent.Before(then) {
				e.sent = time.Time{}
			}
		default:
			e.accepted, e.alive, e.ended, e.sent = time.Time{}, time.Time{}, time.Time{}, time.Time{}
			if e.over() && s.servedElsewhere(e, now) {
				e.accepted, e.ended, e.sent, e.dropped = now, now, now, true
			}
		}
	}
}

// StateStats counts the content of a State.
type StateStats struct {
	Keys    int
	Pending int   // keys with a change that was not accepted yet
	Evicted int64 // changes dropped because MaxKeys was reached
}

// Stats returns the counts. A parked key has no change.
func (s *State) Stats() StateStats {
	st := StateStats{Keys: len(s.slots), Evicted: s.evicted}
	for _, e := range s.live {
		if e.known && e.ended.IsZero() && (e.over() && (!e.displaced() || s.cfg.Resend == 0) || e.accepted.IsZero()) {
			st.Pending++
		}
	}
	return st
}

// Repeat marks every live notification as due now.
func (s *State) Repeat() {
	s.wakeAll()
	for _, e := range s.slots {
		if e.ended.IsZero() || !e.sent.Add(s.cfg.Resend).After(e.ended.Add(s.cfg.ResolvedFor)) {
			e.sent = time.Time{}
		}
	}
}
