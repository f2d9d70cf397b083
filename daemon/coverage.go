package daemon

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/sources"
)

// coverageNames bounds the sources, or members of one, that the heartbeat names.
const coverageNames = 5

// sees reports whether a source is being read.
func (a *selfAlerts) sees(now time.Time, s sources.Status) bool {
	return s.Up && s.Idle == "" && a.moved[s.Name].still < stuckAfter && !s.Watermark.Before(now.Add(-a.blindAfter))
}

// heartbeat returns the alert for a dead man's switch, with the coverage. It returns
// none until a source is read for the first time, and once no source has been read
// for blindAfter: the heartbeat must not mean "all is well" while nothing is
// detected. The caller holds mu.
func (a *selfAlerts) heartbeat(now time.Time, status []sources.Status) (episodes.Episode, bool) {
	coverage, seen := a.coverage(now, status)
	if seen {
		a.lastSeen = now
	}
	if a.lastSeen.IsZero() || now.Sub(a.lastSeen) >= a.blindAfter {
		return episodes.Episode{}, false
	}
	e := selfAlert(AlertHeartbeat, "none", nil, a.start, map[string]string{
		"summary":     "crowsnest is running; coverage: " + coverage,
		"coverage":    coverage,
		"description": "This alert fires as long as crowsnest reads at least one source. Route it to a dead man's switch: its absence means that nothing is detected. The annotation coverage begins with full or partial and names what is not watched.",
	})
	e.Heartbeat = true
	return e, true
}

// coverage describes which sources are read: "full: ..." or "partial: ...". seen is
// false if none is.
func (a *selfAlerts) coverage(now time.Time, status []sources.Status) (text string, seen bool) {
	var good, bad, idle []string
	parts := map[string][2]int{} // of a source: seen, all
	for _, s := range status {
		if source, _, part := strings.Cut(s.Name, "/"); part {
			n := parts[source]
			n[1]++
			if a.sees(now, s) {
				n[0]++
			}
			parts[source] = n
		}
	}
	for _, s := range status {
		n := parts[s.Name]
		switch {
		case s.Idle != "":
			idle = append(idle, s.Name)
		case !a.sees(now, s):
			bad = append(bad, s.Name+a.sinceText(s.Name))
		case isPart(s.Name), n[1] > 0 && n[0] == 0:
		case n[1] > 0:
			good = append(good, fmt.Sprintf("%s (%d of %d nodes)", s.Name, n[0], n[1]))
		default:
			good = append(good, s.Name)
		}
	}
	if !a.unanswered.IsZero() {
		bad = append(bad, "the aggregator since "+stamp(a.unanswered))
		seen = !a.longSince(now, a.unanswered)
	} else {
		seen = true
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
	return text, seen && len(good) > 0
}

func (a *selfAlerts) sinceText(name string) string {
	if since, known := a.away[name]; known {
		return " since " + stamp(since)
	}
	return ""
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// listOf joins at most coverageNames names and counts the others.
func listOf(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	if more := len(names) - coverageNames; more > 0 {
		names = append(slices.Clone(names[:coverageNames]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// idleAlert returns the alert about a source that has had nothing to watch for
// blindAfter. The caller holds mu.
func (a *selfAlerts) idleAlert(now time.Time, s sources.Status) (episodes.Episode, bool) {
	if s.Idle == "" {
		delete(a.idle, s.Name)
		return episodes.Episode{}, false
	}
	since, known := a.idle[s.Name]
	if !known {
		since = now
		a.idle[s.Name] = now
	}
	if !a.longSince(now, since) {
		return episodes.Episode{}, false
	}
	return selfAlert(alertNothingToWatch, "warning", map[string]string{"source": s.Name}, since, map[string]string{
		"summary":     "Source " + s.Name + " has nothing to watch",
		"description": truncate(fmt.Sprintf("Since %s: %s. Rules that need this source cannot fire; all others work. crowsnest keeps checking.", stamp(since), s.Idle), 1500),
		"remediation": "Install what the source watches, or remove the source from the configuration.",
	}), true
}
