package daemon

import (
	"fmt"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/sources"
)

const alertLogsUnread = "CrowsnestLogsUnread"

const (
	// unreadAfter is how long a log may stay unread before that is an alert.
	unreadAfter = time.Minute
	// unreadNamed is how many logs an alert names.
	unreadNamed = 5
)

// unreadAlert returns an alert if logs of a source are there and are not read. It
// is critical if they may be read later, for then failures in them are missed
// and "not recovered" rules are on hold; what is refused for good is a warning.
func unreadAlert(now time.Time, s sources.Status) (episodes.Episode, bool) {
	var named []string
	n, since, severity := 0, now, "warning"
	for _, u := range s.Unread {
		if now.Sub(u.Since) < unreadAfter {
			continue
		}
		if n++; len(named) < unreadNamed {
			named = append(named, fmt.Sprintf("%q: %s", u.Path, u.Why))
		}
		if u.Since.Before(since) {
			since = u.Since
		}
		if u.Holds {
			severity = "critical"
		}
	}
	if n == 0 {
		return episodes.Episode{}, false
	}
	return selfAlert(alertLogsUnread, severity, map[string]string{"source": s.Name}, since, map[string]string{
		"summary":     "Logs of source " + s.Name + " are not read",
		"description": cutText(fmt.Sprintf("Failures in %d logs are not seen. The first of them: %s.", n, strings.Join(named, "; ")), 1500),
		"remediation": "Look at the files and at their disk, and at the open files that the process may have. What was refused is not read until it is a file of its own.",
	}), true
}
