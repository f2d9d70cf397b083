package episodes

import (
	"slices"
	"time"

	"crowsnest/episodes/internal/instant"
	"crowsnest/episodes/internal/window"
	"crowsnest/redact"
)

// EventKind is the kind of an event.
type EventKind string

// The kinds of events.
const (
	EventCounted  EventKind = "counted"  // a line of the window that opened the episode; it is line N of Total
	EventLast     EventKind = "last"     // the last line of the key before the silence, for a rule with `silent`
	EventOpened   EventKind = "opened"   // the condition became true
	EventFired    EventKind = "fired"    // the engine concluded that the episode fires
	EventOnHold   EventKind = "held"     // negative conclusions are on hold, because Sources make no progress
	EventResumed  EventKind = "resumed"  // the sources make progress again
	EventRenamed  EventKind = "renamed"  // a reload changed the labels
	EventRestored EventKind = "restored" // the episode was loaded after a restart; earlier events are unknown
	EventEnded    EventKind = "ended"
)

// Event is one event of an episode. Triggers after the first one are not events.
type Event struct {
	Time time.Time
	Kind EventKind
	// N and Total are set for EventCounted. They count lines, different values, or steps of a sequence.
	N, Total int
	// Line is the line that opened or ended the episode. It is empty if no line did so, or if the line is unknown.
	Line redact.Text
	// Log describes the log of the line to people. It is empty if unknown.
	Log string
	// Sources are the names of the sources without progress, for EventOnHold. It is empty if the rule is quarantined,
	// because then its lines are not matched.
	Sources []string
	Reason  Reason // reason of the end, for EventEnded
}

// Timeline is the history of one episode.
type Timeline struct {
	Episode Episode
	// Events are in the order in which the engine recorded them. If there are too many, the first and the newest ones
	// are kept, and Skipped is the number of the others.
	Events  []Event
	Skipped int
}

const (
	maxEvents  = 16 // maximum number of events per episode
	keepEvents = 5  // number of first events that are always kept
	maxEnded   = 256
)

type history struct {
	events  []Event
	skipped int
	onHold  bool // whether the newest EventOnHold has no EventResumed after it
}

func (h *history) addEvent(ev Event) {
	if holds := ev.Kind == EventOnHold; holds || ev.Kind == EventResumed {
		if h.onHold == holds {
			return
		}
		h.onHold = holds
	}
	if len(h.events) < maxEvents {
		h.events = append(h.events, ev)
		return
	}
	h.skipped++
	copy(h.events[keepEvents:], h.events[keepEvents+1:])
	h.events[maxEvents-1] = ev
}

// noteOpened records how an episode began, with the lines of its window and the line that made the condition true.
func (ep *episode) noteOpened(trig *window.Trigger, now int64) {
	r, n := ep.rs.rule, len(trig.Sequence)
	count := func(t int64, i, total int) {
		ep.history.addEvent(Event{Time: instant.ToTime(t), Kind: EventCounted, N: i, Total: total})
	}
	switch w := ep.window; {
	case n > 0:
		for i, h := range trig.Sequence[:n-1] {
			count(h.T, i+1, n)
		}
	case w != nil && r.Count > 1:
		// The window may hold more lines than the condition needed. The oldest ones made it true.
		if ts := w.TriggerLines(r, trig); len(ts) >= r.Count {
			count(ts[0], 1, r.Count)
			if r.Count > 2 {
				count(ts[r.Count-2], r.Count-1, r.Count)
			}
		}
	}
	ep.history.addEvent(Event{Time: instant.ToTime(trig.T), Kind: EventOpened, Log: ep.logs.First})
	ep.noteOnHold(now)
}

// noteOnHold records that conclusions about the episode went on hold or resumed.
func (ep *episode) noteOnHold(now int64) {
	a := ep.awaits()
	if onHold, waitsFor := a.onHoldFor(ep.values, ep.who, ep.partialIdentity, a.WasOnHold, now); onHold {
		ep.history.addEvent(Event{Time: instant.ToTime(now), Kind: EventOnHold, Sources: waitsFor})
	} else if ep.history.onHold {
		ep.history.addEvent(Event{Time: instant.ToTime(now), Kind: EventResumed})
	}
}

// noteRestored records the events that the saved fields of an episode show, because its history is not saved.
func (ep *episode) noteRestored(now int64) {
	if ep.rs.armed != nil {
		ep.history.addEvent(Event{Time: instant.ToTime(ep.newest), Kind: EventLast})
	}
	ep.history.addEvent(Event{Time: instant.ToTime(ep.starts - ep.clockShift), Kind: EventOpened})
	if ep.firedAt != 0 {
		ep.history.addEvent(Event{Time: instant.ToTime(ep.firedAt), Kind: EventFired})
	}
	ep.history.addEvent(Event{Time: instant.ToTime(now), Kind: EventRestored})
}

func (e *Engine) noteOnHold(now int64) {
	for g := range e.sources.TurnedGroups(now) { // a new group may have episodes that came from other groups
		for _, d := range g.ArmedDeadlines() {
			if ep, ok := d.Subject.(*episode); ok {
				ep.noteOnHold(now)
			}
		}
	}
	if !e.lagging {
		return
	}
	e.lagging = e.sources.HasLagging()
	for _, rs := range e.order {
		for _, ep := range rs.open {
			ep.noteOnHold(now)
		}
	}
}

// pastEpisode is an episode that ended recently, with the line that ended it. It may never have fired.
type pastEpisode struct {
	*transition
	history
	line window.Text
}

// Timeline returns the history of the newest episode of an alert. The episode is open or ended in the last 15 minutes,
// and may never have fired. Timeline returns false if there is none.
func (e *Engine) Timeline(fingerprint Fingerprint, now time.Time) (Timeline, bool) {
	at := instant.FromTime(now)
	p := e.findNewest(fingerprint, at)
	if p.transition == nil {
		return Timeline{}, false
	}
	x := e.renderAll([]*transition{p.transition}, at)
	if len(x) == 0 {
		return Timeline{}, false
	}
	t := Timeline{Episode: x[0], Events: briefHistory(x[0]), Skipped: p.skipped}
	if p.events == nil {
		return t, true
	}
	t.Events = p.events
	began := EventOpened
	if x[0].StoppedLines() {
		began = EventLast
	}
	for i, ev := range slices.Backward(t.Events) {
		if ev.Kind == began { // the last event of this kind, because the episode may have begun again
			t.Events[i].Line = x[0].FirstLine
			break
		}
	}
	if last := &t.Events[len(t.Events)-1]; last.Kind == EventEnded {
		last.Line = p.line.Shown(e.renderer.RedactLine)
	}
	return t, true
}

// findNewest finds the newest episode of an alert, with its history if the history is known.
func (e *Engine) findNewest(fingerprint Fingerprint, now int64) (out pastEpisode) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, rs := range e.order {
		for _, ep := range rs.open {
			if ep.print == fingerprint {
				out = pastEpisode{transition: e.safeTransition(ep, now), history: ep.history}
				out.events = slices.Clone(out.events)
				return out
			}
		}
		if rs.overflow.active && rs.overflow.print == fingerprint {
			return pastEpisode{transition: rs.overflow.transition(now)}
		}
	}
	for _, p := range slices.Backward(e.journal.ended) {
		if p.Fingerprint == fingerprint {
			out = *p
			out.events = slices.Clone(out.events)
			break
		}
	}
	// Overflows, and episodes that ended before a restart, have no history.
	for _, t := range slices.Backward(e.journal.closed) {
		if t.Fingerprint == fingerprint && (out.transition == nil || t.ConcludedAt.After(out.ConcludedAt)) {
			return pastEpisode{transition: t}
		}
	}
	return out
}

func briefHistory(x Episode) []Event {
	out := []Event{{Time: x.StartsAt, Kind: EventOpened, Line: x.FirstLine}}
	if x.StoppedLines() {
		out = []Event{{Time: x.ActiveAt(), Kind: EventLast, Line: x.FirstLine}, {Time: x.StartsAt, Kind: EventOpened}}
	}
	if !x.FiredAt.IsZero() {
		out = append(out, Event{Time: x.FiredAt, Kind: EventFired})
	}
	if !x.EndsAt.IsZero() {
		out = append(out, Event{Time: x.EndsAt, Kind: EventEnded, Reason: x.Reason})
	}
	return out
}
