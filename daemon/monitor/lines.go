package monitor

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"crowsnest/daemon/component"
	"crowsnest/episodes"
	"crowsnest/internal/text"
	"crowsnest/sources"
)

const alertLinesLost = "CrowsnestLinesLost"

// lossShown is how long an alert about lost lines stays open after the newest loss. Such an alert cannot be resolved by
// a recovery, because lost lines do not come back.
const lossShown = 15 * time.Minute

func lossAlerts(now time.Time, s sources.Status, losses component.Losses) []episodes.Episode {
	var out []episodes.Episode
	for _, reason := range slices.Sorted(maps.Keys(s.Losses)) {
		l := s.Losses[reason]
		if l.Count <= 0 || now.Sub(l.Time) >= lossShown {
			continue
		}
		loss, known := losses[reason]
		if !known {
			loss = component.Loss{Severity: "warning", What: reason, Fix: "Check the log of crowsnest."}
		}
		at := l.Time
		if at.After(now) { // the clock was set back since
			at = now
		}
		labels := map[string]string{"source": s.Name, "reason": reason, "severity": loss.Severity}
		e := newAlert(alertLinesLost, labels, at, "{what}", loss.What, "{path}", strconv.Quote(l.Path), "{at}", formatTime(l.Time),
			"{times}", text.Plural(l.Count, "time"), "{shown}", lossShown.String(), "{fix}", loss.Fix)
		e.Count, e.LastSeen = l.Count, at.UTC()
		out = append(out, e)
	}
	return out
}

const alertLogsUnread = "CrowsnestLogsUnread"

const unreadNamed = 5

// unreadFor returns the listed logs of a source that have not been read for at least after. all is the number of such
// logs including unlisted ones.
func unreadFor(now time.Time, after time.Duration, s sources.Status) (out []sources.UnreadLog, all int) {
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

// unreadAlert returns a warning if some logs of a source have not been read for at least after. If no log of the source
// is read, another alert fires, because the source is blind.
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
	return []episodes.Episode{newAlert(alertLogsUnread, map[string]string{"source": s.Name}, since,
		"{what}", what, "{since}", formatTime(since), "{logs}", strings.Join(named, "; "))}
}

func unreadText(u sources.UnreadLog) string {
	text := fmt.Sprintf("%q: %s", u.Path, u.Reason)
	if u.Name != "" {
		text = u.Name + " (" + text + ")"
	}
	return text
}

// unreadOfMembers returns the number of logs that members of a source have not read for at least after, and the number
// of these members.
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
