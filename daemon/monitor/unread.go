package monitor

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
	// unreadNamed bounds the logs that an alert names.
	unreadNamed = 5
)

// unreadAlert returns an alert if existing logs of a source are not read. It is
// critical if they may be read later: until then failures in them are missed and
// absence-based rules are on hold. Logs that are refused permanently are a warning.
func unreadAlert(now time.Time, s sources.Status) []episodes.Episode {
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
		return nil
	}
	return []episodes.Episode{alert(alertLogsUnread, severity, map[string]string{"source": s.Name}, since, texts{
		"Logs of source " + s.Name + " are not read",
		fmt.Sprintf("Failures in %d logs are not detected. The first of them: %s.", n, strings.Join(named, "; ")),
		"Check the files, their disk, and the limit of open files of the process. A refused path is not read until it is a separate file.",
	})}
}
