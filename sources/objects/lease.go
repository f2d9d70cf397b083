package objects

import (
	"encoding/json"
	"time"
)

// leaseState is what was proved about a Lease.
type leaseState uint8

const (
	leaseUnknown  leaseState = iota // seen once: it may be held or stale
	leaseHeld                       // the lease was renewed while it was watched
	leaseStale                      // the lease was not renewed within its duration
	leaseReleased                   // the lease has no holder
)

// lease is the part of a Lease that is remembered.
type lease struct {
	holder      word
	valid       time.Duration // duration after each renewal; zero if the lease never becomes stale
	renewed     string        // the time that the holder wrote, never compared with a clock
	transitions int32

	state leaseState
	// since is when the renewal was first seen, by the clock of this process. The API
	// server answered since then.
	since time.Time
}

func projectLease(spec json.RawMessage) *lease {
	var r struct {
		Holder      string `json:"holderIdentity"`
		Seconds     int32  `json:"leaseDurationSeconds"`
		Renewed     string `json:"renewTime"`
		Transitions int32  `json:"leaseTransitions"`
	}
	_ = json.Unmarshal(spec, &r) // without a spec, nobody holds it
	return &lease{holder: wordOf(r.Holder), valid: time.Duration(max(r.Seconds, 0)) * time.Second, renewed: r.Renewed, transitions: r.Transitions}
}

// follow sets the state of l, which was read at a time, from what was known before; nil:
// nothing. A Lease that is seen for the first time may have been abandoned long ago, and
// one from the saved state while this process did not run.
func (l *lease) follow(last *lease, at time.Time) {
	l.since = at
	switch {
	case l.holder == wordOf(""):
		l.state = leaseReleased
	case last == nil && l.valid > 0:
		l.state = leaseUnknown
	case last == nil || last.renewed != l.renewed || last.holder != l.holder:
		l.state = leaseHeld
	case !last.since.IsZero():
		l.state, l.since = last.state, last.since
	case last.state == leaseStale:
		l.state = leaseStale
	}
}

// overdue reports whether the Lease is stale if it was not renewed since it was read.
func (l *lease) overdue(now time.Time) bool {
	return (l.state == leaseUnknown || l.state == leaseHeld) && l.valid > 0 && now.Sub(l.since) >= l.valid
}
