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
	"crowsnest/redact"
	"crowsnest/rules"
	"crowsnest/web"
)

// Fetched is what the daemon knows about an episode.
type Fetched struct {
	Timeline web.Timeline
	// Rule is the text of the rule that the daemon runs; "" if the daemon does not return it.
	Rule    string
	streams []map[string]string
}

// Fetch fetches an open or recently ended episode. get returns the data of an endpoint of
// the API, such as "sources".
func Fetch(get func(path string) ([]byte, error), fingerprint string) (Fetched, error) {
	var f Fetched
	if err := decode(get, "episodes/"+fingerprint+"/timeline", &f.Timeline); err != nil {
		return f, fmt.Errorf("%w; capture it from its logs with --from-logs", err)
	}
	// The rule of the test does not know the labels that are added for receivers.
	e := &f.Timeline.Episode
	maps.DeleteFunc(e.Labels, func(name, _ string) bool { _, external := f.Timeline.ExternalLabels[name]; return external })
	if e.EndsAt != nil && e.First == "" && e.Line == "" {
		return f, errors.New("the daemon no longer has the lines of this episode: it keeps them for 15 minutes after the end; capture it from its logs with --from-logs")
	}
	if f.Timeline.Episode.Pack == "" {
		return f, fmt.Errorf("%s is an alert of crowsnest about itself, which no rule has", f.Timeline.Episode.Alert)
	}
	var groups struct{ Groups []web.Group }
	if err := decode(get, "rules", &groups); err != nil {
		return f, err
	}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if r.Name == f.Timeline.Episode.Alert {
				f.Rule = r.Source
			}
		}
	}
	var sources struct{ Sources []web.Source }
	if err := decode(get, "sources", &sources); err != nil {
		return f, err
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
		return fmt.Errorf("the daemon's answer for %s is not understood: %w", path, err)
	}
	return nil
}

// Episode returns the episode of r with the lines that the daemon knows: those that opened and
// ended it, and the newest one.
func (f *Fetched) Episode(r *rules.Rule) Episode {
	e := f.Timeline.Episode
	out := Episode{Alert: e.Alert, Labels: e.Labels, Fired: e.FiredAt != nil, Reason: e.Reason, Began: e.StartsAt}
	from := f.streamLabels(cmp.Or(logText(f.Timeline.Events), e.Annotations["origin"]), e.Labels)
	add := func(t time.Time, text redact.Text, labels map[string]string) {
		out.Lines = append(out.Lines, Line{At: t, Text: text, Labels: labels})
	}
	var counted []web.Event
	opened := e.StartsAt
	for _, ev := range f.Timeline.Events {
		switch {
		case ev.At == nil:
		case ev.Kind == string(episodes.EventCounted):
			counted = append(counted, ev)
		case ev.Kind == string(episodes.EventLast), ev.Kind == string(episodes.EventOpened) && ev.Line != "":
			opened = *ev.At
		case ev.Kind == string(episodes.EventEnded) && ev.Line != "" && e.Reason == episodes.ReasonClear:
			add(*ev.At, ev.Line, f.streamLabels(ev.Log, e.Labels))
		}
	}
	if e.First == "" {
		return out
	}
	if r.Count > 1 && !r.Sequence && len(counted) > 0 {
		n := r.Count - 1
		spreadTimes(*counted[0].At, *counted[len(counted)-1].At, n, func(t time.Time) { add(t, e.First, from) })
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

// maxCopies is the maximum number of copies that replace lines which the daemon does not keep.
const maxCopies = 200

// spreadTimes calls add n times with times from first to last, at equal distances.
func spreadTimes(first, last time.Time, n int, add func(time.Time)) {
	for i := range n {
		at := first
		if n > 1 {
			at = first.Add(last.Sub(first) * time.Duration(i) / time.Duration(n-1))
		}
		add(at)
	}
}

func logText(events []web.Event) string {
	for _, ev := range events {
		if ev.Log != "" {
			return ev.Log
		}
	}
	return ""
}

// streamLabels returns the labels of the stream that log describes, such as "namespace default,
// pod web-0". If a source reads such a stream, they are the labels of the source; otherwise
// they are those of the text and of the alert.
func (f *Fetched) streamLabels(log string, alert map[string]string) map[string]string {
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

// valuesAgree reports whether labels contains every label of stated.
func valuesAgree(stated, labels map[string]string) bool {
	for name, v := range stated {
		if labels[name] != v && labels[name+"_name"] != v {
			return false
		}
	}
	return true
}
