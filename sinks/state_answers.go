package sinks

import (
	"time"

	"crowsnest/episodes"
)

// Accepted records that the endpoint took the words at now. It returns the
// episodes that it took for the first time.
func (s *State) Accepted(msgs []Message, now time.Time) []episodes.Episode {
	var first []episodes.Episode
	for _, m := range msgs {
		e := s.slots[m.Episode.Fingerprint]
		if e == nil || e.epoch != m.epoch {
			continue // another episode took its place meanwhile
		}
		e.sent, e.told, e.refused = now, m.version, time.Time{}
		if !m.Resolved {
			e.alive = now
		}
		switch {
		case m.Resolved && e.ended.IsZero():
			e.ended = now
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

// Refused records that the endpoint will not take the word as it is. It returns
// true the first time. An ended episode that was refused is given up.
func (s *State) Refused(m Message, now time.Time) bool {
	e := s.slots[m.Episode.Fingerprint]
	if e == nil || e.epoch != m.epoch {
		return false
	}
	first := e.refused.IsZero()
	e.refused = now
	if e.over() {
		e.accepted, e.ended, e.sent, e.givenUp = now, now, now, true
	}
	return first
}

// Restarted records that the endpoint started anew, at some time from earliest
// to latest, and has no memory of what it took before. What is open is told
// again. So is the beginning of what ended, unless the end was told to those who
// knew it.
func (s *State) Restarted(earliest, latest time.Time) {
	for _, e := range s.slots {
		switch {
		case e.accepted.IsZero() || !e.accepted.Before(latest):
		case !e.alive.Before(latest): // it was told again since, at the latest after Resend
			if again := latest.Add(s.cfg.Resend); e.ended.IsZero() {
				e.accepted = sooner(e.alive, again)
			}
		case !e.ended.IsZero() && e.ended.Before(earliest):
			if e.sent.Before(latest) {
				e.sent = time.Time{}
			}
		default:
			e.accepted, e.alive, e.ended, e.sent = time.Time{}, time.Time{}, time.Time{}, time.Time{}
		}
	}
}

// StateStats counts what a state holds.
type StateStats struct {
	Keys    int
	Pending int   // keys with news that was not accepted yet
	Evicted int64 // news given up because MaxKeys was reached
}

// Stats returns the counts. Its cost is that of a walk over all keys.
func (s *State) Stats() StateStats {
	st := StateStats{Keys: len(s.slots), Evicted: s.evicted}
	for _, e := range s.slots {
		if e.known && (e.accepted.IsZero() || (e.over() && e.ended.IsZero())) {
			st.Pending++
		}
	}
	return st
}

// Repeat has everything that is still told told again at once.
func (s *State) Repeat() {
	for _, e := range s.slots {
		if e.ended.IsZero() || !e.sent.Add(s.cfg.Resend).After(e.ended.Add(s.cfg.ResolvedFor)) {
			e.sent = time.Time{}
		}
	}
}
