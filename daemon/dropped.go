package daemon

import (
	"fmt"
	"time"

	"crowsnest/episodes"
	"crowsnest/sinks"
)

const alertAlertsDropped = "CrowsnestAlertsDropped"

// evicted is the reason by which sinks count alerts that they dropped for room.
const evicted = "evicted"

// drops are the alerts that were dropped before an endpoint accepted them, by
// endpoint.
type drops map[string]drop

type drop struct {
	count        int64
	since, until time.Time // of the alert
}

// alert returns an alert for lossShown after an endpoint's count has grown.
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
		"description": fmt.Sprintf("So far %d alerts that had ended were dropped: more of them waited for this receiver than crowsnest keeps, or than it saves over a restart. "+
			"Open alerts are never dropped. The receiver was not notified of those that were.", x.count),
		"remediation": "Bring the receiver back; look at the page Alerts for what ended meanwhile.",
	}), true
}
