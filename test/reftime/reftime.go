// Package reftime parses the time stamps of log lines slowly and plainly. Tests compare
// the fast parser with it.
package reftime

import (
	"strings"
	"time"
)

// Parse parses a stamp of RFC 3339 or one of its relatives, in UTC: a space instead of the
// T, slashes in the date, a zone without a colon. A leap second is the start of the next
// minute. ok is false if there is no such time.
func Parse(stamp string) (t time.Time, ok bool) {
	leap := strings.Contains(stamp, ":60") && stamp[16:19] == ":60"
	if leap {
		stamp = stamp[:16] + ":59" + stamp[19:]
	}
	stamp = strings.ReplaceAll(strings.Replace(stamp, " ", "T", 1), "/", "-")
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999Z0700"} {
		if t, err := time.Parse(layout, stamp); err == nil {
			if leap {
				t = t.Add(time.Second)
			}
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}
