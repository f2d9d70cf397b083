package daemon

import (
	"sync"
	"time"

	"crowsnest/episodes"
)

const (
	// freshFor is the age up to which an alert makes the saver save soon when its notification is held. Older firing
	// alerts can wait for the next regular save.
	freshFor = 2 * time.Second
	// heldAtMost is the maximum time that a notification waits for the standby. A leader that cannot reach the standby
	// for this long has lost the lead.
	heldAtMost = 10 * time.Second
)

// outbox holds notifications until the standby has the state from which they follow. Otherwise a leader that is cut off
// could send notifications that its successor does not know, and the successor would draw the same conclusions and
// notify again. It is safe for concurrent use.
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

// add adds a notification about the episodes to those that wait. The caller must hold the checkpoint lock for reading.
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

// newestSeq returns the number of the newest notification. The caller must hold the checkpoint lock for writing. The
// snapshot that the caller copies then contains the conclusions up to this number.
func (o *outbox) newestSeq() uint64 {
	if o == nil {
		return 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seq
}

// sendUpTo sends the notifications with numbers up to upTo.
func (o *outbox) sendUpTo(upTo uint64) {
	o.sendDue(func(l notification) bool { return l.seq <= upTo })
}

// sendOverdue sends the notifications that have waited for heldAtMost.
func (o *outbox) sendOverdue(now time.Time) {
	o.sendDue(func(l notification) bool { return now.Sub(l.at) >= heldAtMost })
}

func (o *outbox) sendDue(due func(notification) bool) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock() // held during the sending, so that notifications keep their order
	for len(o.held) > 0 && due(o.held[0]) {
		o.send(o.held[0].eps)
		o.held = o.held[1:]
	}
}
