package episodes

import (
	"slices"
	"time"
)

// EventKind says what happened to an episode.
type EventKind string

// The kinds of events.
const (
	EventCounted  EventKind = "counted"  // a line of the window that opened it: N of Of
	EventOpened   EventKind = "opened"   // the condition became true
	EventFired    EventKind = "fired"    // it was concluded that it fires
	EventOnHold   EventKind = "held"     // nothing is concluded from silence: Sources prove nothing
	EventResumed  EventKind = "resumed"  // it is again
	EventRenamed  EventKind = "renamed"  // a reload changed its labels
	EventRestored EventKind = "restored" // read back after a restart; what was between is not known
	EventEnded    EventKind = "ended"
)

// Event is one transition of an episode. Lines that merely repeat are none.
type Event struct {
	At   time.Time
	Kind EventKind
	// N and Of are those of EventCounted: lines, different values, or steps of a
	// sequence.
	N, Of int
	// Line is the line that opened or ended it, redacted; "" if none did or it
	// is not known.
	Line string
	// Sources are those that prove nothing, of EventOnHold. None: nobody looks at
	// the lines of the rule, because it was given up.
	Sources []string
	Reason  Reason // of EventEnded
}

// Timeline is what happened to one episode.
type Timeline struct {
	Episode Episode
	// Events are in the order in which they became known. Of many, the first and
	// the newest are kept, and Skipped is how many are not.
	Events  []Event
	Skipped int
	// WaitsFor are the sources that its conclusions wait for now.
	WaitsFor []string
}

const (
	maxEvents  = 16 // per episode
	keepEvents = 5  // the first ones: how it began
	maxPast    = 256
)

// transition is an Event as it is kept.
type transition struct {
	at      int64
	sources []string // shared by the episodes of a group
	n, of   int32
	kind    kind
}

// kind is an EventKind in a byte.
type kind uint8

const (
	didCount kind = iota
	didOpen
	didFire
	didHold
	didResume
	didRename
	didRestore
	didEnd
)

// kinds are the names, in order.
var kinds = [...]EventKind{EventCounted, EventOpened, EventFired, EventOnHold, EventResumed, EventRenamed, EventRestored, EventEnded}

// course is the events of one episode.
type course struct {
	events  []transition
	skipped int
	held    bool // the newest of held and resumed
}

// note adds an event, within the bound.
func (h *course) note(ev transition) {
	switch ev.kind {
	case didHold, didResume:
		if h.held == (ev.kind == didHold) {
			return
		}
		h.held = !h.held
	}
	if len(h.events) < maxEvents {
		h.events = append(h.events, ev)
		return
	}
	h.skipped++
	copy(h.events[keepEvents:], h.events[keepEvents+1:])
	h.events[maxEvents-1] = ev
}

// noteOpened notes how an episode began: the lines of its window, and the one
// that made the condition true.
func (ep *episode) noteOpened(trig *trigger, now int64) {
	r := ep.rs.rule
	count := func(t int64, n, of int) {
		ep.course.note(transition{at: t, kind: didCount, n: int32(n), of: int32(of)})
	}
	switch w := ep.window; {
	case trig.chain != nil:
		for i, h := range trig.chain[:len(trig.chain)-1] {
			count(h.t, i+1, len(trig.chain))
		}
	case w != nil && r.Count > 1:
		ts := w.lines
		if r.Distinct != "" {
			ts = make(times, len(w.values))
			for i, h := range w.values {
				ts[i] = h.t
			}
		}
		// Those that made it true are the oldest of the window.
		if ts = ts[ts.since(trig.from):ts.since(trig.t)]; len(ts) >= r.Count {
			count(ts[0], 1, r.Count)
			if r.Count > 2 {
				count(ts[r.Count-2], r.Count-1, r.Count)
			}
		}
	}
	ep.course.note(transition{at: trig.t, kind: didOpen})
	if g := ep.rs.group; g.wasHeld {
		ep.course.note(transition{at: now, kind: didHold, sources: g.silent(now)})
	}
}

// noteRestored notes what a snapshot says of an episode: its history is not
// saved.
func (ep *episode) noteRestored(now int64) {
	ep.course.note(transition{at: ep.starts - ep.moved, kind: didOpen})
	if ep.fired != 0 {
		ep.course.note(transition{at: ep.fired, kind: didFire})
	}
	ep.course.note(transition{at: now, kind: didRestore})
}

// silent names the sources of the group that prove nothing.
func (g *group) silent(now int64) []string {
	if g.suspended != noTime {
		return nil
	}
	var out []string
	for _, s := range g.sources {
		if s.proved < now-int64(OnHoldAfter) {
			out = append(out, s.name)
		}
	}
	slices.Sort(out)
	return out
}

// noteHeld notes which groups began or ceased to be held.
func (e *Engine) noteHeld(now int64) {
	for _, g := range e.groups {
		is := g.held(now)
		if g.looked && is == g.wasHeld {
			continue
		}
		g.looked, g.wasHeld = true, is // a new group may have episodes of others
		ev := transition{at: now, kind: didResume}
		if is {
			ev.kind, ev.sources = didHold, g.silent(now)
		}
		for _, d := range g.heap {
			if d.ep != nil {
				d.ep.course.note(ev)
			}
		}
	}
}

// past is an episode that ended not long ago, also one that never fired, and the
// line that ended it.
type past struct {
	Episode
	course
	line text
}

// notePast keeps what happened to an episode that has ended as x.
func (e *Engine) notePast(ep *episode, x Episode, line text) {
	ep.course.note(transition{at: nanos(x.EndsAt), kind: didEnd})
	if len(e.past) >= maxPast {
		e.past = slices.Delete(e.past, 0, 1)
	}
	e.past = append(e.past, &past{x, ep.course, e.owned(line)})
}

// forgetPast drops what ended long enough ago.
func (e *Engine) forgetPast(now int64) {
	n := 0
	for n < len(e.past) && nanos(e.past[n].Concluded) < now-int64(KeepResolved) {
		n++
	}
	e.past = slices.Delete(e.past, 0, n)
}

// Timeline returns what happened to the newest episode of an alert, open or
// ended in the last 15 minutes, also if it never fired; false if there is none.
func (e *Engine) Timeline(of Fingerprint, now time.Time) (Timeline, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := nanos(now)
	for _, rs := range e.order {
		for _, ep := range rs.open {
			if ep.print == of {
				t := Timeline{Episode: e.exportSafely(ep, at), Skipped: ep.course.skipped}
				t.Events = e.events(&ep.course, t.Episode)
				if t.Episode.OnHold {
					t.WaitsFor = rs.group.silent(at)
				}
				return t, true
			}
		}
		if rs.over.active && rs.over.print == of {
			x := e.exportOverflow(rs, at)
			return Timeline{Episode: x, Events: brief(x)}, true
		}
	}
	return e.timelineOfPast(of)
}

func (e *Engine) timelineOfPast(of Fingerprint) (t Timeline, found bool) {
	for _, p := range slices.Backward(e.past) {
		if p.Fingerprint == of {
			t, found = Timeline{Episode: p.Episode, Events: e.events(&p.course, p.Episode), Skipped: p.skipped}, true
			t.Events[len(t.Events)-1].Line = e.shown(&p.line)
			break
		}
	}
	// What was read back after a restart, and overflows, have no history.
	for _, x := range slices.Backward(e.closed) {
		if x.Fingerprint == of && (!found || x.Concluded.After(t.Episode.Concluded)) {
			return Timeline{Episode: x, Events: brief(x)}, true
		}
	}
	return t, found
}

// events copies a history out. Why it ended and the line that opened it are known
// to the episode.
func (e *Engine) events(h *course, x Episode) []Event {
	out := make([]Event, len(h.events))
	began := -1
	for i, ev := range h.events {
		out[i] = Event{At: instant(ev.at), Kind: kinds[ev.kind], N: int(ev.n), Of: int(ev.of), Sources: ev.sources}
		switch ev.kind {
		case didOpen:
			began = i
		case didEnd:
			out[i].Reason = x.Reason
		}
	}
	if began >= 0 {
		out[began].Line = x.First
	}
	return out
}

// brief is what an episode itself says of its history.
func brief(x Episode) []Event {
	out := []Event{{At: x.StartsAt, Kind: EventOpened, Line: x.First}}
	if !x.FiredAt.IsZero() {
		out = append(out, Event{At: x.FiredAt, Kind: EventFired})
	}
	if !x.EndsAt.IsZero() {
		out = append(out, Event{At: x.EndsAt, Kind: EventEnded, Reason: x.Reason})
	}
	return out
}
