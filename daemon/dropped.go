package daemon

import (
	"fmt"
	"time"

	"crowsnest/episodes"
	"crowsnest/sinks"
)

const alertAlertsDropped = "CrowsnestAlertsDropped"

// evicted is the reason under which sinks count alerts dropped because of a limit.
const evicted = "evicted"

// drops holds the dropped alerts by endpoint.
type drops map[string]drop

type drop struct {
	count        int64
	since, until time.Time // of the alert
}

// alert returns an alert until lossShown after the count of an endpoint last grew.
func (d drops) alert(now time.Time, e sinks.EndpointStatus) (episodes.Episode, bool) {
	x := d[e.Endpoint]
	if n := e.Failed[evicted]; n > x.count {
		if x.until.Before(now) {
			x.since = now
		}
		x.count, x.until = n, now.Add(lossShown)
		d[e.Endpoint] = x
	}
	if x.until.Before(now) {
		return episodes.Episode{}, false
	}
	return selfAlert(alertAlertsDropped, "critical", map[string]string{"endpoint": e.Endpoint}, x.since, map[string]string{
		"summary": "Alerts were dropped before " + e.Endpoint + " accepted them",
		"description": fmt.Sprintf("%d ended alerts were dropped in total: more of them waited for this receiver than crowsnest keeps, or than it saves for a restart. "+
			"The receiver was not notified of them. Open alerts are never dropped.", x.count),
		"remediation": "Restore the receiver, and check the Alerts page for alerts that ended meanwhile.",
	}), true
}
