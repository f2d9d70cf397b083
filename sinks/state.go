package sinks

import (
	"cmp"
	"slices"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/times"
)

// Defaults of StateConfig.
const (
	DefaultResend      = time.Minute
	DefaultMinFiring   = time.Minute
	DefaultResolvedFor = 15 * time.Minute
	DefaultTextDelay   = 10 * time.Second
	DefaultMaxKeys     = 16384

	// unknownFor is the time for which the alert of a displaced episode is kept firing. A displaced episode is one that
	// the engine dropped for lack of room, so its end is unknown. Afterwards the alert is no longer sent, and a
	// receiver such as Alertmanager forgets it without being notified that the failure is over.
	unknownFor = 24 * time.Hour
)

// StateConfig sets how often a message is sent to an endpoint.
type StateConfig struct {
	// Resend is the time after which an accepted message is sent again. Zero means never.
	Resend time.Duration
	// MinFiring is the time for which an endpoint must have had an episode as firing before its end is sent.
	MinFiring time.Duration
	// ResolvedFor is the time for which an accepted end is sent again.
	ResolvedFor time.Duration
	// TextDelay is the shortest time between two messages about a firing episode if only its text has changed (the
	// count or the newest line). It applies even without Resend. Zero means that such a change waits for Resend.
	// TextDelay prevents a flood of lines from causing a flood of requests.
	TextDelay time.Duration
	// RefusedDelay is the time after which a refused message is sent again.
	RefusedDelay time.Duration
	// EachEpisode makes Due return the messages of every episode of an alert, one episode after the other. Up to 16
	// episodes of an alert can wait. Without EachEpisode, a new episode replaces the previous episode of the same
	// alert.
	EachEpisode bool
	// MaxKeys is the largest number of alerts in the state, open or ended. Zero means DefaultMaxKeys.
	MaxKeys int
}

// State holds the newest message of each alert for one endpoint. A newer message replaces an older one with the same
// fingerprint, so no outage makes the state grow.
//
// If the endpoint never accepted an ended episode as firing, State first sends it as firing, and as resolved only
// MinFiring later. Otherwise a receiver that waits for a group_wait would never notify of the episode.
//
// State uses no clock and no goroutine. It is not safe for concurrent use.
type State struct {
	cfg      StateConfig
	slots    map[episodes.Fingerprint]*slot
	live     map[episodes.Fingerprint]*slot // slots that are not parked (see slot.parkedUntil)
	wakeAt   time.Time                      // time at which Due must examine a parked slot again; zero if there is none
	seen     time.Time                      // time of the last call of Due
	versions uint64                         // newest version number that was assigned
	evicted  int64

	peers     []*State  // states of the endpoints that notify the same people
	up        bool      // whether the last request was answered
	downSince time.Time // time at which the endpoint stopped responding; zero if it responds or has not been tried
}

// slot holds the newest message of one fingerprint, and records which messages the endpoint has accepted.
type slot struct {
	ep      episodes.Episode
	known   bool   // whether ep is complete; after a restart, it has only the fields of its Mark until Notify sets it
	epoch   uint64 // number that changes when another episode of the key replaces the current one
	version uint64 // version of the newest message, which changes with every message

	acceptedAt    time.Time // time at which the episode was first accepted as firing
	lastFiringAt  time.Time // time at which the episode was last accepted as firing
	endedAt       time.Time // time at which the episode was first accepted as resolved
	sentAt        time.Time // time at which a message was last accepted, firing or resolved
	sentVersion   uint64    // version of the message that was last accepted
	refusedAt     time.Time // time at which a message was last refused; zero after one was accepted
	imported      time.Time // time at which the slot was read from a saved state; zero if it was not
	counted       bool      // whether Accepted has returned the episode
	dropped       bool      // whether nothing more is sent, because the endpoint refused the end or a peer sends it
	laterEpisodes []episodes.Episode
	parkedUntil   time.Time // time until which Due and Next need not examine the slot; zero if they examine it
}

func (e *slot) isOver() bool { return e.ep.State != episodes.StateFiring }

// isDisplaced reports whether the engine dropped the episode for lack of room. Its end is then unknown.
func (e *slot) isDisplaced() bool { return e.isOver() && e.ep.Reason == episodes.ReasonDisplaced }

// isEndUnknown reports whether the end of e must not be sent, because e was displaced and its end is unknown. An
// endpoint that forgets alerts without an end, such as Alertmanager, would report the end as a recovery.
func (s *State) isEndUnknown(e *slot) bool {
	return s.cfg.Resend > 0 && e.isDisplaced() && e.endedAt.IsZero() && len(e.laterEpisodes) == 0
}

// hasLapsed reports whether the end of e is unknown and the alert was kept firing for unknownFor.
func (s *State) hasLapsed(e *slot, now time.Time) bool {
	return s.isEndUnknown(e) && now.Sub(e.ep.EndsAt) >= unknownFor
}

// Message is one message to the endpoint.
type Message struct {
	Episode episodes.Episode
	// Resolved is set if the episode must be sent as resolved, and not as firing. An episode
	// that has ended may have to be sent as firing first.
	Resolved bool
	// New is set if the endpoint has not accepted the episode in this form yet.
	New bool
	// Suspect is set if the endpoint refused the message before. It must then be sent alone.
	Suspect bool
	// Premature is set for an accepted end that is due again although it has not been sent to a peer yet. That peer may
	// notify people that the alert is firing. The repeated end would then cause another notification of the end, and so
	// on. Call Postpone instead of sending the message, unless the endpoint has restarted.
	Premature bool

	epoch, version uint64
}

// NewState returns an empty state.
func NewState(cfg StateConfig) *State {
	if cfg.MaxKeys <= 0 {
		cfg.MaxKeys = DefaultMaxKeys
	}
	return &State{cfg: cfg, slots: map[episodes.Fingerprint]*slot{}, live: map[episodes.Fingerprint]*slot{}}
}

// Notify updates the messages of the episodes, in order. Episodes that are silent, pending or
// dropped are not sent. If such an episode replaces a firing one, the firing one ends now.
func (s *State) Notify(eps []episodes.Episode, now time.Time) {
	for i := range eps {
		s.updateSlot(eps[i], now)
	}
}

func (s *State) updateSlot(ep episodes.Episode, now time.Time) {
	old := s.findSlot(ep.Fingerprint)
	if ep.Silent || (ep.State != episodes.StateFiring && ep.State != episodes.StateResolved) {
		s.endDisplaced(old, ep, now)
		return
	}
	s.versions++
	switch {
	case old == nil:
		if !s.makeRoom() {
			return
		}
		old = &slot{epoch: s.versions}
		s.slots[ep.Fingerprint], s.live[ep.Fingerprint] = old, old
	case s.keepForLater(old, ep):
		return
	case !old.ep.StartsAt.Equal(ep.StartsAt) || (old.isOver() && ep.State == episodes.StateFiring):
		*old = slot{epoch: s.versions, refusedAt: old.refusedAt}
	case old.isOver() && old.known && (!old.isDisplaced() || !old.endedAt.IsZero() || ep.Reason == episodes.ReasonDisplaced):
		return // the end is already known, and continues to be sent unchanged
	}
	old.ep, old.known, old.version = ep, true, s.versions
}

// endDisplaced ends the firing episode of a slot, because ep replaces it and is not sent.
func (s *State) endDisplaced(old *slot, ep episodes.Episode, now time.Time) {
	if old != nil && len(old.laterEpisodes) > 0 {
		endLast(old.laterEpisodes, ep, now)
		return
	}
	// known is set if ep reports the end of a displaced episode, and this end was not known before.
	known := old != nil && old.isDisplaced() && old.endedAt.IsZero() && ep.State == episodes.StateDropped
	if old == nil || old.isOver() && !known {
		return
	}
	if !old.known {
		old.ep = ep
	}
	s.versions++
	old.known, old.version = true, s.versions
	old.ep.State, old.ep.Reason, old.ep.EndsAt = episodes.StateResolved, ep.Reason, ep.EndsAt
	if ep.EndsAt.IsZero() {
		old.ep.EndsAt = now
	}
}

// makeRoom makes room for one more key, and reports whether there is room. It first drops accepted ends, the oldest
// first. Then it drops ends that were not accepted. These are the oldest ends of the namespace that has the most ends.
// It never drops an open episode. It drops several slots at once, because each call examines every slot.
func (s *State) makeRoom() bool {
	if len(s.slots) < s.cfg.MaxKeys {
		return true
	}
	var victims []*slot
	for _, e := range s.slots {
		if e.isOver() || !e.known {
			victims = append(victims, e)
		}
	}
	if len(victims) == 0 {
		s.evicted++
		return false
	}
	slices.SortFunc(victims, byLoss(victims))
	for _, e := range victims[:min(len(victims), max(1, s.cfg.MaxKeys/256))] {
		if e.known && e.endedAt.IsZero() && !s.endedElsewhere(e) {
			s.evicted++
		}
		s.removeSlot(e.ep.Fingerprint)
	}
	return true
}

// byLoss returns a comparison that puts first the slots whose removal loses the least. Slots whose ends were not
// accepted come last, ordered by the number of such slots in their namespace.
func byLoss(slots []*slot) func(a, b *slot) int {
	waiting := map[string]int{}
	rank := func(e *slot) int {
		switch {
		case !e.known:
			return 0
		case !e.endedAt.IsZero():
			return 1
		}
		return 2
	}
	for _, e := range slots {
		if rank(e) == 2 {
			waiting[e.ep.Tenant]++
		}
	}
	return func(a, b *slot) int {
		r := cmp.Compare(rank(a), rank(b))
		if r == 0 && rank(a) == 2 {
			r = cmp.Compare(waiting[b.ep.Tenant], waiting[a.ep.Tenant])
		}
		return cmp.Or(r, a.endedAt.Compare(b.endedAt), a.ep.EndsAt.Compare(b.ep.EndsAt))
	}
}

type plan struct {
	dueAt            time.Time
	resolved, unsent bool
}

func (s *State) nextPlan(e *slot, now time.Time) (plan, bool) {
	if !e.known || e.dropped {
		return plan{}, false
	}
	e.notAfter(now)
	p, ok := s.wantedPlan(e, now)
	if !e.refusedAt.IsZero() {
		p.dueAt = times.Max(p.dueAt, e.refusedAt.Add(s.cfg.RefusedDelay))
	}
	return p, ok
}

func (s *State) wantedPlan(e *slot, now time.Time) (plan, bool) {
	if s.isEndUnknown(e) {
		switch {
		case s.hasLapsed(e, now):
			return plan{}, false
		case e.acceptedAt.IsZero():
			return plan{unsent: true}, true
		case e.sentVersion != e.version:
			return plan{dueAt: e.sentAt.Add(s.cfg.TextDelay)}, true
		}
		return plan{dueAt: e.sentAt.Add(s.cfg.Resend)}, true
	}
	if e.isOver() && e.endedAt.IsZero() && s.notifiedElsewhere(e, now) {
		return plan{resolved: true, unsent: true}, true
	}
	if e.acceptedAt.IsZero() && e.endedAt.IsZero() {
		return plan{unsent: true}, true
	}
	again := e.sentAt.Add(s.cfg.Resend)
	if !e.isOver() {
		if s.cfg.TextDelay > 0 && e.sentVersion != e.version {
			return plan{dueAt: e.sentAt.Add(s.cfg.TextDelay)}, true
		}
		return plan{dueAt: again}, s.cfg.Resend > 0
	}
	if !e.endedAt.IsZero() {
		return plan{dueAt: again, resolved: true}, s.cfg.Resend > 0 && !again.After(e.endedAt.Add(s.cfg.ResolvedFor))
	}
	endAt := e.acceptedAt.Add(s.cfg.MinFiring)
	if now.Before(endAt) && s.cfg.Resend > 0 && again.Before(endAt) {
		return plan{dueAt: again}, true // keep the alert firing until the end may be sent
	}
	return plan{dueAt: endAt, resolved: true, unsent: true}, true
}

// Due returns at most limit messages that must be sent at now. New messages come first, then
// repeated ones, then refused ones. If there is room, Due adds repeated messages that are due
// soon, so that the messages of many keys share requests.
func (s *State) Due(now time.Time, limit int) []Message {
	var due, early []candidate
	s.wakeSlots(now)
	for fp, e := range s.live {
		if s.isDone(e, now) {
			if !e.known && e.isOver() && e.endedAt.IsZero() && !s.endedElsewhere(e) {
				s.evicted++ // the snapshot had no room for the end of the episode
			}
			s.removeSlot(fp)
			continue
		}
		p, ok := s.nextPlan(e, now)
		switch {
		case !ok:
			s.parkSlot(fp, e, p, ok, now)
		case !p.dueAt.After(now):
			due = append(due, candidate{e, p})
		case !p.unsent && e.refusedAt.IsZero() && p.dueAt.Sub(now) <= s.cfg.Resend/6:
			early = append(early, candidate{e, p})
		default:
			s.parkSlot(fp, e, p, ok, now)
		}
	}
	if len(due) == 0 {
		return nil
	}
	slices.SortFunc(due, inOrder)
	if len(due) < limit {
		slices.SortFunc(early, inOrder)
		due = append(due, early...)
	}
	out := make([]Message, min(limit, len(due)))
	for i := range out {
		e, p := due[i].slot, due[i].plan
		out[i] = Message{
			Episode: e.ep, Resolved: p.resolved, New: p.unsent, Suspect: !e.refusedAt.IsZero(),
			Premature: p.resolved && !p.unsent && !e.sentAt.IsZero() && s.owedElsewhere(e),
			epoch:     e.epoch, version: e.version,
		}
	}
	return out
}

type candidate struct {
	*slot
	plan plan
}

func inOrder(a, b candidate) int {
	rank := func(c candidate) int {
		switch {
		case !c.refusedAt.IsZero():
			return 3
		case !c.plan.unsent:
			return 2
		case c.plan.resolved:
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(rank(a), rank(b)),
		a.ep.StartsAt.Compare(b.ep.StartsAt),
		cmp.Compare(a.ep.Fingerprint, b.ep.Fingerprint),
	)
}

// notAfter changes times later than now to now. Such times remain if the clock was set back,
// and would suppress messages.
func (e *slot) notAfter(now time.Time) {
	for _, t := range []*time.Time{&e.acceptedAt, &e.lastFiringAt, &e.endedAt, &e.sentAt, &e.refusedAt} {
		if t.After(now) {
			*t = now
		}
	}
}

// isDone reports whether e needs no further message. e is kept twice as long as its end is repeated, so that the end is
// not treated as new if Notify gets it again. Time during which the endpoint is unreachable does not count, because the
// endpoint may have accepted the end and stopped before it notified anyone. The clock may have been set since a state
// was saved, so imported slots are kept until Notify had time to get their episodes again.
func (s *State) isDone(e *slot, now time.Time) bool {
	at := now
	if !s.downSince.IsZero() {
		at = times.Min(now, s.downSince)
	}
	if now.Sub(e.imported) <= s.cfg.ResolvedFor {
		return false
	}
	switch {
	case s.hasLapsed(e, now):
		return true
	case !e.known:
		return at.Sub(times.Max(e.endedAt, times.Max(e.sentAt, e.acceptedAt))) > 2*s.cfg.ResolvedFor && !s.owedElsewhere(e)
	case !e.isOver() || e.endedAt.IsZero():
		return false
	}
	return at.Sub(e.endedAt) > 2*s.cfg.ResolvedFor && !s.owedElsewhere(e)
}

// Next returns the earliest time at which Due may return messages. The time may be in the
// past. Next returns false if no message will become due.
func (s *State) Next(now time.Time) (time.Time, bool) {
	next, found := s.wakeAt.Add(s.cfg.Resend/12), !s.wakeAt.IsZero()
	for _, e := range s.live {
		if p, ok := s.nextPlan(e, now); ok && (!found || p.dueAt.Before(next)) {
			next, found = p.dueAt, true
		}
	}
	return next, found
}

// Canary returns a message that the endpoint accepted before and should accept again. A caller
// sends it to distinguish a bad alert from an endpoint that refuses everything.
func (s *State) Canary() (Message, bool) {
	var best *slot
	for _, e := range s.live {
		if e.known && !e.isOver() && !e.acceptedAt.IsZero() && e.refusedAt.IsZero() && (best == nil || e.sentAt.After(best.sentAt)) {
			best = e
		}
	}
	if best == nil {
		return Message{}, false
	}
	return Message{Episode: best.ep, epoch: best.epoch, version: best.version}, true
}

// An ended alert is kept for half an hour after its last message, during which it is only
// repeated. Its slot is parked, because otherwise every call of Due would examine it.

// findSlot returns the slot of a fingerprint, or nil if there is none. It unparks the slot,
// because the caller may change it.
func (s *State) findSlot(fp episodes.Fingerprint) *slot {
	e := s.slots[fp]
	if e != nil {
		e.parkedUntil = time.Time{}
		s.live[fp] = e
	}
	return e
}

func (s *State) removeSlot(fp episodes.Fingerprint) {
	delete(s.slots, fp)
	delete(s.live, fp)
}

// parkSlot parks a slot, so that Due and Next skip it until shortly before its next message. p
// is the plan of that message; more reports whether there is one.
func (s *State) parkSlot(fp episodes.Fingerprint, e *slot, p plan, more bool, now time.Time) {
	if e.known && (!e.isOver() || e.endedAt.IsZero()) || !e.refusedAt.IsZero() || len(e.laterEpisodes) > 0 {
		return
	}
	at := p.dueAt.Add(-s.cfg.Resend / 6)
	if !more {
		last := e.endedAt
		if !e.known {
			last = times.Max(last, times.Max(e.sentAt, e.acceptedAt))
		}
		// A peer or an outage may require that the slot is kept for longer.
		at = times.Max(last.Add(2*s.cfg.ResolvedFor), now.Add(time.Minute))
	}
	if !at.After(now) {
		return
	}
	e.parkedUntil = at
	delete(s.live, fp)
	if s.wakeAt.IsZero() || at.Before(s.wakeAt) {
		s.wakeAt = at
	}
}

// wakeSlots unparks the slots whose time has come, or all slots if the clock was set back. It
// unparks a slot at most Resend/12 late, so that many slots are unparked together. That is
// soon enough, because a slot is parked until Resend/6 before its next message.
func (s *State) wakeSlots(now time.Time) {
	setBack := now.Before(s.seen)
	s.seen = now
	if !setBack && (s.wakeAt.IsZero() || now.Before(s.wakeAt)) {
		return
	}
	s.wakeAt = time.Time{}
	for fp, e := range s.slots {
		switch {
		case e.parkedUntil.IsZero():
		case setBack || !e.parkedUntil.After(now):
			s.findSlot(fp)
		case s.wakeAt.IsZero() || e.parkedUntil.Before(s.wakeAt):
			s.wakeAt = times.Max(e.parkedUntil, now.Add(s.cfg.Resend/12))
		}
	}
}

func (s *State) wakeAll() {
	for fp := range s.slots {
		s.findSlot(fp)
	}
	s.wakeAt = time.Time{}
}

// maxLater is the largest number of episodes of one key that wait until an earlier episode was sent.
const maxLater = 16

// keepForLater keeps ep if the end of an earlier episode of its key still has to be sent. It
// reports whether it kept ep.
func (s *State) keepForLater(old *slot, ep episodes.Episode) bool {
	if !s.cfg.EachEpisode || !old.known || old.dropped || !old.isOver() || !old.endedAt.IsZero() || !ep.StartsAt.After(old.ep.StartsAt) {
		return false
	}
	n := len(old.laterEpisodes)
	switch {
	case n > 0 && old.laterEpisodes[n-1].StartsAt.Equal(ep.StartsAt):
		if old.laterEpisodes[n-1].State == episodes.StateFiring {
			old.laterEpisodes[n-1] = ep
		}
		return true
	case n == maxLater:
		old.laterEpisodes = old.laterEpisodes[1:]
		s.evicted++
	}
	old.laterEpisodes = append(old.laterEpisodes, ep)
	return true
}

// endLast ends the newest of the waiting episodes, because ep replaces it and is not sent.
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
	if len(e.laterEpisodes) == 0 {
		return
	}
	s.versions++
	*e = slot{epoch: s.versions, version: s.versions, ep: e.laterEpisodes[0], known: true, refusedAt: e.refusedAt, laterEpisodes: e.laterEpisodes[1:]}
}

// Accepted records that the endpoint accepted the messages at now. It returns the episodes that
// were accepted for the first time.
func (s *State) Accepted(msgs []Message, now time.Time) []episodes.Episode {
	var first []episodes.Episode
	for _, m := range msgs {
		e := s.findSlot(m.Episode.Fingerprint)
		if e == nil || e.epoch != m.epoch {
			continue // another episode has replaced the episode of the message
		}
		e.sentAt, e.sentVersion, e.refusedAt = now, m.version, time.Time{}
		if !m.Resolved {
			e.lastFiringAt = now
		}
		switch {
		case m.Resolved && e.endedAt.IsZero():
			e.endedAt = now
			s.advanceSlot(e)
		case !m.Resolved && e.acceptedAt.IsZero():
			e.acceptedAt = now
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
		e.sentAt = now
	}
}

// Refused records that the endpoint refuses the message. It reports whether this is the first
// time. If the message is an end, nothing more is sent about it.
func (s *State) Refused(m Message, now time.Time) bool {
	e := s.findSlot(m.Episode.Fingerprint)
	if e == nil || e.epoch != m.epoch {
		return false
	}
	first := e.refusedAt.IsZero()
	e.refusedAt = now
	if e.isOver() {
		e.acceptedAt, e.endedAt, e.sentAt, e.dropped = now, now, now, true
		s.advanceSlot(e)
	}
	return first
}

// Restarted records at now that the endpoint lost everything that it accepted before the time then. Open episodes are
// due immediately. If the end of an episode was not accepted, its start is due too, unless a peer has notified of the
// episode. After a peer has notified, nothing more is sent, because two members that receive an end at the same time
// may both notify of the end. An accepted end is due again as an end, because the process that accepted it may have
// stopped before it notified anyone.
func (s *State) Restarted(then, now time.Time) {
	s.wakeAll()
	for _, e := range s.slots {
		endOnly := !e.endedAt.IsZero() && (e.endedAt.Before(then) || e.lastFiringAt.IsZero())
		switch {
		case !e.acceptedAt.Before(then):
		case !e.lastFiringAt.Before(then): // the alert was sent again after the restart, at most Resend later
			if e.endedAt.IsZero() {
				e.acceptedAt = times.Min(e.lastFiringAt, then.Add(s.cfg.Resend))
			}
		case endOnly:
			if e.sentAt.Before(then) {
				e.sentAt = time.Time{}
			}
		default:
			e.acceptedAt, e.lastFiringAt, e.endedAt, e.sentAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}
			if e.isOver() && s.servedElsewhere(e, now) {
				e.acceptedAt, e.endedAt, e.sentAt, e.dropped = now, now, now, true
			}
		}
	}
}

// StateStats are counters of a State.
type StateStats struct {
	Keys    int
	Pending int   // number of keys with a change that the endpoint has not accepted yet
	Evicted int64 // number of changes that were dropped because MaxKeys was reached
}

// Stats returns the counts. Parked slots have no changes, so only live slots are examined.
func (s *State) Stats() StateStats {
	st := StateStats{Keys: len(s.slots), Evicted: s.evicted}
	for _, e := range s.live {
		if e.known && e.endedAt.IsZero() && (e.isOver() && (!e.isDisplaced() || s.cfg.Resend == 0) || e.acceptedAt.IsZero()) {
			st.Pending++
		}
	}
	return st
}

// Repeat makes every message due now that would be repeated later.
func (s *State) Repeat() {
	s.wakeAll()
	for _, e := range s.slots {
		if e.endedAt.IsZero() || !e.sentAt.Add(s.cfg.Resend).After(e.endedAt.Add(s.cfg.ResolvedFor)) {
			e.sentAt = time.Time{}
		}
	}
}
