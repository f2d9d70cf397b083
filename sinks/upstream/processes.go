package upstream

import (
	"math/rand/v2"
	"time"
)

const (
	// reconnectEvery is the interval at which the sender replaces its connection, because a
	// Service chooses the process for each connection.
	reconnectEvery = time.Minute
	// twofoldFor is how long two aggregators are reported after both answered. If both run,
	// ten connections in a row miss a given one once in a thousand times.
	twofoldFor = 10 * reconnectEvery
)

// processes records which aggregators answer. A process that was replaced never answers
// again, so if one does after another process has answered, both run.
type processes struct {
	newest, previous string    // random names of the last two processes that answered
	since, seen      time.Time // first and last time at which a replaced process answered
}

// see records that the process of this name answered.
func (p *processes) see(name string, now time.Time) {
	if name == "" || name == p.newest {
		return
	}
	if name == p.previous {
		if p.twofold(now).IsZero() {
			p.since = now
		}
		p.seen = now
	}
	p.newest, p.previous = name, p.newest
}

// twofold returns the time since which two processes answer. Zero means that only one does.
func (p *processes) twofold(now time.Time) time.Time {
	if p.seen.IsZero() || now.Sub(p.seen) >= twofoldFor {
		return time.Time{}
	}
	return p.since
}

// saw records which process answered.
func (s *Sink) saw(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes.see(name, s.now())
}

// reconnect closes the connection about once a minute, so that the next request makes a new
// one.
func (w *sender) reconnect(now time.Time) {
	if now.Before(w.reconnectAt) {
		return
	}
	w.s.http.Close()
	w.reconnectAt = now.Add(reconnectEvery/2 + rand.N(reconnectEvery)) //nolint:gosec // chance is all that is needed
}
