package objects

import (
	"encoding/json"
	"time"
)

// leaseState is what has been proved about a Lease.
type leaseState uint8

const (
	leaseUnknown  leaseState = iota // the lease was seen only once, so it may be held or stale
	leaseHeld                       // the lease was renewed while it was watched
	leaseStale                      // the lease was not renewed within its duration
	leaseReleased                   // the lease has no holder
)

// lease is the remembered part of a Lease.
type lease struct {
	holder      word
	valid       time.Duration // time for which a renewal is valid; zero if the lease never becomes stale
	renewed     string        // time that the holder wrote, which is never compared with a clock
	transitions int32

	state leaseState
	// since is the time when this process first saw the renewal. The API server has answered
	// since then.
	since time.Time
}

func projectLease(spec json.RawMessage) *lease {
	var r struct {
		Holder      string `json:"holderIdentity"`
		Seconds     int32  `json:"leaseDurationSeconds"`
		Renewed     string `json:"renewTime"`
		Transitions int32  `json:"leaseTransitions"`
	}
	_ = json.Unmarshal(spec, &r) // nobody holds a Lease without a spec
	return &lease{holder: internWord(r.Holder), valid: time.Duration(max(r.Seconds, 0)) * time.Second, renewed: r.Renewed, transitions: r.Transitions}
}

// followLast sets the state of l from the last state of the same Lease, which is nil if it is
// new. l was read at t. A new Lease may have been abandoned long ago. A Lease from the saved
// state may have been abandoned while this process did not run.
func (l *lease) followLast(last *lease, t time.Time) {
	l.since = t
	switch {
	case l.holder == internWord(""):
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

// isOverdue reports whether the Lease is stale at now, if it was not renewed since it was read.
func (l *lease) isOverdue(now time.Time) bool {
	return (l.state == leaseUnknown || l.state == leaseHeld) && l.valid > 0 && now.Sub(l.since) >= l.valid
}
