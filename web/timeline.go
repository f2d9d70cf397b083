package web

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"crowsnest/episodes"
)

// The kinds of events that are not of the engine.
const (
	kindNewest = "newest" // the newest matching line
	kindTold   = "told"   // an endpoint was told
	kindHeld   = "held"   // now
	kindNext   = "next"   // what will be concluded
)

// Event is one point of an episode's timeline.
type Event struct {
	At   *time.Time `json:"at,omitempty"` // absent: it is so now
	Kind string     `json:"kind"`
	Text string     `json:"text"`           // for people
	Line string     `json:"line,omitempty"` // of the log, redacted
	// Sources are those that prove nothing, of "held".
	Sources []string `json:"sources,omitempty"`
	// Delivery is the answer, of "told".
	Delivery *Delivery `json:"delivery,omitempty"`
}

// Timeline is what happened to one episode, in order of time.
type Timeline struct {
	Episode Episode `json:"episode"`
	Events  []Event `json:"events"`
	Skipped int     `json:"skipped,omitempty"` // events in the middle that are not kept
}

func (s *Server) apiTimeline(w http.ResponseWriter, r *http.Request) {
	e, tl, ok := s.timeline(r.PathValue("fingerprint"))
	if !ok {
		writeError(w, http.StatusNotFound, errNotFound, "no open or lately ended episode has this fingerprint")
		return
	}
	tl.Episode = toEpisode(e)
	writeData(w, tl)
}

// timeline tells what happened to an episode. One that never fired has a timeline
// and is not listed.
func (s *Server) timeline(fingerprint string) (episodes.Episode, Timeline, bool) {
	listed, ok := s.find(fingerprint)
	of := listed.Fingerprint
	if !ok {
		n, err := strconv.ParseUint(fingerprint, 16, 64)
		if err != nil || len(fingerprint) != 16 {
			return episodes.Episode{}, Timeline{}, false
		}
		of = episodes.Fingerprint(n)
	}
	known, has := s.view.Timeline(of)
	switch {
	case has:
	case ok: // one of the program's own alerts
		known.Episode, known.Events = listed, ownEvents(listed)
	default:
		return episodes.Episode{}, Timeline{}, false
	}
	e := known.Episode
	tl := Timeline{Skipped: known.Skipped, Events: []Event{}}
	for _, ev := range known.Events {
		tl.Events = append(tl.Events, Event{At: stated(ev.At), Kind: string(ev.Kind), Text: eventText(ev), Line: ev.Line, Sources: ev.Sources})
	}
	if open(e) && e.LastSeen.After(e.StartsAt) {
		tl.Events = append(tl.Events, Event{At: stated(e.LastSeen), Kind: kindNewest, Text: fmt.Sprintf("newest matching line, %s so far", groupDigits(e.Count)), Line: e.Line})
	}
	for _, d := range s.view.Deliveries(of) {
		if d.Last.Before(e.StartsAt) || !e.FiredAt.IsZero() && d.Last.Before(e.FiredAt) {
			continue // that was an episode before
		}
		tl.Events = append(tl.Events, Event{At: stated(d.Time), Kind: kindTold, Text: toldText(d), Delivery: &d})
	}
	slices.SortStableFunc(tl.Events, func(a, b Event) int { return a.At.Compare(*b.At) })
	tl.Events = append(tl.Events, present(e, known.HeldBy)...)
	return e, tl, true
}

// present is what holds now, and what comes next.
func present(e episodes.Episode, heldBy []string) []Event {
	switch {
	case !open(e):
		return nil
	case e.Held:
		return []Event{{Kind: kindHeld, Text: heldText(heldBy), Sources: heldBy}}
	case e.Deadline.IsZero():
		return nil
	}
	return []Event{{At: stated(e.Deadline), Kind: kindNext, Text: "next conclusion without a line: " + deadlineText(e)}}
}

// ownEvents are those of the program's own alerts.
func ownEvents(e episodes.Episode) []episodes.Event {
	out := []episodes.Event{{At: e.StartsAt, Kind: episodes.EventOpened}}
	if !e.EndsAt.IsZero() {
		out = append(out, episodes.Event{At: e.EndsAt, Kind: episodes.EventEnded, Reason: e.Reason})
	}
	return out
}

func eventText(ev episodes.Event) string {
	switch ev.Kind {
	case episodes.EventCounted:
		return fmt.Sprintf("%d of %d counted", ev.N, ev.Of)
	case episodes.EventOpened:
		return "the condition became true"
	case episodes.EventFired:
		return "concluded: firing"
	case episodes.EventHeld:
		return heldText(ev.Sources)
	case episodes.EventResumed:
		return "not held any more: every source proves how far it has read"
	case episodes.EventRenamed:
		return "a reload changed its labels"
	case episodes.EventRestored:
		return "read back after a restart; what was between is not kept"
	case episodes.EventEnded:
		return "ended: " + cmp.Or(reasonText(ev.Reason), "it is over")
	}
	return string(ev.Kind)
}

// heldText says why nothing is concluded from silence.
func heldText(sources []string) string {
	switch len(sources) {
	case 0:
		return "held: nobody looks at the lines of this rule, so its silence means nothing"
	case 1:
		return "held: source " + sources[0] + " proves nothing, so silence means nothing"
	}
	return "held: sources " + strings.Join(sources, ", ") + " prove nothing, so silence means nothing"
}

// toldText says what a receiver was told and what it answered.
func toldText(d Delivery) string {
	text := fmt.Sprintf("told %s %s: %s, ", d.Sink, d.Endpoint, map[bool]string{true: "resolved", false: "firing"}[d.Resolved])
	if d.Error == "" {
		text += "accepted"
		if d.Code != 0 {
			text += fmt.Sprintf(" (%d)", d.Code)
		}
	} else {
		text += "not accepted: " + d.Error
	}
	if d.Times > 1 {
		text += fmt.Sprintf("; %d times until %s", d.Times, when(d.Last))
	}
	return text
}

// newestAnswers leaves the newest answer of each endpoint.
func newestAnswers(all []Delivery) []Delivery {
	at := map[[2]string]int{}
	out := []Delivery{}
	for _, d := range all {
		if d.Last.After(d.Time) {
			d.Time = d.Last
		}
		key := [2]string{d.Sink, d.Endpoint}
		if i, ok := at[key]; ok {
			out[i] = d
			continue
		}
		at[key] = len(out)
		out = append(out, d)
	}
	return out
}
