package sinks

import (
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/times"
)

// Accepted records that the endpoint accepted the messages at now. It returns the episodes that
// were accepted for the first time.
func (s *State) Accepted(msgs []Message, now time.Time) []episodes.Episode {
	var first []episodes.Episode
	for _, m := range msgs {
		e := s.findSlot(m.Episode.Fingerprint)
		if e == nil || e.epoch != m.epoch {
			continue // another episode has replaced it in the meantime
		}
		e.sent, e.sentVersion, e.refused = now, m.version, time.Time{}
		if !m.Resolved {
			e.alive = now
		}
		switch {
		case m.Resolved && e.ended.IsZero():
			e.ended = now
			s.advanceSlot(e)
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

// Postpone makes m due Resend after now, as if it had been sent.
func (s *State) Postpone(m Message, now time.Time) {
	if e := s.findSlot(m.Episode.Fingerprint); e != nil && e.epoch == m.epoch {
		e.sent = now
	}
}

// Refused records that the endpoint refuses the message. It reports whether this is the first
// time. If the message is an end, nothing more is sent about it.
func (s *State) Refused(m Message, now time.Time) bool {
	e := s.findSlot(m.Episode.Fingerprint)
	if e == nil || e.epoch != m.epoch {
		return false
	}
	first := e.refused.IsZero()
	e.refused = now
	if e.isOver() {
		e.accepted, e.ended, e.sent, e.dropped = now, now, now, true
		s.advanceSlot(e)
	}
	return first
}

// Restarted records at now that the endpoint lost everything that it accepted before then. Open
// episodes are due immediately. The start of an episode whose end was not accepted is also due,
// unless a peer has notified of it. In that case the episode needs nothing more, because two
// members that receive an end at the same time may both notify of it. An accepted end is due
// again as an end, because the process that accepted it may have stopped before it notified
// anyone.
func (s *State) Restarted(then, now time.Time) {
	s.wakeAll()
	for _, e := range s.slots {
		endOnly := !e.ended.IsZero() && (e.ended.Before(then) || e.alive.IsZero())
		switch {
		case !e.accepted.Before(then):
		case !e.alive.Before(then): // the alert was sent again since then, at the latest after Resend
			if e.ended.IsZero() {
				e.accepted = times.Earlier(e.alive, then.Add(s.cfg.Resend))
			}
		case endOnly:
			if e.sent.Before(then) {
				e.sent = time.Time{}
			}
		default:
			e.accepted, e.alive, e.ended, e.sent = time.Time{}, time.Time{}, time.Time{}, time.Time{}
			if e.isOver() && s.servedElsewhere(e, now) {
				e.accepted, e.ended, e.sent, e.dropped = now, now, now, true
			}
		}
	}
}

// StateStats are counts of the content of a State.
type StateStats struct {
	Keys    int
	Pending int   // number of keys with a change that has not been accepted yet
	Evicted int64 // number of changes that were dropped because MaxKeys was reached
}

// Stats returns the counts. Parked slots have no changes, so only live slots are examined.
func (s *State) Stats() StateStats {
	st := StateStats{Keys: len(s.slots), Evicted: s.evicted}
	for _, e := range s.live {
		if e.known && e.ended.IsZero() && (e.isOver() && (!e.isDisplaced() || s.cfg.Resend == 0) || e.accepted.IsZero()) {
			st.Pending++
		}
	}
	return st
}

// Repeat makes every live message due now.
func (s *State) Repeat() {
	s.wakeAll()
	for _, e := range s.slots {
		if e.ended.IsZero() || !e.sent.Add(s.cfg.Resend).After(e.ended.Add(s.cfg.ResolvedFor)) {
			e.sent = time.Time{}
		}
	}
}
