package monitor

import (
	"fmt"
	"time"

	"crowsnest/episodes"
	"crowsnest/sinks"
)

const (
	alertStateNotSaved = "CrowsnestStateNotSaved"
	alertClockSkew     = "CrowsnestClockSkew"
	alertAlertsDropped = "CrowsnestAlertsDropped"
)

const (
	// unsavedAfter is how long saving the state may fail before there is an alert.
	unsavedAfter = 5 * time.Minute
	// maxSkew is the clock skew of an endpoint for which an alert fires after skewedFor.
	maxSkew   = 30 * time.Second
	skewedFor = 2 * time.Minute
)

// Unsaved says since when and why the state is not saved. The time is zero if it is.
type Unsaved struct {
	Since time.Time
	Why   error
}

func unsavedAlert(now time.Time, u Unsaved) []episodes.Episode {
	if u.Since.IsZero() || now.Sub(u.Since) < unsavedAfter {
		return nil
	}
	return []episodes.Episode{newAlert(alertStateNotSaved, "warning", nil, u.Since, texts{
		"The state of crowsnest is not saved: after a restart it has to read older lines again",
		fmt.Sprintf("Saving has failed since %s: %v. Detection and alerts continue; saving resumes by itself.", formatTime(u.Since), u.Why),
		"Check whether the folder of storage.path is full, read-only or used by another instance.",
	})}
}

// skews has the time since when the clock of an endpoint has differed, by endpoint.
type skews map[string]time.Time

func (s skews) alert(now time.Time, e sinks.EndpointStatus) []episodes.Episode {
	skew := time.Duration(e.ClockSkew * float64(time.Second))
	if !e.Up || skew.Abs() < maxSkew {
		delete(s, e.Endpoint)
		return nil
	}
	since, known := s[e.Endpoint]
	if !known {
		since = now
		s[e.Endpoint] = now
	}
	if now.Sub(since) < skewedFor {
		return nil
	}
	return []episodes.Episode{newAlert(alertClockSkew, "warning", map[string]string{"endpoint": e.Endpoint}, since, texts{
		"The clocks of crowsnest and of " + e.Endpoint + " differ",
		fmt.Sprintf("According to its answers, its clock is %v ahead (negative: behind). Alerts are sent with its time; their annotations contain local times.", skew.Round(time.Second)),
		"Check the time synchronization of both machines.",
	})}
}

// evicted is the reason that sinks count for alerts that were dropped because of a limit.
const evicted = "evicted"

type drops map[string]drop

type drop struct {
	count        int64
	since, until time.Time // start and end of the alert
}

func (d drops) alert(now time.Time, e sinks.EndpointStatus) []episodes.Episode {
	x := d[e.Endpoint]
	if n := e.Failed[evicted]; n > x.count {
		if x.until.Before(now) {
			x.since = now
		}
		x.count, x.until = n, now.Add(lossShown)
		d[e.Endpoint] = x
	}
	if x.until.Before(now) {
		return nil
	}
	return []episodes.Episode{newAlert(alertAlertsDropped, "critical", map[string]string{"endpoint": e.Endpoint}, x.since, texts{
		"Alerts were dropped before " + e.Endpoint + " accepted them",
		fmt.Sprintf("%d ended alerts were dropped in total: more of them waited for this receiver than crowsnest keeps, or than it saves for a restart. "+
			"The receiver was not notified of them. Open alerts are never dropped.", x.count),
		"Restore the receiver, and check the Alerts page for alerts that ended meanwhile.",
	})}
}

const (
	alertNoStandby = "CrowsnestNoStandby"
	// lonelyAfter is how long a leader may be without a standby. A rolling update is shorter.
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
