package sinks

import (
	"container/heap"
	"maps"
	"time"

	"crowsnest/episodes"
)

// An ended alert is kept for half an hour after its last message, and nothing happens to it but
// repeats. Without the parked slots, each round would look at every alert that ended in that
// time, so the cost of a round would grow with them.

// parked is a slot to which nothing happens before a time.
type parked struct {
	at   time.Time
	slot *slot
}

// parkedSlots is a heap, the earliest time first. Slots that were woken since stay in it.
type parkedSlots []parked

func (p parkedSlots) Len() int           { return len(p) }
func (p parkedSlots) Less(i, j int) bool { return p[i].at.Before(p[j].at) }
func (p parkedSlots) Swap(i, j int)      { p[i], p[j] = p[j], p[i] }
func (p *parkedSlots) Push(x any)        { *p = append(*p, x.(parked)) }

func (p *parkedSlots) Pop() any {
	last := len(*p) - 1
	x := (*p)[last]
	(*p)[last] = parked{}
	*p = (*p)[:last]
	return x
}

// first returns the earliest slot that is still parked, nil if there is none.
func (p *parkedSlots) first() *parked {
	for len(*p) > 0 {
		if x := &(*p)[0]; x.slot.parked.Equal(x.at) && !x.slot.parked.IsZero() {
			return x
		}
		heap.Pop(p)
	}
	return nil
}

// put adds a slot.
func (s *State) put(fp episodes.Fingerprint, e *slot) {
	s.slots[fp], s.live[fp] = e, e
	s.most = max(s.most, len(s.live))
}

// slot returns the slot of a fingerprint and wakes it: it changes. It returns nil if there is
// none.
func (s *State) slot(fp episodes.Fingerprint) *slot {
	e := s.slots[fp]
	if e != nil {
		e.parked = time.Time{}
		s.live[fp] = e
		s.most = max(s.most, len(s.live))
	}
	return e
}

// remove forgets a slot.
func (s *State) remove(fp episodes.Fingerprint) {
	if e := s.slots[fp]; e != nil {
		e.parked = time.Time{}
	}
	delete(s.slots, fp)
	delete(s.live, fp)
}

// park lets Due and Next skip a slot until something happens to it. p is its next message, if
// there is one.
func (s *State) park(fp episodes.Fingerprint, e *slot, p plan, more bool, now time.Time) {
	if e.known && (!e.over() || e.ended.IsZero()) || !e.refused.IsZero() || len(e.later) > 0 {
		return
	}
	to, at := &s.repeats, p.at.Add(-s.cfg.Resend/6)
	if !more {
		last := e.ended
		for _, t := range []time.Time{e.sent, e.accepted} {
			if !e.known && t.After(last) {
				last = t
			}
		}
		to, at = &s.settled, last.Add(2*s.cfg.ResolvedFor)
		if soon := now.Add(time.Minute); at.Before(soon) {
			at = soon // a peer or an outage keeps it
		}
	}
	if !at.After(now) {
		return
	}
	e.parked = at
	delete(s.live, fp)
	heap.Push(to, parked{at, e})
}

// wake wakes the slots whose time has come, all of them if the clock was set back.
func (s *State) wake(now time.Time) {
	if now.Before(s.seen) {
		s.wakeAll()
	}
	s.seen = now
	for _, p := range []*parkedSlots{&s.repeats, &s.settled} {
		for x := p.first(); x != nil && !x.at.After(now); x = p.first() {
			s.slot(x.slot.ep.Fingerprint)
		}
	}
}

// shrink makes live anew once most of it is gone: walking over a map costs what its largest size
// did.
func (s *State) shrink() {
	if s.most > 64 && len(s.live) < s.most/4 {
		live := make(map[episodes.Fingerprint]*slot, len(s.live))
		maps.Copy(live, s.live)
		s.live, s.most = live, len(live)
	}
}

func (s *State) wakeAll() {
	for fp := range s.slots {
		s.slot(fp)
	}
	s.repeats, s.settled = nil, nil
}
