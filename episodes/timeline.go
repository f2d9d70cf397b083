package episodes

import (
	"slices"
	"time"
)

// EventKind is the kind of a transition of an episode.
type EventKind string

// The kinds of events.
const (
	EventCounted  EventKind = "counted"  // a line of the window that opened it: N of Of
	EventOpened   EventKind = "opened"   // the condition became true
	EventFired    EventKind = "fired"    // it was concluded that it fires
	EventOnHold   EventKind = "held"     // nothing is concluded from silence: Sources make no progress
	EventResumed  EventKind = "resumed"  // it is again
	EventRenamed  EventKind = "renamed"  // a reload changed its labels
	EventRestored EventKind = "restored" // loaded after a restart; earlier transitions are unknown
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
	// Sources are the sources without progress, of EventOnHold. None: the rule is
	// quarantined, so its lines are not matched.
	Sources []string
	Reason  Reason // of EventEnded
}

// Timeline is the history of one episode.
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
	maxEnded   = 256
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

// history holds the transitions of one episode.
type history struct {
	events  []transition
	skipped int
	onHold  bool // the newest of held and resumed
}

// note adds an event, within the bound.
func (h *history) note(ev transition) {
	switch ev.kind {
	case didHold, didResume:
		if h.onHold == (ev.kind == didHold) {
			return
		}
		h.onHold = !h.onHold
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
		ep.history.note(transition{at: t, kind: didCount, n: int32(n), of: int32(of)})
	}
	switch w := ep.window; {
	case trig.sequence != nil:
		for i, h := range trig.sequence[:len(trig.sequence)-1] {
			count(h.t, i+1, len(trig.sequence))
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
	ep.history.note(transition{at: trig.t, kind: didOpen})
	if g := ep.rs.group; g.wasOnHold {
		ep.history.note(transition{at: now, kind: didHold, sources: g.silent(now)})
	}
}

// noteRestored notes what a snapshot says of an episode: its history is not
// saved.
func (ep *episode) noteRestored(now int64) {
	ep.history.note(transition{at: ep.starts - ep.moved, kind: didOpen})
	if ep.fired != 0 {
		ep.history.note(transition{at: ep.fired, kind: didFire})
	}
	ep.history.note(transition{at: now, kind: didRestore})
}

// silent returns the names of the sources of the group without progress.
func (g *group) silent(now int64) []string {
	if g.suspended != noTime {
		return nil
	}
	var out []string
	for _, s := range g.sources {
		if s.readUpTo < now-int64(OnHoldAfter) {
			out = append(out, s.name)
		}
	}
	slices.Sort(out)
	return out
}

// noteOnHold records which groups went on hold or resumed.
func (e *Engine) noteOnHold(now int64) {
	for _, g := range e.groups {
		is := g.onHold(now)
		if g.looked && is == g.wasOnHold {
			continue
		}
		g.looked, g.wasOnHold = true, is // a new group may have episodes of others
		ev := transition{at: now, kind: didResume}
		if is {
			ev.kind, ev.sources = didHold, g.silent(now)
		}
		for _, d := range g.heap {
			if d.ep != nil {
				d.ep.history.note(ev)
			}
		}
	}
}

// pastEpisode is an episode that ended not long ago, also one that never fired, and the
// line that ended it.
type pastEpisode struct {
	Episode
	history
	line text
}

// noteEnded keeps the history of an episode that ended as x.
func (e *Engine) noteEnded(ep *episode, x Episode, line text) {
	ep.history.note(transition{at: nanos(x.EndsAt), kind: didEnd})
	if len(e.ended) >= maxEnded {
		e.ended = slices.Delete(e.ended, 0, 1)
	}
	e.ended = append(e.ended, &pastEpisode{x, ep.history, e.copied(line)})
}

// forgetEnded drops the histories of episodes that ended more than KeepResolved ago.
func (e *Engine) forgetEnded(now int64) {
	n := 0
	for n < len(e.ended) && nanos(e.ended[n].Concluded) < now-int64(KeepResolved) {
		n++
	}
	e.ended = slices.Delete(e.ended, 0, n)
}

// Timeline returns the history of the newest episode of an alert, open or ended in the
// last 15 minutes, even if it never fired; false if there is none.
func (e *Engine) Timeline(of Fingerprint, now time.Time) (Timeline, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := nanos(now)
	for _, rs := range e.order {
		for _, ep := range rs.open {
			if ep.print == of {
				t := Timeline{Episode: e.exportSafely(ep, at), Skipped: ep.history.skipped}
				t.Events = e.events(&ep.history, t.Episode)
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
	return e.timelineOfEnded(of)
}

func (e *Engine) timelineOfEnded(of Fingerprint) (t Timeline, found bool) {
	for _, p := range slices.Backward(e.ended) {
		if p.Fingerprint == of {
			t, found = Timeline{Episode: p.Episode, Events: e.events(&p.history, p.Episode), Skipped: p.skipped}, true
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
func (e *Engine) events(h *history, x Episode) []Event {
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

// brief derives a short history from the episode itself.
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
