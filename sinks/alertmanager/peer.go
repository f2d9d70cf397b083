package alertmanager

import "time"

const (
	// clockTolerance is the difference up to which two clocks count as equal. A Date header has a
	// resolution of one second.
	clockTolerance = 2 * time.Second
	// minClockChange is the smallest change in the estimate of a peer's clock after which all messages are sent again.
	minClockChange = 30 * time.Second
	// maxClockOffset is the largest offset of a peer's clock that is believed. A clock may well be wrong by days, but a
	// Date header of another century does not come from a clock.
	maxClockOffset = 10 * 365 * 24 * time.Hour
)

// peer is an estimate of an Alertmanager's clock. An Alertmanager compares an alert's times with its own clock. An
// alert whose end has passed is resolved, and one whose end is in the future is firing.
type peer struct {
	date   time.Time     // date of the last response; zero if no response had one
	readAt time.Time     // time at which that response arrived, by our monotonic clock
	took   time.Duration // duration of the request; date may be too old by this time
}

// peerTime returns the time on the peer's clock when our clock is at now. It returns now if
// the clocks agree or if nothing is known. The result is never ahead of the peer's clock, and
// at most a second plus the duration of the request behind it. The result does not change when
// our clock is set, because Sub uses the monotonic reading of time.Now.
func (p peer) peerTime(now time.Time) time.Time {
	if p.date.IsZero() {
		return now
	}
	t := p.date.Add(now.Sub(p.readAt))
	if ahead := t.Sub(now); ahead < clockTolerance && ahead > -clockTolerance-p.took || ahead.Abs() > maxClockOffset {
		return now
	}
	return t
}

// recordDate records the Date header of a response to a request that was sent at asked. date
// is zero if the response had no such header.
func (e *endpoint) recordDate(date, asked, now time.Time) {
	if date.IsZero() {
		return
	}
	before := e.peer.peerTime(now)
	e.peer = peer{date: date, readAt: now, took: max(0, now.Sub(asked))}
	e.changed = e.changed || e.peer.peerTime(now).Sub(before).Abs() >= minClockChange
	e.mu.Lock()
	defer e.mu.Unlock()
	e.skew = date.Sub(now).Round(time.Second)
}

// repeatIfChanged makes all messages due again if a batch has changed the estimate of the peer's clock. With the wrong
// estimate, Alertmanager may have resolved alerts that are firing, or the other way round. repeatIfChanged acts at most
// once per checkEvery, because several Alertmanagers with different clocks may answer under one name.
func (e *endpoint) repeatIfChanged() {
	now := e.now()
	if !e.changed || !e.repeated.IsZero() && now.Sub(e.repeated) < checkEvery {
		return
	}
	e.changed, e.repeated = false, now
	e.Repeat()
	e.Log.Warn().Dur("ahead", e.skew).Msg("the clock of the alertmanager differs from ours: times are converted to its clock")
}
