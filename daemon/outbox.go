package daemon

import (
	"sync"
	"time"

	"crowsnest/episodes"
)

const (
	// freshFor is how long after it fired a conclusion is saved at once.
	freshFor = 2 * time.Second
	// heldAtMost is how long a conclusion waits for the standby. A leader that cannot reach
	// its standby and the record does not lead any more by then.
	heldAtMost = 10 * time.Second
)

// outbox holds what is to be notified until the standby has the conclusion. Otherwise a
// leader that is cut off would notify of what its successor does not know, and the
// successor would conclude and notify it again. It is safe for concurrent use.
type outbox struct {
	urgent func() // saves soon
	send   func([]episodes.Episode)

	mu   sync.Mutex
	seq  uint64
	held []letter // oldest first
}

type letter struct {
	seq uint64
	at  time.Time
	eps []episodes.Episode
}

// add holds episodes. The caller holds the checkpoint lock, for reading.
func (o *outbox) add(eps []episodes.Episode, now time.Time) {
	if len(eps) == 0 {
		return
	}
	o.mu.Lock()
	o.seq++
	o.held = append(o.held, letter{o.seq, now, eps})
	o.mu.Unlock()
	for i := range eps {
		if eps[i].State == episodes.StateResolved || now.Sub(eps[i].FiredAt) < freshFor {
			o.urgent()
			return
		}
	}
}

// newest returns the number of the newest episodes. The caller holds the checkpoint lock, for
// writing: a snapshot that is copied now contains them.
func (o *outbox) newest() uint64 {
	if o == nil {
		return 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seq
}

// release sends the episodes up to a number.
func (o *outbox) release(upTo uint64) {
	if o == nil {
		return
	}
	o.flush(func(l letter) bool { return l.seq <= upTo })
}

// overdue sends what has waited for too long.
func (o *outbox) overdue(now time.Time) {
	if o == nil {
		return
	}
	o.flush(func(l letter) bool { return now.Sub(l.at) >= heldAtMost })
}

func (o *outbox) flush(due func(letter) bool) {
	o.mu.Lock()
	defer o.mu.Unlock() // also while they are sent: they stay in order
	for len(o.held) > 0 && due(o.held[0]) {
		o.send(o.held[0].eps)
		o.held = o.held[1:]
	}
}
