package monitor

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"crowsnest/daemon/component"
	"crowsnest/episodes"
	"crowsnest/internal/text"
	"crowsnest/sources"
)

const alertLinesLost = "CrowsnestLinesLost"

// lossShown is how long an alert stays open after the newest loss. Lost lines do not come back,
// so nothing else ends the alert.
const lossShown = 15 * time.Minute

// lossAlerts returns an alert for each reason for which the source recently lost lines.
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
