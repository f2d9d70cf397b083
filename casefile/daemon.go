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
	"crowsnest/sentinel"
	"crowsnest/web"
)

// maxTimelines bounds the failures beside the subject whose timelines are fetched.
const maxTimelines = 20

// Daemon is what a case of a running daemon is made from.
type Daemon struct {
	Address     string // address for people, without credentials
	Fingerprint string
	// Get returns the data of an endpoint of the API, such as "sources".
	Get     func(path string) ([]byte, error)
	Now     time.Time
	Version string // version of crowsnest
}

// FromAPI makes the case of one open or recently ended episode of a running daemon. What it
// cannot fetch beside the episode is a gap of the case.
func FromAPI(in Daemon) (*Case, error) {
	tl, err := get[web.Timeline](in, "episodes/"+in.Fingerprint+"/timeline")
	if err != nil {
		return nil, err
	}
	c := &Case{Format: Format, MadeAt: in.Now.UTC(), MadeBy: in.Version, Failures: []Failure{FailureOf(tl.Episode)}, Findings: []Finding{}, Unknown: []Unknown{}, Evidence: Evidence{
		Kind: kindDaemon, Names: []string{line(in.Address)}, Until: optional(in.Now), Sources: []Source{},
	}}
	c.Failures[0].Subject = true
	w := &watch{of: c, in: in}
	w.others(tl.Episode.Fingerprint)
	omitted := c.link()
	w.timelines(tl)
	w.state()
	if omitted > 0 {
		w.gap(fmt.Sprintf("This file leaves out %s.", count(int64(omitted), "failure")))
	}
	c.NotSeen = w.gaps
	if c.NotSeen == nil {
		c.NotSeen = []Gap{}
	}
	return c, nil
}

// Coverage is what a daemon reads, and what it cannot see.
type Coverage struct {
	Sources []Source
	// ReadUpTo is the time up to which every source was read; nil if none is known.
	ReadUpTo *time.Time
	Rules    int
	NotSeen  []Gap
}

// CoverageOf asks a daemon what it can see. What it cannot fetch is a gap.
func CoverageOf(in Daemon) Coverage {
	w := &watch{of: &Case{}, in: in}
	w.state()
	all, err := get[struct{ Episodes []web.Episode }](in, "episodes")
	if err != nil {
		w.failed("its alerts about itself", err)
	}
	w.own(all.Episodes, "")
	ev := w.of.Evidence
	return Coverage{Sources: ev.Sources, ReadUpTo: ReadUpTo(ev.Sources), Rules: ev.Rules, NotSeen: w.gaps}
}

// ReadUpTo returns the time up to which every source of a daemon was read; nil if none is known.
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

func get[T any](in Daemon, path string) (out T, err error) {
	data, err := in.Get(path)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return out, fmt.Errorf("the daemon's answer for %s is not understood: %w", path, err)
	}
	return out, nil
}

// watch collects what a daemon sees and does not see.
type watch struct {
	of   *Case
	in   Daemon
	gaps []Gap
}

func (w *watch) gap(text string, items ...string) { w.gaps = append(w.gaps, gap(text, items...)) }

// FailureOf returns the failure of an episode. Its texts are safe to show.
func FailureOf(e web.Episode) Failure {
	f := Failure{
		Fingerprint: e.Fingerprint, Alert: line(e.Alert), State: e.State, Ended: web.ReasonText(e.Reason), OnHold: e.Held,
		Severity: line(e.Labels["severity"]), Labels: labels(e.Labels), Since: e.StartsAt.UTC(), FiredAt: e.FiredAt,
		LastSeen: e.LastSeen.UTC(), EndsAt: e.EndsAt, Count: e.Count, FirstLine: e.First.Map(line), Line: e.Line.Map(line),
		Log: line(e.Annotations["origin"]),
	}
	if c := e.Cause; c != nil {
		f.Cause = &Cause{Alert: line(c.Alert), Fingerprint: c.Fingerprint, Since: c.StartsAt.UTC()}
	}
	for _, s := range e.WaitsFor {
		f.WaitsFor = append(f.WaitsFor, line(s))
	}
	f.annotate(e.Annotations)
	return f
}

// others adds the other episodes; the daemon's alerts about itself are gaps.
func (w *watch) others(subject string) {
	all, err := get[struct{ Episodes []web.Episode }](w.in, "episodes")
	if err != nil {
		w.failed("the other failures", err)
		return
	}
	for _, e := range all.Episodes {
		if e.Fingerprint != subject && e.Pack != "" {
			w.of.Failures = append(w.of.Failures, FailureOf(e))
		}
	}
	w.own(all.Episodes, subject)
}

// own notes the daemon's alerts about itself.
func (w *watch) own(all []web.Episode, subject string) {
	var own []string
	for _, e := range all {
		if e.Fingerprint != subject && e.Pack == "" && e.Alert != sentinel.AlertName && e.EndsAt == nil && e.Labels["severity"] != "none" {
			own = append(own, fmt.Sprintf("%s, since %s: %s", e.Alert, stamp(e.StartsAt), e.Annotations["summary"]))
		}
	}
	if len(own) > 0 {
		w.gap("crowsnest has alerts about itself that are open.", own...)
	}
}

// failed notes what could not be fetched.
func (w *watch) failed(what string, err error) {
	w.gap("The daemon did not answer about "+what+".", err.Error())
}

// timelines adds the events of the failures.
func (w *watch) timelines(subject web.Timeline) {
	c := w.of
	var missing []string
	for i := range c.Failures {
		f := &c.Failures[i]
		tl := subject
		if !f.Subject {
			err := errors.New("too many failures")
			if i < maxTimelines {
				tl, err = get[web.Timeline](w.in, "episodes/"+f.Fingerprint+"/timeline")
			}
			if err != nil {
				missing = append(missing, fmt.Sprintf("%d %s: %v", f.ID, f.Alert, err))
				tl = web.Timeline{Events: []web.Event{{At: &f.Since, Kind: string(episodes.EventOpened), Text: "the condition became true", Line: f.FirstLine}}}
			}
		}
		if tl.Skipped > 0 {
			w.gap(fmt.Sprintf("The daemon no longer has %s in the middle of the history of %s.", count(int64(tl.Skipped), "event"), f.Alert))
		}
		for _, ev := range tl.Events {
			c.Timeline = append(c.Timeline, entryOf(ev, *f))
		}
	}
	if len(missing) > 0 {
		w.gap("Histories that are not in this file.", missing...)
	}
	slices.SortStableFunc(c.Timeline, func(a, b Entry) int {
		if a.At == nil || b.At == nil { // the present state is last
			return map[bool]int{true: 1}[a.At == nil] - map[bool]int{true: 1}[b.At == nil]
		}
		return a.At.Compare(*b.At)
	})
}

func entryOf(ev web.Event, f Failure) Entry {
	e := Entry{At: ev.At, Kind: ev.Kind, Text: f.Alert + ": " + line(ev.Text), Line: ev.Line.Map(line), Log: line(ev.Log), Of: []int{f.ID}}
	if e.Kind == string(episodes.EventOpened) {
		e.Kind = kindBegan
	}
	if e.Log == "" && e.Line != "" {
		e.Log = f.Log
	}
	return e
}

// state notes the state of the sources and of the rules.
func (w *watch) state() {
	sources, err := get[struct{ Sources []web.Source }](w.in, "sources")
	if err != nil {
		w.failed("its sources", err)
	} else {
		w.sources(sources.Sources)
	}
	rules, err := get[struct{ Groups []web.Group }](w.in, "rules")
	if err != nil {
		w.failed("its rules", err)
		return
	}
	w.rules(rules.Groups)
}

func (w *watch) sources(all []web.Source) {
	if len(all) == 0 {
		w.gap("The daemon reads no source.")
	}
	ev := &w.of.Evidence
	for _, s := range all {
		ev.Lines += s.Lines
		ev.Sources = append(ev.Sources, Source{Name: line(s.Name), State: stateOf(s), Streams: len(s.Streams), Lines: s.Lines, Until: optional(s.Watermark)})
		if !s.Up {
			w.gap(fmt.Sprintf("Source %s cannot be read: %s. All of its lines were read up to %s.", line(s.Name), line(s.Error), upTo(s.Watermark)))
		} else if s.Idle != "" {
			w.gap(fmt.Sprintf("Source %s has nothing to read that a rule can match: %s", line(s.Name), line(s.Idle)))
		} else if s.Error != "" {
			w.gap(fmt.Sprintf("Source %s reports an error: %s", line(s.Name), line(s.Error)))
		}
		if len(s.Absent) > 0 {
			w.gap(fmt.Sprintf("Source %s is configured to read what does not exist.", line(s.Name)), s.Absent...)
		}
		if items := losses(s); len(items) > 0 {
			w.gap(fmt.Sprintf("Source %s lost lines since the daemon started.", line(s.Name)), items...)
		}
		var unread []string
		for _, u := range s.Unread {
			unread = append(unread, fmt.Sprintf("%s: %s, since %s", u.Path, u.Why, stamp(u.Since)))
		}
		if len(unread) > 0 {
			w.gap(fmt.Sprintf("Source %s does not read logs that exist.", line(s.Name)), unread...)
		}
		w.members(s)
	}
}

// members notes the members of a source that are down.
func (w *watch) members(s web.Source) {
	var down []string
	for _, m := range s.Members {
		if !m.Up {
			down = append(down, fmt.Sprintf("%s: %s; last contact %s, all lines read up to %s", m.Name, m.Error, stamp(m.Since), upTo(m.Watermark)))
		}
	}
	if len(down) > 0 {
		w.gap(fmt.Sprintf("Members of source %s that are down.", line(s.Name)), down...)
	}
}

func upTo(t time.Time) string {
	if t.IsZero() || t.Unix() <= 0 {
		return "no time"
	}
	return stamp(t)
}

func stateOf(s web.Source) string {
	switch {
	case !s.Up:
		return "down"
	case s.Idle != "":
		return "idle: " + line(s.Idle)
	}
	return "up"
}

func losses(s web.Source) []string {
	var out []string
	for _, reason := range slices.Sorted(maps.Keys(s.Losses)) {
		if n := s.Losses[reason]; n > 0 {
			out = append(out, fmt.Sprintf("%s: %s", reason, count(n, "time")))
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(s.Lost)) {
		if n := s.Lost[reason]; n > 0 {
			out = append(out, fmt.Sprintf("%s: %s", reason, count(n, "byte")))
		}
	}
	if s.Dropped > 0 {
		out = append(out, count(s.Dropped, "line")+" could not be evaluated")
	}
	return out
}

// rules notes the rules that see nothing.
func (w *watch) rules(groups []web.Group) {
	blind := map[string][]string{} // unread logs by reason
	for _, g := range groups {
		if g.Broken != "" {
			w.gap(fmt.Sprintf("Pack %s is refused; its last good version is in force if it has one.", line(g.Name)), g.Broken)
		}
		for _, r := range g.Rules {
			w.of.Evidence.Rules++
			if why := healthText(r); why != "" {
				blind[why] = append(blind[why], r.Name)
			}
		}
	}
	for _, why := range slices.Sorted(maps.Keys(blind)) {
		w.gap(why, blind[why]...)
	}
}

// healthText says why a rule would not see its failure; "" if it would.
func healthText(r web.Rule) string {
	switch r.Health {
	case "blind":
		return "Rules whose lines no source reads: these failures would not be seen."
	case "given_up":
		return "Rules that are no longer evaluated, because they used too much CPU or failed."
	case "inactive":
		return "Rules that this process does not evaluate."
	case "held":
		return strings.TrimSpace("Rules whose conclusions from silence are on hold. " + line(r.Waits))
	case "unseen":
		return "Rules that received no line yet from a source that delivers only lines that a rule may match."
	}
	return ""
}
