package alertmanager

import "time"

const (
	// agree is how much two clocks may differ and count as the same: a Date
	// header has seconds.
	agree = 2 * time.Second
	// differ is by how much the idea of a peer's clock has to change to tell it
	// everything again.
	differ = 30 * time.Second
	// believable is by how much a peer's clock may be off and still be one.
	believable = 24 * time.Hour
)

// peer is what is known of the clock of an Alertmanager. An alert means there
// what it says by that clock: one whose end has passed is over, and one whose
// end is to come is not, whatever we meant.
type peer struct {
	date time.Time     // that the last answer bore; zero: none did
	read time.Time     // when it came, by a clock that is not set
	took time.Duration // from the question to the answer: the date may be that old
}

// at returns what the peer's clock shows when ours shows now; now itself where
// the two agree or nothing is known. It is never early, and late by a second and
// the time that the answer took at most. When our clock is set the answer does not change: time.Now has a
// reading that is never set, and Sub uses that.
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

// heard takes the date of the answer to what was asked at asked. It returns true
// if what was told before was told by another idea of the peer's clock.
func (e *endpoint) heard(date, asked, now time.Time) bool {
	if date.IsZero() {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.peer.at(now)
	e.peer = peer{date: date, read: now, took: max(0, now.Sub(asked))}
	e.skew = date.Sub(now).Round(time.Second)
	return e.peer.at(now).Sub(before).Abs() >= differ
}

// repeat tells everything again at once, after a batch that changed the idea of
// the peer's clock: what was meant to be open may be over there, and the other
// way round. Not all the time: behind a name there may be several clocks.
func (e *endpoint) repeat() {
	now := e.now()
	if !e.changed || !e.repeated.IsZero() && now.Sub(e.repeated) < checkEvery {
		return
	}
	e.changed, e.repeated = false, now
	e.mu.Lock()
	e.state.Repeat()
	skew := e.skew
	e.mu.Unlock()
	e.log.Warn().Dur("ahead", skew).Msg("the clock of the alertmanager differs from ours: times are sent by its clock")
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
