package monitor

import (
	"fmt"
	"time"

	"crowsnest/episodes"
)

const (
	alertNoStandby = "CrowsnestNoStandby"
	// lonelyAfter is how long a leader may be without a standby before there is an alert. It is
	// longer than a rolling update takes.
	lonelyAfter = 10 * time.Minute
)

func lonelyAlert(now, since time.Time) []episodes.Episode {
	if since.IsZero() || now.Sub(since) < lonelyAfter {
		return nil
	}
	return []episodes.Episode{newAlert(alertNoStandby, "warning", nil, since, texts{
		"The aggregator of crowsnest has no standby: if it dies, failures are detected late",
		fmt.Sprintf("Since %s, no standby has had a complete copy of the saved state. The leader continues alone. If it is lost together with its disk, the state saved since then is lost.", formatTime(since)),
		"Check the pod of the standby, its log, and whether it reaches high_availability.listen_address of the leader.",
	})}
}
