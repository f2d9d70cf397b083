package monitor

import (
	"fmt"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/sources"
)

const alertLogsUnread = "CrowsnestLogsUnread"

// unreadNamed is the number of logs that an alert names.
const unreadNamed = 5

// unreadFor returns the logs of a source that have not been read for this long. n also counts
// those that the source does not list.
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

// unreadAlert returns an alert if logs of a source have not been read for a while. It is a
// warning, because the other logs are read, and only conclusions that the unread logs could
// change have to wait. If no log of a source is read, the source is blind instead.
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

// unreadText returns the name of a log and the reason why it is not read.
func unreadText(u sources.Unread) string {
	text := fmt.Sprintf("%q: %s", u.Path, u.Why)
	if u.Name != "" {
		text = u.Name + " (" + text + ")"
	}
	return text
}

// unreadOfMembers returns the number of logs that members of a source have not read for a
// while, and the number of these members.
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
