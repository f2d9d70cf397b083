package casefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/unknown/sentinel"
	"crowsnest/web"
)

// maxTimelines is the maximum number of failures, besides the subject, whose timelines are
// fetched.
const maxTimelines = 20

// Daemon is the running daemon that supplies the data of a case.
type Daemon struct {
	Address     string // address without credentials, to show to people
	Fingerprint string
	// Get returns the data of an endpoint of the API, such as "sources".
	Get     func(path string) ([]byte, error)
	Now     time.Time
	Version string // version of crowsnest
}

// FromAPI makes the case of one open or recently ended episode of a running daemon. If it
// cannot fetch other data, these become a gap of the case.
func FromAPI(in Daemon) (*Case, error) {
	tl, err := fetchData[web.Timeline](in, "episodes/"+in.Fingerprint+"/timeline")
	if err != nil {
		return nil, err
	}
	c := &Case{Format: Format, MadeAt: in.Now.UTC(), MadeBy: in.Version, Failures: []Failure{failureOf(tl.Episode)}, Findings: []Finding{}, Unknown: []Unknown{}, Evidence: Evidence{
		Kind: kindDaemon, Names: []string{safeLine(in.Address)}, Until: optionalTime(in.Now), Sources: []Source{},
	}}
	c.Failures[0].Subject = true
	w := &watch{of: c, in: in}
	w.addOthers(tl.Episode.Fingerprint)
	omitted := c.linkFailures()
	w.addTimelines(tl)
	w.noteState()
	if omitted > 0 {
		w.addGap(fmt.Sprintf("This file leaves out %s.", formatCount(int64(omitted), "failure")))
	}
	c.NotSeen = w.gaps
	if c.NotSeen == nil {
		c.NotSeen = []Gap{}
	}
	return c, nil
}

// Coverage requests from a daemon what it can see. It returns the time up to which every source
// was read, nil if it is not known, and what could not be seen or fetched.
func Coverage(in Daemon) (readUpTo *time.Time, notSeen []Gap) {
	w := &watch{of: &Case{}, in: in}
	w.noteState()
	all, err := fetchData[struct{ Episodes []web.Episode }](in, "episodes")
	if err != nil {
		w.noteFailed("its alerts about itself", err)
	}
	w.addOwnAlerts(all.Episodes, "")
	return ReadUpTo(w.of.Evidence.Sources), w.gaps
}

// ReadUpTo returns the time up to which every source of a daemon was read; nil if it is not
// known.
func ReadUpTo(all []Source) (upTo *time.Time) {
	for _, s := range all {
		if s.Until == nil || s.Until.Unix() <= 0 {
			return nil
		}
		if upTo == nil || s.Until.Before(*upTo) {
			upTo = s.Until
		}
	}
	return upTo
}

func fetchData[T any](in Daemon, path string) (out T, err error) {
	data, err := in.Get(path)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return out, fmt.Errorf("the daemon's answer for %s is not understood: %w", path, err)
	}
	return out, nil
}

// watch collects what a daemon can and cannot see.
type watch struct {
	of   *Case
	in   Daemon
	gaps []Gap
}

func (w *watch) addGap(text string, items ...string) { w.gaps = append(w.gaps, newGap(text, items...)) }

// failureOf returns the failure of an episode. Its texts contain no control characters.
func failureOf(e web.Episode) Failure {
	f := Failure{
		Fingerprint: e.Fingerprint, Alert: safeLine(e.Alert), State: e.State, Ended: web.ReasonText(e.Reason), OnHold: e.Held,
		Severity: safeLine(e.Labels["severity"]), Labels: safeLabels(e.Labels), Since: e.StartsAt.UTC(), FiredAt: e.FiredAt,
		LastSeen: e.LastSeen.UTC(), EndsAt: e.EndsAt, Count: e.Count, FirstLine: e.First.Map(safeLine), Line: e.Line.Map(safeLine),
		Log: safeLine(e.Annotations["origin"]),
	}
	if c := e.Cause; c != nil {
		f.Cause = &Cause{Alert: safeLine(c.Alert), Fingerprint: c.Fingerprint, Since: c.StartsAt.UTC()}
	}
	for _, s := range e.WaitsFor {
		f.WaitsFor = append(f.WaitsFor, safeLine(s))
	}
	f.setTexts(e.Annotations)
	return f
}

// addOthers adds the other episodes as failures. The daemon's alerts about itself become gaps.
func (w *watch) addOthers(subject string) {
	all, err := fetchData[struct{ Episodes []web.Episode }](w.in, "episodes")
	if err != nil {
		w.noteFailed("the other failures", err)
		return
	}
	for _, e := range all.Episodes {
		if e.Fingerprint != subject && e.Pack != "" {
			w.of.Failures = append(w.of.Failures, failureOf(e))
		}
	}
	w.addOwnAlerts(all.Episodes, subject)
}

// addOwnAlerts adds the daemon's alerts about itself as gaps.
func (w *watch) addOwnAlerts(all []web.Episode, subject string) {
	var own []string
	for _, e := range all {
		if e.Fingerprint != subject && e.Pack == "" && e.Alert != sentinel.AlertName && e.EndsAt == nil && e.Labels["severity"] != "none" {
			own = append(own, fmt.Sprintf("%s, since %s: %s", e.Alert, formatTime(e.StartsAt), e.Annotations["summary"]))
		}
	}
	if len(own) > 0 {
		w.addGap("crowsnest has alerts about itself that are open.", own...)
	}
}

// noteFailed adds a gap for data that could not be fetched.
func (w *watch) noteFailed(name string, err error) {
	w.addGap("The daemon did not answer about "+name+".", err.Error())
}

// addTimelines adds the events of the failures to the timeline.
func (w *watch) addTimelines(subject web.Timeline) {
	c := w.of
	var missing []string
	for i := range c.Failures {
		f := &c.Failures[i]
		tl := subject
		if !f.Subject {
			err := errors.New("too many failures")
			if i < maxTimelines {
				tl, err = fetchData[web.Timeline](w.in, "episodes/"+f.Fingerprint+"/timeline")
			}
			if err != nil {
				missing = append(missing, fmt.Sprintf("%d %s: %v", f.ID, f.Alert, err))
				tl = web.Timeline{Events: []web.Event{{At: &f.Since, Kind: string(episodes.EventOpened), Text: "the condition became true", Line: f.FirstLine}}}
			}
		}
		if tl.Skipped > 0 {
			w.addGap(fmt.Sprintf("The daemon no longer has %s in the middle of the history of %s.", formatCount(int64(tl.Skipped), "event"), f.Alert))
		}
		for _, ev := range tl.Events {
			c.Timeline = append(c.Timeline, newEntry(ev, *f))
		}
	}
	if len(missing) > 0 {
		w.addGap("Histories that are not in this file.", missing...)
	}
	slices.SortStableFunc(c.Timeline, func(a, b Entry) int {
		if a.At == nil || b.At == nil { // an entry without time is the current state, which is last
			return map[bool]int{true: 1}[a.At == nil] - map[bool]int{true: 1}[b.At == nil]
		}
		return a.At.Compare(*b.At)
	})
}

func newEntry(ev web.Event, f Failure) Entry {
	e := Entry{At: ev.At, Kind: ev.Kind, Text: f.Alert + ": " + safeLine(ev.Text), Line: ev.Line.Map(safeLine), Log: safeLine(ev.Log), Of: []int{f.ID}}
	if e.Kind == string(episodes.EventOpened) {
		e.Kind = kindBegan
	}
	if e.Log == "" && e.Line != "" {
		e.Log = f.Log
	}
	return e
}

// noteState adds the sources, and gaps for problems of the sources and of the rules.
func (w *watch) noteState() {
	sources, err := fetchData[struct{ Sources []web.Source }](w.in, "sources")
	if err != nil {
		w.noteFailed("its sources", err)
	} else {
		w.noteSources(sources.Sources)
	}
	rules, err := fetchData[struct{ Groups []web.Group }](w.in, "rules")
	if err != nil {
		w.noteFailed("its rules", err)
		return
	}
	w.noteBlindRules(rules.Groups)
}

func (w *watch) noteSources(all []web.Source) {
	if len(all) == 0 {
		w.addGap("The daemon reads no source.")
	}
	ev := &w.of.Evidence
	for _, s := range all {
		ev.Lines += s.Lines
		ev.Sources = append(ev.Sources, Source{Name: safeLine(s.Name), State: sourceState(s), Streams: len(s.Streams), Lines: s.Lines, Until: optionalTime(s.Watermark)})
		if !s.Up {
			w.addGap(fmt.Sprintf("Source %s cannot be read: %s. All of its lines were read up to %s.", safeLine(s.Name), safeLine(s.Error), upTo(s.Watermark)))
		} else if s.Idle != "" {
			w.addGap(fmt.Sprintf("Source %s has nothing to read that a rule can match: %s", safeLine(s.Name), safeLine(s.Idle)))
		} else if s.Error != "" {
			w.addGap(fmt.Sprintf("Source %s reports an error: %s", safeLine(s.Name), safeLine(s.Error)))
		}
		if len(s.Absent) > 0 {
			w.addGap(fmt.Sprintf("Source %s is configured to read things that do not exist.", safeLine(s.Name)), s.Absent...)
		}
		if items := describeLosses(s); len(items) > 0 {
			w.addGap(fmt.Sprintf("Source %s lost lines since the daemon started.", safeLine(s.Name)), items...)
		}
		var unread []string
		for _, u := range s.Unread {
			unread = append(unread, fmt.Sprintf("%s: %s, since %s", u.Path, u.Why, formatTime(u.Since)))
		}
		if len(unread) > 0 {
			w.addGap(fmt.Sprintf("Source %s does not read logs that exist.", safeLine(s.Name)), unread...)
		}
		w.noteMembers(s)
	}
}

// noteMembers adds a gap for the members of a source that are down.
func (w *watch) noteMembers(s web.Source) {
	var down []string
	for _, m := range s.Members {
		if !m.Up {
			down = append(down, fmt.Sprintf("%s: %s; last contact %s, all lines read up to %s", m.Name, m.Error, formatTime(m.Since), upTo(m.Watermark)))
		}
	}
	if len(down) > 0 {
		w.addGap(fmt.Sprintf("Members of source %s that are down.", safeLine(s.Name)), down...)
	}
}

func upTo(t time.Time) string {
	if t.IsZero() || t.Unix() <= 0 {
		return "no time"
	}
	return formatTime(t)
}

func sourceState(s web.Source) string {
	switch {
	case !s.Up:
		return "down"
	case s.Idle != "":
		return "idle: " + safeLine(s.Idle)
	}
	return "up"
}

func describeLosses(s web.Source) []string {
	var out []string
	for _, reason := range slices.Sorted(maps.Keys(s.Losses)) {
		if n := s.Losses[reason]; n > 0 {
			out = append(out, fmt.Sprintf("%s: %s", reason, formatCount(n, "time")))
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(s.Lost)) {
		if n := s.Lost[reason]; n > 0 {
			out = append(out, fmt.Sprintf("%s: %s", reason, formatCount(n, "byte")))
		}
	}
	if s.Dropped > 0 {
		out = append(out, formatCount(s.Dropped, "line")+" could not be evaluated")
	}
	return out
}

// noteBlindRules adds gaps for the rules whose logs are not read.
func (w *watch) noteBlindRules(groups []web.Group) {
	blind := map[string][]string{} // names of rules by the reason why their logs are not read
	for _, g := range groups {
		if g.Broken != "" {
			w.addGap(fmt.Sprintf("Pack %s is refused. Its last valid version stays active, if there is one.", safeLine(g.Name)), g.Broken)
		}
		for _, r := range g.Rules {
			w.of.Evidence.Rules++
			if why := healthText(r); why != "" {
				blind[why] = append(blind[why], r.Name)
			}
		}
	}
	for _, why := range slices.Sorted(maps.Keys(blind)) {
		w.addGap(why, blind[why]...)
	}
}

// healthText returns why a rule would not detect its failure; "" if it would.
func healthText(r web.Rule) string {
	switch r.Health {
	case "blind":
		return "Rules whose lines no source reads: these failures would not be seen."
	case "given_up":
		return "Rules that are no longer evaluated, because they used too much CPU or failed."
	case "inactive":
		return "Rules that this process does not evaluate."
	case "held":
		return strings.TrimSpace("Rules whose conclusions from silence are on hold. " + safeLine(r.Waits))
	case "unseen":
		return "Rules that received no line yet from a source that delivers only lines that a rule may match."
	}
	return ""
}
