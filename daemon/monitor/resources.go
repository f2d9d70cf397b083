package monitor

import (
	"fmt"
	"strconv"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/text"
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
	// maxSkew is the difference between the clock of an endpoint and the local clock above which an alert fires after
	// skewedFor.
	maxSkew   = 30 * time.Second
	skewedFor = 2 * time.Minute
)

// SaveFailure states since when and why the state is not saved. The time is zero if the state is saved.
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

// skews maps each endpoint with a wrong clock to the time since when its clock has been wrong.
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

// evicted is the key under which sinks count alerts that were dropped because a limit was reached.
const evicted = "evicted"

type drops map[string]dropPeriod

type dropPeriod struct {
	count        int64
	since, until time.Time // start of the alert about the drops, and the time until which it stays open
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
	// lonelyAfter is how long a leader may be without a standby before an alert fires. A rolling update takes less
	// time.
	lonelyAfter = 10 * time.Minute
)

func lonelyAlert(now, since time.Time) []episodes.Episode {
	if since.IsZero() || now.Sub(since) < lonelyAfter {
		return nil
	}
	return []episodes.Episode{newAlert(alertNoStandby, nil, since, "{since}", formatTime(since))}
}

const (
	alertDiscoveryFailing = "CrowsnestDiscoveryFailing"
	// discoveryFailingAfter is how long lookups of Alertmanagers may fail before an alert fires.
	discoveryFailingAfter = 5 * time.Minute
)

func discoveryAlert(now time.Time, d sinks.DiscoveryStatus) []episodes.Episode {
	if d.FailingSince.IsZero() || now.Sub(d.FailingSince) < discoveryFailingAfter {
		return nil
	}
	return []episodes.Episode{newAlert(alertDiscoveryFailing, map[string]string{"sink": d.Sink, "discovery": d.Discovery}, d.FailingSince,
		"{since}", formatTime(d.FailingSince), "{why}", d.Error, "{targets}", text.Plural(d.Targets, "Alertmanager"))}
}
