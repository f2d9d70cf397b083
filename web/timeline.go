package web

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/text"
	"crowsnest/internal/times"
	"crowsnest/redact"
)

// Kinds of events that the server adds to those of the engine.
const (
	kindNewest   = "newest" // newest line that the rule matched
	kindNotified = "told"   // a receiver was notified
	kindOnHold   = "held"   // current state, if conclusions are on hold
	kindNext     = "next"   // next conclusion that is expected
)

// Event is one event in the timeline of an episode.
type Event struct {
	Time *time.Time  `json:"at,omitempty"` // time of the event; absent for the current state
	Kind string      `json:"kind"`
	Text string      `json:"text"`           // text for people
	Line redact.Text `json:"line,omitempty"` // log line, redacted
	Log  string      `json:"log,omitempty"`  // name of the line's log, for people
	// Sources are the sources that make no progress. It is set for kind "held".
	Sources []string `json:"sources,omitempty"`
	// Delivery is the answer of the receiver. It is set for kind "told".
	Delivery *Delivery `json:"delivery,omitempty"`
}

// Timeline holds the events of one episode, ordered by time.
type Timeline struct {
	Episode Episode `json:"episode"`
	Events  []Event `json:"events"`
	Skipped int     `json:"skipped,omitempty"` // number of events in the middle that are not kept
	// ExternalLabels are the labels of the episode that receivers add and that its rule
	// therefore does not have.
	ExternalLabels map[string]string `json:"externalLabels,omitempty"`
}

func (s *Server) apiTimeline(r *http.Request) (any, *apiError) {
	e, tl, ok := s.episodeTimeline(r.PathValue("fingerprint"))
	if !ok {
		return nil, notFound("no episode that is open or remembered has this fingerprint")
	}
	tl.Episode = s.newEpisode(e, symptomsByCause(s.view.Episodes()))
	tl.ExternalLabels = s.addedLabels(e.Fingerprint, e.Labels)
	return tl, nil
}

// episodeTimeline returns an episode with its events, even if it never fired.
func (s *Server) episodeTimeline(fingerprint string) (episodes.Episode, Timeline, bool) {
	listed, ok := s.findEpisode(fingerprint)
	of := listed.Fingerprint
	if !ok {
		if of, ok = s.resolveFingerprint(fingerprint); !ok {
			return episodes.Episode{}, Timeline{}, false
		}
		ok = false
	}
	known, has := s.view.Timeline(of)
	switch {
	case has:
	case ok: // otherwise an alert of the program about itself, or an episode of the history
		known.Episode, known.Events = listed, ownEvents(listed)
	default:
		return episodes.Episode{}, Timeline{}, false
	}
	e := known.Episode
	tl := Timeline{Skipped: known.Skipped, Events: []Event{}}
	for _, ev := range known.Events {
		tl.Events = append(tl.Events, Event{Time: optionalTime(ev.Time), Kind: string(ev.Kind), Text: eventText(ev), Line: ev.Line, Log: ev.Log, Sources: ev.Sources})
	}
	if isEpisodeOpen(e) && e.LastSeen.After(e.StartsAt) {
		tl.Events = append(tl.Events, Event{Time: optionalTime(e.LastSeen), Kind: kindNewest, Text: fmt.Sprintf("newest matching line; %s lines have matched", text.GroupThousands(e.Count)), Line: e.Line})
	}
	for _, d := range s.view.Deliveries(of) {
		if d.Last.Before(e.StartsAt) || !e.FiredAt.IsZero() && d.Last.Before(e.FiredAt) {
			continue // the event belongs to an earlier episode
		}
		tl.Events = append(tl.Events, Event{Time: optionalTime(d.Time), Kind: kindNotified, Text: deliveryText(d), Delivery: &d})
	}
	slices.SortStableFunc(tl.Events, func(a, b Event) int { return a.Time.Compare(*b.Time) })
	tl.Events = append(tl.Events, presentEvents(e)...)
	return e, tl, true
}

// presentEvents returns events for the current state and for the next expected conclusion.
func presentEvents(e episodes.Episode) []Event {
	switch {
	case !isEpisodeOpen(e):
		return nil
	case e.OnHold:
		return []Event{{Kind: kindOnHold, Text: "on hold: " + waitText(e.AwaitedParts), Sources: e.WaitsFor}}
	case e.Deadline.IsZero():
		return nil
	}
	text := "resolves if no further line matches"
	switch {
	case e.State == episodes.StatePending:
		text = "fires if it has not recovered"
	case e.StoppedLines():
		text = "expires if no line matches until then: whether the failure is over is not known then"
	}
	return []Event{{Time: optionalTime(e.Deadline), Kind: kindNext, Text: text}}
}

// ownEvents constructs events for an episode for which the engine keeps none, which is an alert of the daemon about
// itself or an episode of the history.
func ownEvents(e episodes.Episode) []episodes.Event {
	out := []episodes.Event{{Time: e.StartsAt, Kind: episodes.EventOpened}}
	if !e.FiredAt.IsZero() {
		out = append(out, episodes.Event{Time: e.FiredAt, Kind: episodes.EventFired})
	}
	if !e.EndsAt.IsZero() {
		out = append(out, episodes.Event{Time: e.EndsAt, Kind: episodes.EventEnded, Reason: e.Reason})
	}
	return out
}

func eventText(ev episodes.Event) string {
	switch ev.Kind {
	case episodes.EventCounted:
		return fmt.Sprintf("%d of %d counted", ev.N, ev.Total)
	case episodes.EventLast:
		return "last matching line"
	case episodes.EventOpened:
		return "the condition became true" + inLog(ev)
	case episodes.EventFired:
		return "firing"
	case episodes.EventOnHold:
		return onHoldText(ev.Sources)
	case episodes.EventResumed:
		return "no longer on hold: every source makes progress"
	case episodes.EventRenamed:
		return "labels changed by a reload"
	case episodes.EventRestored:
		return "restored after a restart; events in between were not kept"
	case episodes.EventEnded:
		return "ended: " + cmp.Or(ReasonText(ev.Reason), "the condition is no longer true") + inLog(ev)
	}
	return string(ev.Kind)
}

func inLog(ev episodes.Event) string {
	if ev.Log == "" {
		return ""
	}
	return " (log of " + ev.Log + ")"
}

// ReasonText describes for people why an episode ended. It returns "" for an open episode.
func ReasonText(r episodes.Reason) string {
	text := map[episodes.Reason]string{
		episodes.ReasonClear:      "a log line reports the recovery",
		episodes.ReasonQuiet:      "no matching line for keep_firing_for",
		episodes.ReasonExpired:    "no matching line for expire",
		episodes.ReasonMuted:      "planned work was announced",
		episodes.ReasonRemoved:    "its rule was removed or changed",
		episodes.ReasonIdentity:   "its labels changed; it continues under the new ones",
		episodes.ReasonPodDeleted: "its pod was deleted",
		episodes.ReasonDisplaced:  "evicted for a namespace with fewer alerts; whether the failure is over is unknown",
	}[r]
	return cmp.Or(text, string(r))
}

func waitText(waits []episodes.AwaitedPart) string {
	if len(waits) == 0 {
		return "the rule is quarantined, or agents have another version of it, which its page says"
	}
	var parts []string
	for _, w := range waits {
		parts = append(parts, w.String())
	}
	return strings.Join(parts, "; ")
}

// onHoldText describes why conclusions from the absence of lines were on hold.
func onHoldText(sources []string) string {
	switch len(sources) {
	case 0:
		return "on hold: no source reads lines that decide"
	case 1:
		return "on hold: no progress from source " + sources[0]
	}
	return "on hold: no progress from sources " + strings.Join(sources, ", ")
}

// deliveryText describes what was sent to a receiver and how the receiver answered.
func deliveryText(d Delivery) string {
	out := fmt.Sprintf("notified %s %s: %s, ", d.Sink, d.Endpoint, map[bool]string{true: "resolved", false: "firing"}[d.Resolved])
	if d.Error == "" {
		out += "accepted"
		if d.Code != 0 {
			out += fmt.Sprintf(" (%d)", d.Code)
		}
	} else {
		out += "not accepted: " + d.Error
	}
	if d.Times > 1 {
		out += fmt.Sprintf("; %s until %s", text.Plural(d.Times, "time"), formatTime(d.Last))
	}
	return out
}

// newestAnswers returns the newest answer of each receiver, with the time of the last equal answer.
func newestAnswers(all []Delivery) []Delivery {
	out := answersByReceiver(all)
	for i := range out {
		out[i].Time = times.Max(out[i].Time, out[i].Last)
	}
	return out
}

// answersByReceiver returns the newest answer of each receiver, by receiver. all must be ordered by time.
func answersByReceiver(all []Delivery) []Delivery {
	out := []Delivery{}
	for _, d := range all {
		same := func(o Delivery) bool { return o.Sink == d.Sink && o.Endpoint == d.Endpoint }
		if i := slices.IndexFunc(out, same); i >= 0 {
			out[i] = d
		} else {
			out = append(out, d)
		}
	}
	return out
}
