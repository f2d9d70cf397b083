package capture

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/rules"
	"crowsnest/web"
)

// FetchedEpisode contains the daemon's data about an episode.
type FetchedEpisode struct {
	Timeline web.Timeline
	// Rule is the source of the rule that the daemon runs. It is "" if the daemon does not return it.
	Rule    string
	streams []map[string]string
}

// Fetch fetches an open or recently ended episode. get returns the data of an endpoint of
// the API, such as "sources".
func Fetch(get func(path string) ([]byte, error), fingerprint string) (FetchedEpisode, error) {
	var f FetchedEpisode
	if err := decode(get, "episodes/"+fingerprint+"/timeline", &f.Timeline); err != nil {
		return f, fmt.Errorf("%w; capture the alert from logs with --from-logs", err)
	}
	// Remove the labels that are added for receivers, because the rule of the test does not set them.
	e := &f.Timeline.Episode
	maps.DeleteFunc(e.Labels, func(name, _ string) bool { _, external := f.Timeline.ExternalLabels[name]; return external })
	if e.EndsAt != nil && e.First == "" && e.Line == "" {
		return f, errors.New("the daemon no longer has the lines of this episode: it keeps them for 15 minutes after the end; capture the alert from logs with --from-logs")
	}
	if e.Pack == "" {
		return f, fmt.Errorf("%s is an alert about crowsnest itself; no rule raises it, so it has no test", e.Alert)
	}
	var groups web.Groups
	var sources web.SourceList
	if err := cmp.Or(decode(get, "rules", &groups), decode(get, "sources", &sources)); err != nil {
		return f, err
	}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if r.Name == e.Alert {
				f.Rule = r.Source
			}
		}
	}
	for _, s := range sources.Sources {
		for _, st := range s.Streams {
			f.streams = append(f.streams, st.Labels)
		}
	}
	return f, nil
}

func decode(get func(path string) ([]byte, error), path string, into any) error {
	data, err := get(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("cannot decode the daemon's response for %s: %w", path, err)
	}
	return nil
}

// Episode returns the episode with those lines that the daemon keeps. These are the lines that opened and ended the
// episode, and the newest line.
func (f *FetchedEpisode) Episode(r *rules.Rule) Episode {
	e := f.Timeline.Episode
	out := Episode{Alert: e.Alert, Labels: e.Labels, Fired: e.FiredAt != nil, Reason: e.Reason, Began: e.StartsAt}
	log := e.Annotations["origin"]
	if k := slices.IndexFunc(f.Timeline.Events, func(ev web.Event) bool { return ev.Log != "" }); k >= 0 {
		log = f.Timeline.Events[k].Log
	}
	from := f.streamLabels(log, e.Labels)
	add := func(t time.Time, text redact.Text, labels map[string]string) {
		out.Lines = append(out.Lines, Line{Time: t, Text: text, Labels: labels})
	}
	var counted []web.Event
	opened := e.StartsAt
	for _, ev := range f.Timeline.Events {
		switch {
		case ev.Time == nil:
		case ev.Kind == string(episodes.EventCounted):
			counted = append(counted, ev)
		case ev.Kind == string(episodes.EventLast), ev.Kind == string(episodes.EventOpened) && ev.Line != "":
			opened = *ev.Time
		case ev.Kind == string(episodes.EventEnded) && ev.Line != "" && e.Reason == episodes.ReasonClear:
			add(*ev.Time, ev.Line, f.streamLabels(ev.Log, e.Labels))
		}
	}
	if e.First == "" {
		return out
	}
	if r.Count > 1 && !r.Sequence && len(counted) > 0 {
		n := r.Count - 1
		spreadTimes(*counted[0].Time, *counted[len(counted)-1].Time, n, func(t time.Time) { add(t, e.First, from) })
		out.Notes = append(out.Notes, fmt.Sprintf("the daemon keeps one of the %d lines that opened the episode; the test repeats it for the others", r.Count))
	}
	add(opened, e.First, from)
	switch more := int(min(e.Count-1, maxCopies)); {
	case !e.LastSeen.After(opened):
	case r.For > 0 && r.Clear == nil && more > 1:
		spreadTimes(opened.Add(e.LastSeen.Sub(opened)/time.Duration(more)), e.LastSeen, more, func(t time.Time) { add(t, e.Line, from) })
		out.Notes = append(out.Notes, "the daemon keeps the first and the newest line of an episode; the test repeats the newest between them")
	case e.Line != e.First:
		add(e.LastSeen, e.Line, from)
	}
	slices.SortStableFunc(out.Lines, byTime)
	return out
}

// maxCopies is the maximum number of copies of a line that stand for lines which the daemon does not keep.
const maxCopies = 200

func spreadTimes(first, last time.Time, n int, add func(time.Time)) {
	for i := range n {
		at := first
		if n > 1 {
			at = first.Add(last.Sub(first) * time.Duration(i) / time.Duration(n-1))
		}
		add(at)
	}
}

// streamLabels returns the labels of the stream that log describes, such as "namespace default, pod web-0". If a source
// of the daemon reads such a stream, the result is the labels of that stream. Otherwise it combines the labels in log
// with the labels of the alert.
func (f *FetchedEpisode) streamLabels(log string, alert map[string]string) map[string]string {
	log, _, _ = strings.Cut(log, " and ")
	stated := map[string]string{}
	for part := range strings.SplitSeq(log, ", ") {
		if name, value, ok := strings.Cut(part, " "); ok {
			stated[name] = value
		}
	}
	for _, labels := range f.streams {
		if len(stated) > 0 && valuesAgree(stated, labels) {
			return labels
		}
	}
	if len(stated) == 0 {
		for _, name := range keptLabels {
			if alert[name] != "" {
				stated[name] = alert[name]
			}
		}
	}
	return maps.Clone(stated)
}

func valuesAgree(stated, labels map[string]string) bool {
	for name, v := range stated {
		if labels[name] != v && labels[name+"_name"] != v {
			return false
		}
	}
	return true
}

// maxLines is the maximum number of first lines of an episode that are kept, and also of newest lines.
const maxLines = 400

// Logs are recorded logs.
type Logs struct {
	replay.Target

	Inputs  []replay.Input // inputs, each of which can be opened several times
	Options replay.ScanOptions
}

// Episode returns the first alert in the logs whose name or fingerprint is about, and the rule of the alert. It reads
// the logs twice. The error also names the logs that could not be read.
func (l *Logs) Episode(about string) (ep Episode, of *rules.Rule, err error) {
	report, readErr := replay.Scan(l.Set, l.Program, l.Inputs, l.Options)
	k := slices.IndexFunc(report.Alerts, func(a replay.Alert) bool {
		return a.Episode.Alert == about || a.Episode.Fingerprint.String() == about
	})
	if k < 0 {
		return ep, nil, fmt.Errorf("no alert of the logs has the name or fingerprint %s; %s", about, listAlerts(report))
	}
	e := report.Alerts[k].Episode
	ep = Episode{Alert: e.Alert, Labels: e.Labels, Fired: true, Reason: e.Reason, Began: e.ActiveAt()}
	from, until := e.ActiveAt().Add(-e.Rule.Within-e.Rule.Silent), e.LastSeen
	if !e.EndsAt.IsZero() {
		until = e.EndsAt
	}
	var newest []Line
	again := l.Options
	again.HitsOnly, again.OnWait = true, nil
	again.OnHits = func(_ string, hits []matcher.Hit) {
		for _, h := range hits {
			if h.Rule != e.Rule || h.Time.Before(from) || h.Time.After(until) || !sharesPlace(e.Labels, h.Labels) || !sharesKey(e.Labels, h) {
				continue
			}
			line := Line{Time: h.Time, Text: l.Options.Redactor.Text(h.Line).Clone(), Labels: maps.Clone(h.Labels)}
			if len(ep.Lines) < maxLines/2 {
				ep.Lines = append(ep.Lines, line)
				continue
			}
			if newest = append(newest, line); len(newest) > maxLines/2 {
				newest = newest[1:]
			}
		}
	}
	if _, err := replay.Scan(l.Set, l.Program, l.Inputs, again); err != nil && readErr == nil {
		readErr = err
	}
	ep.Lines = sortDistinct(append(ep.Lines, newest...))
	return ep, e.Rule, readErr
}

// sharesPlace reports whether the alert and the stream have the same values for all place labels that both have.
func sharesPlace(alert, stream map[string]string) bool {
	for _, name := range []string{"cluster", replay.FileLabel} {
		if a, b := alert[name], stream[name]; a != "" && b != "" && a != b {
			return false
		}
	}
	return true
}

// sharesKey reports whether the alert and the hit have the same values for all key labels that both have.
func sharesKey(alert map[string]string, h matcher.Hit) bool {
	key := h.Rule.By
	switch h.Part {
	case matcher.PartClear:
		key = h.Rule.Clear.Same
	case matcher.PartUnless:
		key = h.Rule.Unless.Same
	}
	for i, name := range h.Rule.By {
		if v, own := h.Values[i], alert[name]; v != "" && own != "" && v != own && slices.Contains(key, name) {
			return false
		}
	}
	return true
}

// sortDistinct sorts lines by time and removes duplicates. A line is duplicate if several parts of the rule matched it.
func sortDistinct(all []Line) []Line {
	slices.SortStableFunc(all, byTime)
	return slices.CompactFunc(all, func(a, b Line) bool {
		return a.Time.Equal(b.Time) && a.Text == b.Text && maps.Equal(a.Labels, b.Labels)
	})
}

func listAlerts(r replay.Report) string {
	var out []string
	for _, a := range r.Alerts {
		text := fmt.Sprintf("%s (%s, %s)", a.Episode.Alert, a.Episode.Fingerprint, a.Episode.StartsAt.UTC().Format(time.RFC3339))
		if out = append(out, text); len(out) == 10 {
			break
		}
	}
	if len(out) == 0 {
		return "no alert fired"
	}
	return "these fired: " + strings.Join(out, ", ")
}
