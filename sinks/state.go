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

	// unknownFor is how long an alert that lost its place is kept firing at a receiver with a
	// memory, unless its end becomes known. After that it is not sent any more: the receiver
	// forgets it, and was never told that the failure is over.
	unknownFor = 24 * time.Hour
)

// StateConfig sets how often an endpoint is sent the same message.
type StateConfig struct {
	// Resend is the time after which an accepted message is sent again; zero if never.
	Resend time.Duration
	// MinFiring is how long an endpoint must have had an episode as firing
	// before its end is sent.
	MinFiring time.Duration
	// ResolvedFor is how long an accepted end is sent again.
	ResolvedFor time.Duration
	// TextDelay is the shortest time between two messages about a firing
	// episode of which only the text changed (count, newest line), even without
	// a Resend; zero means such a change waits for Resend. TextDelay keeps a flood of
	// lines from becoming a flood of requests.
	TextDelay time.Duration
	// RefusedDelay is how long a refused message waits before it is sent again.
	RefusedDelay time.Duration
	// EachEpisode sends every episode of a key, one after the other, up to 16.
	// Without it a new episode replaces the one before.
	EachEpisode bool
	// MaxKeys bounds the keys in the state; zero means DefaultMaxKeys.
	MaxKeys int
}

// State holds what one endpoint still has to be sent: the newest message per
// fingerprint. It is a state and not a queue, so no outage makes it grow: an
// update replaces its predecessor.
//
// If the endpoint never accepted an ended episode as firing, State sends it as
// firing first, and as resolved no sooner than MinFiring later. Otherwise a
// receiver behind a group_wait would never notify of it.
//
// State has no clock and no goroutine and is not safe for concurrent use.
type State struct {
	cfg      StateConfig
	slots    map[episodes.Fingerprint]*slot
	live     map[episodes.Fingerprint]*slot // the slots that are not parked
	repeats  parkedSlots                    // slots whose next message is a repeat
	settled  parkedSlots                    // slots without a next message
	most     int                            // size of live since it was made
	seen     time.Time                      // time of the last Due
	versions uint64                         // the newest version assigned
	evicted  int64

	peers []*State  // states of the endpoints that notify the same people
	up    bool      // the last request was answered
	away  time.Time // when the endpoint stopped answering; zero if it answers, or was not asked yet
}

// slot is the newest message of one fingerprint and what the endpoint accepted of it.
type slot struct {
	ep      episodes.Episode
	known   bool   // ep is the whole episode, not only its mark
	epoch   uint64 // changes with the episode
	version uint64 // changes with every message

	accepted    time.Time // first accepted as firing
	alive       time.Time // last accepted as firing
	ended       time.Time // first accepted as resolved
	sent        time.Time // last accepted, in either form
	sentVersion uint64    // version last accepted
	refused     time.Time // last refused; zero once accepted
	imported    time.Time // read from a saved state; zero if it was not
	counted     bool      // its first acceptance was reported
	dropped     bool      // reports whether the alert ended and the endpoint refused it, so that nothing more is sent
	later       []episodes.Episode
	parked      time.Time // until when nothing happens to it; zero if it is not parked
}

func (e *slot) over() bool { return e.ep.State != episodes.StateFiring }

// displaced reports whether the engine no longer follows the episode of e, whose end is not
// known.
func (e *slot) displaced() bool { return e.over() && e.ep.Reason == episodes.ReasonDisplaced }

// unknown reports whether the endpoint is not told that e is over, because nobody follows it: the
// endpoint has a memory, to which an end would say that the failure is over.
func (s *State) unknown(e *slot) bool {
	return s.cfg.Resend > 0 && e.displaced() && e.ended.IsZero() && len(e.later) == 0
}

// lapsed reports whether e is unknown and was kept firing for long enough.
func (s *State) lapsed(e *slot, now time.Time) bool {
	return s.unknown(e) && now.Sub(e.ep.EndsAt) >= unknownFor
}

// Message is one message for the endpoint.
type Message struct {
	Episode episodes.Episode
	// Resolved is the form to send. An episode that has ended may have to be
	// sent as firing first.
	Resolved bool
	// New is set while the endpoint has not accepted the episode in this form.
	New bool
	// Suspect is set if the endpoint refused the message before. It must not
	// share a request with others.
	Suspect bool
	// Premature is set for an accepted end that is due again while a peer was
	// not sent that end. Such a peer may notify people of the alert as firing;
	// a repeated end would then be notified again, and so on in turn. Call
	// Postpone instead of sending it, unless the endpoint lost its memory.
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

// Notify updates the message of each episode, in order. Episodes that are
// silent, pending or dropped are not sent; if one replaces a firing episode,
// that episode ends now.
func (s *State) Notify(eps []episodes.Episode, now time.Time) {
	for i := range eps {
		s.update(eps[i], now)
	}
}

func (s *State) update(ep episodes.Episode, now time.Time) {
	old := s.slot(ep.Fingerprint)
	if ep.Silent || (ep.State != episodes.StateFiring && ep.State != episodes.StateResolved) {
		s.withdraw(old, ep, now)
		return
	}
	s.versions++
	switch {
	case old == nil:
		if !s.makeRoom() {
			return
		}
		old = &slot{epoch: s.versions}
		s.put(ep.Fingerprint, old)
	case s.keepForLater(old, ep):
		return
	case !old.ep.StartsAt.Equal(ep.StartsAt) || (old.over() && ep.State == episodes.StateFiring):
		*old = slot{epoch: s.versions, refused: old.refused}
	case old.over() && old.known && (!old.displaced() || !old.ended.IsZero() || ep.Reason == episodes.ReasonDisplaced):
		return // the end is known already, and is sent unchanged
	}
	old.ep, old.known, old.version = ep, true, s.versions
}

// withdraw ends a firing episode whose key is no longer sent.
func (s *State) withdraw(old *slot, ep episodes.Episode, now time.Time) {
	if old != nil && len(old.later) > 0 {
		endLast(old.later, ep, now)
		return
	}
	known := old != nil && old.displaced() && old.ended.IsZero() && ep.State == episodes.StateDropped // at last
	if old == nil || old.over() && !known {
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

// makeRoom makes room for one more key and reports whether there is any. It drops
// the ends that were accepted the longest ago, then the oldest ends not accepted,
// of the namespace that has the most of these. It drops several at once, since it
// walks over every key. It never drops an open episode.
func (s *State) makeRoom() bool {
	if len(s.slots) < s.cfg.MaxKeys {
		return true
	}
	var victims []*slot
	for _, e := range s.slots {
		if e.over() || !e.known {
			victims = append(victims, e)
		}
	}
	if len(victims) == 0 {
		s.evicted++
		return false
	}
	slices.SortFunc(victims, byLoss(victims))
	for _, e := range victims[:min(len(victims), max(1, s.cfg.MaxKeys/256))] {
		if e.known && e.ended.IsZero() && !s.endedElsewhere(e) {
			s.evicted++
		}
		s.remove(e.ep.Fingerprint)
	}
	return true
}

// byLoss orders slots by how little is lost with them. Ends not accepted are
// ordered by how many of them their namespace has.
func byLoss(slots []*slot) func(a, b *slot) int {
	waiting := map[string]int{}
	rank := func(e *slot) int {
		switch {
		case !e.known:
			return 0
		case !e.ended.IsZero():
			return 1
		}
		return 2
	}
	for _, e := range slots {
		if rank(e) == 2 {
			waiting[e.ep.Party]++
		}
	}
	return func(a, b *slot) int {
		r := cmp.Compare(rank(a), rank(b))
		if r == 0 && rank(a) == 2 {
			r = cmp.Compare(waiting[b.ep.Party], waiting[a.ep.Party])
		}
		return cmp.Or(r, a.ended.Compare(b.ended), a.ep.EndsAt.Compare(b.ep.EndsAt))
	}
}

// plan is the next message of a slot.
type plan struct {
	at               time.Time
	resolved, unsent bool
}

// plan returns the next message of e and its time, and false if there is none.
func (s *State) plan(e *slot, now time.Time) (plan, bool) {
	if !e.known || e.dropped {
		return plan{}, false
	}
	e.notAfter(now)
	p, ok := s.wanted(e, now)
	if !e.refused.IsZero() {
		p.at = times.Later(p.at, e.refused.Add(s.cfg.RefusedDelay))
	}
	return p, ok
}

func (s *State) wanted(e *slot, now time.Time) (plan, bool) {
	if s.unknown(e) {
		switch {
		case s.lapsed(e, now):
			return plan{}, false
		case e.accepted.IsZero():
			return plan{unsent: true}, true
		case e.sentVersion != e.version:
			return plan{at: e.sent.Add(s.cfg.TextDelay)}, true
		}
		return plan{at: e.sent.Add(s.cfg.Resend)}, true
	}
	if e.over() && e.ended.IsZero() && s.notifiedElsewhere(e, now) {
		return plan{resolved: true, unsent: true}, true
	}
	if e.accepted.IsZero() && e.ended.IsZero() {
		return plan{unsent: true}, true
	}
	again := e.sent.Add(s.cfg.Resend)
	if !e.over() {
		if s.cfg.TextDelay > 0 && e.sentVersion != e.version {
			return plan{at: e.sent.Add(s.cfg.TextDelay)}, true
		}
		return plan{at: again}, s.cfg.Resend > 0
	}
	if !e.ended.IsZero() {
		return plan{at: again, resolved: true}, s.cfg.Resend > 0 && !again.After(e.ended.Add(s.cfg.ResolvedFor))
	}
	endAt := e.accepted.Add(s.cfg.MinFiring)
	if now.Before(endAt) && s.cfg.Resend > 0 && again.Before(endAt) {
		return plan{at: again}, true // keep it alive until then
	}
	return plan{at: endAt, resolved: true, unsent: true}, true
}

// Due returns at most limit messages to send at now: new ones first, then repeats,
// then refused ones. Repeats that are due soon are added if there is room, so that
// the messages of many keys share requests.
func (s *State) Due(now time.Time, limit int) []Message {
	var due, early []candidate
	s.wake(now)
	for fp, e := range s.live {
		if s.forgotten(e, now) {
			if !e.known && e.over() && e.ended.IsZero() && !s.endedElsewhere(e) {
				s.evicted++ // its end was not saved, for lack of room
			}
			s.remove(fp)
			continue
		}
		p, ok := s.plan(e, now)
		switch {
		case !ok:
			s.park(fp, e, p, ok, now)
		case !p.at.After(now):
			due = append(due, candidate{e, p})
		case !p.unsent && e.refused.IsZero() && p.at.Sub(now) <= s.cfg.Resend/6:
			early = append(early, candidate{e, p})
		default:
			s.park(fp, e, p, ok, now)
		}
	}
	s.shrink()
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
			Episode: e.ep, Resolved: p.resolved, New: p.unsent, Suspect: !e.refused.IsZero(),
			Premature: p.resolved && !p.unsent && !e.sent.IsZero() && s.owedElsewhere(e),
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
		case !c.refused.IsZero():
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

// notAfter sets times later than now to now: a clock that was set back must not
// suppress messages.
func (e *slot) notAfter(now time.Time) {
	for _, t := range []*time.Time{&e.accepted, &e.alive, &e.ended, &e.sent, &e.refused} {
		if t.After(now) {
			*t = now
		}
	}
}

// forgotten reports whether e needs no further message. e is kept twice as long as
// its end is resent, so that a repeated end is not new. Time during which the
// endpoint is away does not count: it may have accepted the end and died before it
// notified anybody. How long ago something was saved says nothing, because the clock may
// have been set: what was saved is kept until the engine has named its episodes again.
func (s *State) forgotten(e *slot, now time.Time) bool {
	at := now
	if !s.away.IsZero() {
		at = times.Earlier(now, s.away)
	}
	if now.Sub(e.imported) <= s.cfg.ResolvedFor {
		return false
	}
	switch {
	case s.lapsed(e, now):
		return true
	case !e.known:
		return at.Sub(times.Later(e.ended, times.Later(e.sent, e.accepted))) > 2*s.cfg.ResolvedFor && !s.owedElsewhere(e)
	case !e.over() || e.ended.IsZero():
		return false
	}
	return at.Sub(e.ended) > 2*s.cfg.ResolvedFor && !s.owedElsewhere(e)
}

// Next returns the next time at which Due returns something, and false if there
// is none. It may be in the past.
func (s *State) Next(now time.Time) (time.Time, bool) {
	var next time.Time
	found := false
	if x := s.repeats.first(); x != nil {
		next, found = x.at.Add(s.cfg.Resend/6), true
	}
	for _, e := range s.live {
		if p, ok := s.plan(e, now); ok && (!found || p.at.Before(next)) {
			next, found = p.at, true
		}
	}
	return next, found
}

// Canary returns a message that the endpoint accepted before and should accept
// again. It separates a bad alert from an endpoint that refuses everything.
func (s *State) Canary() (Message, bool) {
	var best *slot
	for _, e := range s.live {
		if e.known && !e.over() && !e.accepted.IsZero() && e.refused.IsZero() && (best == nil || e.sent.After(best.sent)) {
			best = e
		}
	}
	if best == nil {
		return Message{}, false
	}
	return Message{Episode: best.ep, epoch: best.epoch, version: best.version}, true
}
