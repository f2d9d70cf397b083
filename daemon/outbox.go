package daemon

import (
	"sync"
	"time"

	"crowsnest/episodes"
)

const (
	// freshFor is how long after it fired a conclusion is saved immediately.
	freshFor = 2 * time.Second
	// heldAtMost is how long a conclusion waits for the standby. A leader without contact has lost the lead then.
	heldAtMost = 10 * time.Second
)

// outbox holds notifications until the standby has their conclusions. Without it, a leader that
// is cut off would send notifications that its successor does not know, and the successor would
// conclude and notify again. It is safe for concurrent use.
type outbox struct {
	saveSoon func() // makes the saver save soon
	send     func([]episodes.Episode)

	mu   sync.Mutex
	seq  uint64
	held []notification // held notifications, oldest first
}

type notification struct {
	seq uint64
	at  time.Time
	eps []episodes.Episode
}

// add holds episodes back. The caller must hold the checkpoint lock for reading.
func (o *outbox) add(eps []episodes.Episode, now time.Time) {
	if len(eps) == 0 {
		return
	}
	o.mu.Lock()
	o.seq++
	o.held = append(o.held, notification{o.seq, now, eps})
	o.mu.Unlock()
	for i := range eps {
		if eps[i].State == episodes.StateResolved || now.Sub(eps[i].FiredAt) < freshFor {
			o.saveSoon()
			return
		}
	}
}

// newestSeq returns the number of the newest episodes. The caller must hold the checkpoint lock
// for writing, so that a snapshot copied now contains them.
func (o *outbox) newestSeq() uint64 {
	if o == nil {
		return 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seq
}

// sendUpTo sends the episodes with numbers up to upTo.
func (o *outbox) sendUpTo(upTo uint64) {
	o.sendDue(func(l notification) bool { return l.seq <= upTo })
}

// sendOverdue sends episodes that have waited for too long.
func (o *outbox) sendOverdue(now time.Time) {
	o.sendDue(func(l notification) bool { return now.Sub(l.at) >= heldAtMost })
}

func (o *outbox) sendDue(due func(notification) bool) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock() // held while they are sent, so that they stay in order
	for len(o.held) > 0 && due(o.held[0]) {
		o.send(o.held[0].eps)
		o.held = o.held[1:]
	}
}
