package monitor

import (
	"fmt"
	"time"

	"crowsnest/episodes"
)

const (
	alertNoStandby = "CrowsnestNoStandby"
	// lonelyAfter is how long a leader may be without a standby before it is an alert: longer
	// than a rolling update takes.
	lonelyAfter = 10 * time.Minute
)

func lonelyAlert(now, since time.Time) []episodes.Episode {
	if since.IsZero() || now.Sub(since) < lonelyAfter {
		return nil
	}
	return []episodes.Episode{alert(alertNoStandby, "warning", nil, since, texts{
		"The aggregator of crowsnest has no standby: if it dies, failures are detected late",
		fmt.Sprintf("No standby has had everything that was saved since %s. The leader goes on alone. If it dies with its disk, what was saved since then is lost.", stamp(since)),
		"Check the pod of the standby, its log, and whether it reaches high_availability.listen_address of the leader.",
	})}
}
