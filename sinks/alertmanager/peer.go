package alertmanager

import "time"

const (
	// agree is by how much two clocks may differ and count as equal: a Date header
	// has a resolution of seconds.
	agree = 2 * time.Second
	// differ is by how much the estimate of a peer's clock must change before
	// everything is sent again.
	differ = 30 * time.Second
	// believable is the largest offset of a peer's clock that is believed. A clock that was set wrong by days is no
	// rarer than one by minutes; a Date header of another century is none.
	believable = 10 * 365 * 24 * time.Hour
)

// peer is the estimated clock of an Alertmanager. An Alertmanager compares an alert's
// times with its own clock: an alert whose end has passed is resolved, and one whose
// end is in the future is firing.
type peer struct {
	date time.Time     // date of the last response; zero if no response had one
	read time.Time     // when that answer came, by a monotonic clock
	took time.Duration // duration of the request: the date may be that old
}

// at returns the time on the peer's clock when ours is now; it returns now if the
// two agree or nothing is known. The result is never early, and late by at most a
// second plus the duration of the request. It does not change when our clock is
// set: Sub uses the monotonic reading of time.Now.
func (p peer) at(now time.Time) time.Time {
	if p.date.IsZero() {
		return now
	}
	t := p.date.Add(now.Sub(p.read))
	if ahead := t.Sub(now); ahead < agree && ahead > -agree-p.took || ahead.Abs() > believable {
		return now
	}
	return t
}

// heard records the date of an answer to a request made at asked; zero if it had none.
func (e *endpoint) heard(date, asked, now time.Time) {
	if date.IsZero() {
		return
	}
	before := e.peer.at(now)
	e.peer = peer{date: date, read: now, took: max(0, now.Sub(asked))}
	e.changed = e.changed || e.peer.at(now).Sub(before).Abs() >= differ
	e.mu.Lock()
	defer e.mu.Unlock()
	e.skew = date.Sub(now).Round(time.Second)
}

// repeat makes everything due again after a batch that changed the estimate of the
// peer's clock: alerts that should be open may be over there, and vice versa. It
// does so at most once per checkEvery: several clocks may answer under one name.
func (e *endpoint) repeat() {
	now := e.now()
	if !e.changed || !e.repeated.IsZero() && now.Sub(e.repeated) < checkEvery {
		return
	}
	e.changed, e.repeated = false, now
	e.Repeat()
	e.Log.Warn().Dur("ahead", e.skew).Msg("the clock of the alertmanager differs from ours: times are converted to its clock")
}
