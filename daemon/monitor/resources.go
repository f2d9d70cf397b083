package monitor

import (
	"fmt"
	"strconv"
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

// SaveFailure says since when and why the state is not saved. The time is zero if it is.
type SaveFailure struct {
	Since time.Time
	Err   error
}

func unsavedAlert(now time.Time, u SaveFailure) []episodes.Episode {
	if u.Since.IsZero() || now.Sub(u.Since) < unsavedAfter {
		return nil
	}
	return []episodes.Episode{newAlert(alertStateNotSaved, nil, u.Since,
		"{since}", formatTime(u.Since), "{why}", fmt.Sprint(u.Err))}
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
	return []episodes.Episode{newAlert(alertClockSkew, map[string]string{"endpoint": e.Endpoint}, since,
		"{skew}", skew.Round(time.Second).String())}
}

// evicted is the reason that sinks count for alerts that were dropped because of a limit.
const evicted = "evicted"

type drops map[string]dropPeriod

type dropPeriod struct {
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
	return []episodes.Episode{newAlert(alertAlertsDropped, map[string]string{"endpoint": e.Endpoint}, x.since,
		"{count}", strconv.FormatInt(x.count, 10))}
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
	return []episodes.Episode{newAlert(alertNoStandby, nil, since, "{since}", formatTime(since))}
}
