package monitor

import (
	"cmp"
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
	// coverageNames is the maximum number of sources, or members of a source, that the heartbeat names.
	coverageNames = 5
	// maxBlind is the maximum number of members of a source that get an alert each.
	maxBlind = 20
)

func isMember(name string) bool { return strings.Contains(name, "/") }

// withMembers adds the members of sources to the list like separate sources. A source that has members needs no
// progress of its own and only has to be up.
func withMembers(status []sources.Status, now time.Time) []sources.Status {
	out := slices.Clone(status)
	for i, s := range status {
		if s.Members == nil {
			continue
		}
		if len(s.Members) == 0 && s.Up {
			out[i].Up, out[i].Error = false, cmp.Or(s.Error, "no agent has reported")
			continue
		}
		out[i].Watermark = now
		if why := membersIdle(s); why != "" {
			out[i].Idle, out[i].IdleReason = why, sources.IdleNoLogs
		}
		for _, name := range slices.Sorted(maps.Keys(s.Members)) {
			m := s.Members[name]
			out = append(out, sources.Status{Name: name, Up: m.Up, Opened: true, Error: m.Error, Watermark: m.Watermark})
		}
	}
	return out
}

// blindAlerts returns an alert for each source and each member that is down. All members beyond maxBlind share one
// alert. The caller must hold mu.
func (a *Alerts) blindAlerts(now time.Time, status []sources.Status) []episodes.Episode {
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
	maps.DeleteFunc(a.outageStarts, func(name string, _ time.Time) bool { return !known[name] })
	maps.DeleteFunc(a.idle, func(name string, _ time.Time) bool { return !known[name] })
	maps.DeleteFunc(a.rules, func(name string, _ ruleCheck) bool { return !known[name] })
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
	return newAlert(alertBlind, map[string]string{"source": s.Name}, since, "{since}", formatTime(since), "{what}", what)
}

// isSeeing reports whether a source is read and has logs to read. The caller must hold mu.
func (a *Alerts) isSeeing(now time.Time, s sources.Status) bool {
	_, silent := a.idle[s.Name]
	return s.Up && !silent && !a.unsure[s.Name] && a.moved[s.Name].idleUpdates < stuckAfter && !s.Watermark.Before(now.Add(-a.blindAfter))
}

// heartbeat returns the alert that always fires for a dead man's switch. Its text contains the coverage. heartbeat
// returns nothing until a source has been read for the first time, and nothing after no source has been read for
// blindAfter. Otherwise the heartbeat would say that all is well while nothing is detected. The caller must hold mu.
func (a *Alerts) heartbeat(now time.Time, status []sources.Status, unanswered time.Time) []episodes.Episode {
	coverage, seen := a.coverage(now, status, unanswered)
	if seen {
		a.lastSeen = now
	}
	a.covers = coverage
	if a.isStarting(now, status) {
		a.covers = "starting"
		return nil // the heartbeat of the previous process stays open meanwhile
	}
	if a.lastSeen.IsZero() || now.Sub(a.lastSeen) >= a.blindAfter {
		return nil
	}
	e := newAlert(alertHeartbeat, nil, a.start, "{coverage}", coverage)
	e.Annotations["coverage"] = coverage
	e.Heartbeat = true
	return []episodes.Episode{e}
}

// isStarting reports whether this process began so recently that it does not know yet which logs it can read, because
// sources are being opened and agents are connecting again. The caller must hold mu.
func (a *Alerts) isStarting(now time.Time, status []sources.Status) bool {
	if now.Sub(a.start) >= settle || a.settled {
		return false
	}
	unknown := slices.ContainsFunc(status, func(s sources.Status) bool {
		return !a.isSeeing(now, s) && s.Idle == "" && (s.Error == "" || isMember(s.Name) || s.Members != nil)
	})
	a.settled = !unknown
	return unknown
}

// Coverage returns the description of which sources are read, as of the last Update, in the words of the heartbeat.
func (a *Alerts) Coverage() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.covers
}

// coverage describes which sources are read, as "full: ..." or "partial: ...". seen is false if no source is read, or
// if the aggregator does not answer. The caller must hold mu.
func (a *Alerts) coverage(now time.Time, status []sources.Status, unanswered time.Time) (text string, seen bool) {
	var good, bad, silent, idle []string
	unread := false                // whether a source reads only some of its logs
	members := map[string][2]int{} // for each source, the number of members that are read and the number of all members
	for _, s := range status {
		if source, _, is := strings.Cut(s.Name, "/"); is {
			n := members[source]
			n[1]++
			if a.isSeeing(now, s) {
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
			idle = append(idle, idleOnAll(s)...)
		case s.Up && !a.idle[s.Name].IsZero():
			silent = append(silent, s.Name)
		case !a.isSeeing(now, s):
			since := ""
			if t, known := a.outageStarts[s.Name]; known {
				since = " since " + formatTime(t)
			}
			bad = append(bad, s.Name+since)
		case isMember(s.Name), n[1] > 0 && n[0] == 0:
		case n[1] > 0:
			nodes := fmt.Sprintf("%d of %d nodes", n[0], n[1])
			if k := idleMembers(s); k > 0 {
				nodes += fmt.Sprintf(", %d of them idle", k)
			}
			if logs, on := unreadOfMembers(now, a.blindAfter, s); logs > 0 {
				unread = true
				nodes += fmt.Sprintf(", %d unread logs on %d nodes", logs, on)
			}
			good = append(good, fmt.Sprintf("%s (%s)", s.Name, nodes))
			idle = append(idle, idleOnAll(s)...)
		default:
			name := s.Name
			if _, n := unreadFor(now, a.blindAfter, s); n > 0 {
				unread = true
				name += fmt.Sprintf(" (%d of %d logs)", max(s.Logs-n, 0), max(s.Logs, n))
			}
			good = append(good, name)
		}
	}
	seen = len(good) > 0
	if !unanswered.IsZero() {
		bad = append(bad, "the aggregator since "+formatTime(unanswered))
		seen = seen && !a.longSince(now, unanswered)
	}
	text = "full: " + joinNames(good)
	if len(good) == 0 || unread || len(bad)+len(silent)+len(idle) > 0 {
		text = "partial: " + joinNames(good)
	}
	if len(bad) > 0 {
		text += "; not seen: " + joinNames(bad)
	}
	if len(silent) > 0 {
		text += "; no line yet: " + joinNames(silent)
	}
	if len(idle) > 0 {
		text += "; idle: " + joinNames(idle)
	}
	return text, seen
}

func joinNames(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return joinFirst(names, coverageNames)
}
