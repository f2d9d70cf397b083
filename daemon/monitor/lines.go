package monitor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/daemon/component"
	"crowsnest/episodes"
	"crowsnest/internal/text"
	"crowsnest/sources"
)

const alertLinesLost = "CrowsnestLinesLost"

// lossShown is how long an alert stays open after the newest loss, because lost lines do not come back.
const lossShown = 15 * time.Minute

func lossAlerts(now time.Time, s sources.Status, losses component.Losses) []episodes.Episode {
	var out []episodes.Episode
	for _, reason := range slices.Sorted(maps.Keys(s.Losses)) {
		l := s.Losses[reason]
		if l.Count <= 0 || now.Sub(l.At) >= lossShown {
			continue
		}
		loss, known := losses[reason]
		if !known {
			loss = component.Loss{Severity: "warning", What: reason, Fix: "Check the log of crowsnest."}
		}
		at := l.At
		if at.After(now) { // the clock was set back
			at = now
		}
		e := newAlert(alertLinesLost, loss.Severity, map[string]string{"source": s.Name, "reason": reason}, at, texts{
			"Log lines of source " + s.Name + " were lost before crowsnest read them",
			fmt.Sprintf("Reason: %s. Newest: %q at %s; %s in total. This alert resolves %v after the newest loss.",
				loss.What, l.Path, formatTime(l.At), text.Plural(l.Count, "time"), lossShown),
			loss.Fix,
		})
		e.Count, e.LastSeen = l.Count, at.UTC()
		out = append(out, e)
	}
	return out
}

const alertLogsUnread = "CrowsnestLogsUnread"

const unreadNamed = 5

// unreadFor returns the logs of a source that were not read for this long. all also counts unlisted ones.
func unreadFor(now time.Time, after time.Duration, s sources.Status) (out []sources.Unread, all int) {
	for _, u := range s.Unread {
		if now.Sub(u.Since) >= after {
			out = append(out, u)
		}
	}
	if len(out) == 0 {
		return nil, 0
	}
	return out, len(out) + s.UnreadMore
}

// unreadAlert returns a warning if logs of a source were not read for a while. If none is read, the source
// is blind instead.
func unreadAlert(now time.Time, after time.Duration, s sources.Status) []episodes.Episode {
	unread, all := unreadFor(now, after, s)
	if all == 0 {
		return nil
	}
	var named []string
	since := now
	for i, u := range unread {
		if i < unreadNamed {
			named = append(named, unreadText(u))
		}
		if u.Since.Before(since) {
			since = u.Since
		}
	}
	if more := all - len(named); more > 0 {
		named = append(named, fmt.Sprintf("and %d more", more))
	}
	what := fmt.Sprintf("%d logs of source %s are not read", all, s.Name)
	if all == 1 {
		what = "A log of source " + s.Name + " is not read"
		if name := unread[0].Name; name != "" {
			what = "The log of " + name + " is not read"
		}
	}
	return []episodes.Episode{newAlert(alertLogsUnread, "warning", map[string]string{"source": s.Name}, since, texts{
		what,
		fmt.Sprintf("Since %s: %s. Failures in these logs are not detected, and alerts that a line in them could end or prevent wait. All other logs are read.", formatTime(since), strings.Join(named, "; ")),
		"Check the file, its permissions and its disk, and the limit of open files of the process. A link or a directory in the place of a log is not read until a file takes its place. Lines that are still there are read as soon as the log can be read.",
	})}
}

func unreadText(u sources.Unread) string {
	text := fmt.Sprintf("%q: %s", u.Path, u.Why)
	if u.Name != "" {
		text = u.Name + " (" + text + ")"
	}
	return text
}

// unreadOfMembers returns how many logs members of a source have not read for a while, and how many members.
func unreadOfMembers(now time.Time, after time.Duration, s sources.Status) (logs, members int) {
	for _, m := range s.Members {
		before := logs
		for _, l := range m.Lagging {
			if now.Sub(l.ReadUpTo) >= after {
				logs++
			}
		}
		if logs > before {
			members++
		}
	}
	return logs, members
}
