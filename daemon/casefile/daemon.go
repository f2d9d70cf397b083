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

// maxTimelines is the maximum number of failures whose timelines are fetched, not counting the subject.
const maxTimelines = 20

// Daemon is the running daemon that supplies the data of a case.
type Daemon struct {
	Address     string // address without credentials, in the form for people
	Fingerprint string
	// Get returns the data of an endpoint of the API, such as "sources".
	Get     func(path string) ([]byte, error)
	Now     time.Time
	Version string // version of crowsnest
}

// FromAPI makes the case file of one open or recently ended episode of a running daemon. If it cannot fetch other data,
// the case file states which data are missing.
func FromAPI(in Daemon) (*Case, error) {
	tl, err := fetchData[web.Timeline](in, "episodes/"+in.Fingerprint+"/timeline")
	if err != nil {
		return nil, err
	}
	c := &Case{
		Format: Format, MadeAt: in.Now.UTC(), MadeBy: in.Version,
		Failures: []Failure{failureOf(tl.Episode)}, Findings: []Finding{}, Unknown: []Unknown{}, NotSeen: []Gap{},
		Evidence: Evidence{
			Kind: kindDaemon, Names: []string{safeLine(in.Address)}, Until: optionalTime(in.Now), Sources: []Source{},
		},
	}
	c.Failures[0].Subject = true
	w := &coverageBuilder{Case: c, in: in}
	for _, e := range w.fetchEpisodes("the other failures", tl.Episode.Fingerprint) {
		if e.Fingerprint != tl.Episode.Fingerprint && e.Pack != "" {
			c.Failures = append(c.Failures, failureOf(e))
		}
	}
	omitted := c.linkFailures()
	w.addTimelines(tl)
	w.noteState()
	c.addCount("This file leaves out %s.", int64(omitted), "failure")
	return c, nil
}

// Coverage asks a daemon which data it can see. readUpTo is the time up to which every source was read, or nil if the
// time is not known. notSeen contains the data that could not be seen or fetched.
func Coverage(in Daemon) (readUpTo *time.Time, notSeen []Gap) {
	w := &coverageBuilder{Case: &Case{}, in: in}
	w.noteState()
	w.fetchEpisodes("its alerts about itself", "")
	return ReadUpTo(w.Evidence.Sources), w.NotSeen
}

// ReadUpTo returns the time up to which every source was read. It returns nil if the time is not known.
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

// coverageBuilder adds the data that a daemon can see, and the data that it cannot see, to a case.
type coverageBuilder struct {
	*Case
	in Daemon
}

func (w *coverageBuilder) noteFailed(name string, err error) {
	w.addGap("The daemon did not answer about "+name+".", err.Error())
}

// fetchEpisodes returns the episodes of the daemon. The alerts of the daemon about itself are returned as gaps instead,
// unless one is the subject. name describes the missing data if the daemon does not respond.
func (w *coverageBuilder) fetchEpisodes(name, subject string) []web.Episode {
	all, err := fetchData[web.Episodes](w.in, "episodes")
	if err != nil {
		w.noteFailed(name, err)
	}
	var own []string
	for _, e := range all.Episodes {
		if e.Fingerprint != subject && e.Pack == "" && e.Alert != sentinel.AlertName && e.EndsAt == nil && e.Labels["severity"] != "none" {
			own = append(own, fmt.Sprintf("%s, since %s: %s", e.Alert, formatTime(e.StartsAt), e.Annotations["summary"]))
		}
	}
	w.addList("crowsnest has alerts about itself that are open.", own)
	return all.Episodes
}

// failureOf returns the failure of an episode. Its texts contain no control characters.
func failureOf(e web.Episode) Failure {
	f := Failure{
		Fingerprint: e.Fingerprint, Alert: safeLine(e.Alert), State: e.State, Ended: web.ReasonText(e.Reason), OnHold: e.Held,
		Severity: safeLine(e.Labels["severity"]), Labels: map[string]string{}, Since: e.StartsAt.UTC(), FiredAt: e.FiredAt,
		LastSeen: e.LastSeen.UTC(), EndsAt: e.EndsAt, Count: e.Count, FirstLine: e.First.Map(safeLine), Line: e.Line.Map(safeLine),
		Log: safeLine(e.Annotations["origin"]),
	}
	for name, value := range e.Labels {
		f.Labels[name] = safeLine(value)
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

func (w *coverageBuilder) addTimelines(subject web.Timeline) {
	var missing []string
	for i := range w.Failures {
		f := &w.Failures[i]
		tl := subject
		if !f.Subject {
			err := errors.New("too many failures")
			if i < maxTimelines {
				tl, err = fetchData[web.Timeline](w.in, "episodes/"+f.Fingerprint+"/timeline")
			}
			if err != nil {
				missing = append(missing, fmt.Sprintf("%d %s: %v", f.ID, f.Alert, err))
				tl = web.Timeline{Events: []web.Event{{Time: &f.Since, Kind: string(episodes.EventOpened), Text: "the condition became true", Line: f.FirstLine}}}
			}
		}
		if tl.Skipped > 0 {
			w.addGap(fmt.Sprintf("The timeline of %s is incomplete: the daemon dropped %s between the oldest and the newest ones.", f.Alert, formatCount(int64(tl.Skipped), "event")))
		}
		for _, ev := range tl.Events {
			e := Entry{Time: ev.Time, Kind: ev.Kind, Text: f.Alert + ": " + safeLine(ev.Text), Line: ev.Line.Map(safeLine), Log: safeLine(ev.Log), FailureIDs: []int{f.ID}}
			if e.Kind == string(episodes.EventOpened) {
				e.Kind = kindBegan
			}
			if e.Log == "" && e.Line != "" {
				e.Log = f.Log
			}
			w.Timeline = append(w.Timeline, e)
		}
	}
	w.addList("Histories that are not in this file.", missing)
	slices.SortStableFunc(w.Timeline, func(a, b Entry) int {
		if a.Time == nil || b.Time == nil { // an entry without time is the current state, which is last
			return map[bool]int{true: 1}[a.Time == nil] - map[bool]int{true: 1}[b.Time == nil]
		}
		return a.Time.Compare(*b.Time)
	})
}

func (w *coverageBuilder) noteState() {
	sources, err := fetchData[web.SourceList](w.in, "sources")
	switch {
	case err != nil:
		w.noteFailed("its sources", err)
	case len(sources.Sources) == 0:
		w.addGap("The daemon reads no source.")
	}
	for i := range sources.Sources {
		w.noteSource(&sources.Sources[i])
	}
	rules, err := fetchData[web.Groups](w.in, "rules")
	if err != nil {
		w.noteFailed("its rules", err)
	}
	w.noteBlindRules(rules.Groups)
}

func (w *coverageBuilder) noteSource(s *web.Source) {
	name, state := "Source "+safeLine(s.Name), "up"
	switch {
	case !s.Up:
		state = "down"
		w.addGap(fmt.Sprintf("%s cannot be read: %s. All of its lines were read up to %s.", name, safeLine(s.Error), upTo(s.Watermark)))
	case s.Idle != "":
		state = "idle: " + safeLine(s.Idle)
		w.addGap(name + " has nothing to read that a rule can match: " + safeLine(s.Idle))
	case s.Error != "":
		w.addGap(name + " reports an error: " + safeLine(s.Error))
	}
	w.Evidence.Lines += s.Lines
	w.Evidence.Sources = append(w.Evidence.Sources, Source{
		Name: safeLine(s.Name), State: state, Streams: len(s.Streams), Lines: s.Lines, Until: optionalTime(s.Watermark),
	})
	w.addList(name+" is configured to read things that do not exist.", s.Absent)
	w.addList(name+" lost lines since the daemon started.", describeLosses(s))
	var unread, down []string
	for _, u := range s.Unread {
		unread = append(unread, fmt.Sprintf("%s: %s, since %s", u.Path, u.Reason, formatTime(u.Since)))
	}
	w.addList(name+" does not read logs that exist.", unread)
	for _, m := range s.Members {
		if !m.Up {
			down = append(down, fmt.Sprintf("%s: %s; last contact %s, all lines read up to %s", m.Name, m.Error, formatTime(m.Since), upTo(m.Watermark)))
		}
	}
	w.addList("Members of s"+name[1:]+" that are down.", down)
}

func upTo(t time.Time) string {
	if t.IsZero() || t.Unix() <= 0 {
		return "no time"
	}
	return formatTime(t)
}

func describeLosses(s *web.Source) []string {
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

// unhealthy contains the text of a gap for each health of a rule that cannot detect its failure.
var unhealthy = map[string]string{
	"blind":    "Rules whose lines no source reads: these failures would not be seen.",
	"given_up": "Rules that are no longer evaluated, because they used too much CPU or failed.",
	"inactive": "Rules that this process does not evaluate.",
	"held":     "Rules whose conclusions from silence are on hold.",
	"unseen":   "Rules that received no line yet from a source that delivers only lines that a rule may match.",
}

func (w *coverageBuilder) noteBlindRules(groups []web.Group) {
	blind := map[string][]string{} // names of rules whose lines are not read; the key is the reason
	for _, g := range groups {
		if g.Broken != "" {
			w.addGap(fmt.Sprintf("Pack %s is refused. Its last valid version stays active, if there is one.", safeLine(g.Name)), g.Broken)
		}
		for _, r := range g.Rules {
			w.Evidence.Rules++
			why := unhealthy[r.Health]
			if r.Health == "held" {
				why = strings.TrimSpace(why + " " + safeLine(r.WaitReason))
			}
			if why != "" {
				blind[why] = append(blind[why], r.Name)
			}
		}
	}
	for _, why := range slices.Sorted(maps.Keys(blind)) {
		w.addGap(why, blind[why]...)
	}
}
