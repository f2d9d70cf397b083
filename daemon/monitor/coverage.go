package monitor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/text"
	"crowsnest/sources"
)

const (
	// coverageNames bounds the sources, or members of one, that the heartbeat names.
	coverageNames = 5
	// maxBlind bounds the members of a source that have an alert of their own.
	maxBlind = 20
)

func isMember(name string) bool { return strings.Contains(name, "/") }

// withMembers adds the members of sources as sources of their own. A source with
// members has no watermark itself: it only has to be up.
func withMembers(status []sources.Status, now time.Time) []sources.Status {
	out := slices.Clone(status)
	for i, s := range status {
		if s.Members == nil {
			continue
		}
		if len(s.Members) == 0 && s.Up {
			out[i].Up, out[i].Error = false, "no agent has reported"
			continue
		}
		out[i].Watermark = now
		for _, name := range slices.Sorted(maps.Keys(s.Members)) {
			m := s.Members[name]
			out = append(out, sources.Status{Name: name, Up: m.Up, Opened: true, Error: m.Error, Watermark: m.Watermark})
		}
	}
	return out
}

// blind returns an alert for each source that is down and for each member that is
// down, and one alert for all members beyond maxBlind. The caller holds mu.
func (a *Alerts) blind(now time.Time, status []sources.Status) []episodes.Episode {
	var out []episodes.Episode
	var more []string
	var oldest time.Time
	known, members := map[string]bool{}, 0
	for _, s := range status {
		known[s.Name] = true
		since, down := a.awaySince(now, s)
		switch {
		case !down:
		case isMember(s.Name) && members == maxBlind:
			if more = append(more, s.Name); len(more) == 1 || since.Before(oldest) {
				oldest = since
			}
		default:
			if isMember(s.Name) {
				members++
			}
			out = append(out, blindAlert(s, since))
		}
	}
	if len(more) > 0 {
		source, _, _ := strings.Cut(more[0], "/")
		out = append(out, blindAlert(sources.Status{
			Name: source, Error: fmt.Sprintf("%d more members are down: %s", len(more), text.Shorten(strings.Join(more, ", "), 1000)),
		}, oldest))
	}
	maps.DeleteFunc(a.away, func(name string, _ time.Time) bool { return !known[name] })
	maps.DeleteFunc(a.idle, func(name string, _ time.Time) bool { return !known[name] })
	maps.DeleteFunc(a.moved, func(name string, _ progress) bool { return !known[name] })
	return out
}

func blindAlert(s sources.Status, since time.Time) episodes.Episode {
	what := "it makes no progress"
	if !s.Up {
		what = "it cannot be read"
	}
	if s.Error != "" {
		what += ": " + s.Error
	}
	return alert(alertBlind, "critical", map[string]string{"source": s.Name}, since, texts{
		"Source " + s.Name + " is not read: failures in its logs are not detected",
		fmt.Sprintf("Source %s has been down since %s: %s. Alerts that depend on it do not resolve meanwhile.", s.Name, stamp(since), what),
		"Check the Sources page and the log of crowsnest.",
	})
}

func (a *Alerts) sees(now time.Time, s sources.Status) bool {
	return s.Up && s.Idle == "" && a.moved[s.Name].still < stuckAfter && !s.Watermark.Before(now.Add(-a.blindAfter))
}

// heartbeat returns the alert for a dead man's switch, with the coverage. It returns
// none until a source is read for the first time, and once no source has been read
// for blindAfter: the heartbeat must not mean "all is well" while nothing is
// detected. The caller holds mu.
func (a *Alerts) heartbeat(now time.Time, status []sources.Status, unanswered time.Time) []episodes.Episode {
	coverage, seen := a.coverage(now, status, unanswered)
	if seen {
		a.lastSeen = now
	}
	if a.lastSeen.IsZero() || now.Sub(a.lastSeen) >= a.blindAfter {
		return nil
	}
	e := annotated(alertHeartbeat, "none", nil, a.start, map[string]string{
		"summary":     "crowsnest is running; coverage: " + coverage,
		"coverage":    coverage,
		"description": "This alert fires as long as crowsnest reads at least one source. Route it to a dead man's switch: its absence means that nothing is detected. The annotation coverage begins with full or partial and names what is not watched.",
	})
	e.Heartbeat = true
	return []episodes.Episode{e}
}

// coverage describes which sources are read: "full: ..." or "partial: ...". seen is
// false if none is, or if the aggregator does not answer. The caller holds mu.
func (a *Alerts) coverage(now time.Time, status []sources.Status, unanswered time.Time) (text string, seen bool) {
	var good, bad, idle []string
	members := map[string][2]int{} // of a source: seen, all
	for _, s := range status {
		if source, _, is := strings.Cut(s.Name, "/"); is {
			n := members[source]
			n[1]++
			if a.sees(now, s) {
				n[0]++
			}
			members[source] = n
		}
	}
	for _, s := range status {
		n := members[s.Name]
		switch {
		case s.Idle != "":
			idle = append(idle, s.Name)
		case !a.sees(now, s):
			since := ""
			if t, known := a.away[s.Name]; known {
				since = " since " + stamp(t)
			}
			bad = append(bad, s.Name+since)
		case isMember(s.Name), n[1] > 0 && n[0] == 0:
		case n[1] > 0:
			good = append(good, fmt.Sprintf("%s (%d of %d nodes)", s.Name, n[0], n[1]))
		default:
			good = append(good, s.Name)
		}
	}
	seen = len(good) > 0
	if !unanswered.IsZero() {
		bad = append(bad, "the aggregator since "+stamp(unanswered))
		seen = seen && !a.longSince(now, unanswered)
	}
	text = "full: " + listOf(good)
	if len(bad)+len(idle) > 0 {
		text = "partial: " + listOf(good)
	}
	if len(bad) > 0 {
		text += "; not seen: " + listOf(bad)
	}
	if len(idle) > 0 {
		text += "; nothing to watch: " + listOf(idle)
	}
	return text, seen
}

func listOf(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return firstOf(names, coverageNames)
}

// idleAlert returns the alert about a source that has had nothing to watch for
// blindAfter. The caller holds mu.
func (a *Alerts) idleAlert(now time.Time, s sources.Status) []episodes.Episode {
	if s.Idle == "" {
		delete(a.idle, s.Name)
		return nil
	}
	since, known := a.idle[s.Name]
	if !known {
		since = now
		a.idle[s.Name] = now
	}
	if !a.longSince(now, since) {
		return nil
	}
	return []episodes.Episode{alert(alertNothingToWatch, "warning", map[string]string{"source": s.Name}, since, texts{
		"Source " + s.Name + " has nothing to watch",
		fmt.Sprintf("Since %s: %s. Rules that need this source cannot fire; all others work. crowsnest keeps checking.", stamp(since), s.Idle),
		"Install what the source watches, or remove the source from the configuration.",
	})}
}
