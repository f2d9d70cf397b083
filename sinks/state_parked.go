package sinks

import (
	"container/heap"
	"maps"
	"time"

	"crowsnest/episodes"
)

// An ended alert is kept for half an hour after its last message. During this time it is only
// repeated. If its slot were not parked, every call of Due would look at it, so a call would
// cost more after many alerts.

// parked is a slot to which nothing happens before the time at.
type parked struct {
	at   time.Time
	slot *slot
}

// parkedSlots is a heap with the earliest time first. Slots that were woken since they were
// added stay in it.
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

// earliest returns the slot with the earliest time that is still parked, nil if there is none.
func (p *parkedSlots) earliest() *parked {
	for len(*p) > 0 {
		if x := &(*p)[0]; x.slot.parked.Equal(x.at) && !x.slot.parked.IsZero() {
			return x
		}
		heap.Pop(p)
	}
	return nil
}

func (s *State) addSlot(fp episodes.Fingerprint, e *slot) {
	s.slots[fp], s.live[fp] = e, e
	s.most = max(s.most, len(s.live))
}

// findSlot returns the slot of a fingerprint, or nil if there is none. It wakes the slot,
// because the caller changes it.
func (s *State) findSlot(fp episodes.Fingerprint) *slot {
	e := s.slots[fp]
	if e != nil {
		e.parked = time.Time{}
		s.live[fp] = e
		s.most = max(s.most, len(s.live))
	}
	return e
}

func (s *State) removeSlot(fp episodes.Fingerprint) {
	if e := s.slots[fp]; e != nil {
		e.parked = time.Time{}
	}
	delete(s.slots, fp)
	delete(s.live, fp)
}

// parkSlot parks a slot, so that Due and Next skip it until something happens to it. p is its
// next message, if there is one.
func (s *State) parkSlot(fp episodes.Fingerprint, e *slot, p plan, more bool, now time.Time) {
	if e.known && (!e.isOver() || e.ended.IsZero()) || !e.refused.IsZero() || len(e.later) > 0 {
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
			at = soon // a peer or an outage keeps the slot in use
		}
	}
	if !at.After(now) {
		return
	}
	e.parked = at
	delete(s.live, fp)
	heap.Push(to, parked{at, e})
}

// wakeSlots wakes the slots whose time has come. If the clock was set back, it wakes all slots.
func (s *State) wakeSlots(now time.Time) {
	if now.Before(s.seen) {
		s.wakeAll()
	}
	s.seen = now
	for _, p := range []*parkedSlots{&s.repeats, &s.settled} {
		for x := p.earliest(); x != nil && !x.at.After(now); x = p.earliest() {
			s.findSlot(x.slot.ep.Fingerprint)
		}
	}
}

// rebuildLive copies the map live when most of its entries are gone, because iterating over a
// map costs as much as at its largest size.
func (s *State) rebuildLive() {
	if s.most > 64 && len(s.live) < s.most/4 {
		live := make(map[episodes.Fingerprint]*slot, len(s.live))
		maps.Copy(live, s.live)
		s.live, s.most = live, len(live)
	}
}

func (s *State) wakeAll() {
	for fp := range s.slots {
		s.findSlot(fp)
	}
	s.repeats, s.settled = nil, nil
}
