package upstream

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"crowsnest/hits"
)

const (
	// lookEvery is how often a new connection is made to see who answers it. The
	// connection of the messages stays with one aggregator for hours.
	lookEvery  = time.Minute
	lookWithin = 5 * time.Second
	// twoFor is how long two aggregators are reported after both answered: one of two
	// is missed by ten new connections in a row once in a thousand times.
	twoFor = 10 * lookEvery
	// maxPast is how many aggregators that were replaced are remembered.
	maxPast = 16
)

// answered is which processes answer at the address of the aggregator, in order.
// Sink.mu guards it.
type answered struct {
	last    string   // id of the newest
	past    []string // that answered before it, oldest first
	changes int      // of last

	two, since time.Time // when two were seen last, and since when
}

// saw notes which process answered a request that was sent when there had been so
// many changes. A process that was replaced never answers again, so one that
// answers after another did, which answered after it, proves that both run.
// Answers that crossed a change prove nothing.
func (a *answered) saw(id string, changes int, now time.Time) {
	if id == "" || id == a.last || changes != a.changes {
		return
	}
	if slices.Contains(a.past, id) {
		if a.twofold(now).IsZero() {
			a.since = now
		}
		a.two = now
	}
	if a.last != "" {
		a.past = slices.DeleteFunc(a.past, func(p string) bool { return p == a.last || p == id })
		a.past = append(a.past, a.last)
		a.past = a.past[max(0, len(a.past)-maxPast):]
	}
	a.last = id
	a.changes++
}

// twofold returns since when two processes answer, zero if they do not.
func (a *answered) twofold(now time.Time) time.Time {
	if a.two.IsZero() || now.Sub(a.two) >= twoFor {
		return time.Time{}
	}
	return a.since
}

// saw notes which process answered.
func (s *Sink) saw(id string, changes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered.saw(id, changes, s.now())
}

// changes is what saw has to be called with after a request.
func (s *Sink) changes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answered.changes
}

// look asks who answers a new connection, once a minute until ctx ends.
func (s *Sink) look(ctx context.Context) {
	for {
		timer := time.NewTimer(lookEvery/2 + rand.N(lookEvery)) //nolint:gosec // chance is all that is needed
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		s.lookOnce(ctx)
	}
}

// lookOnce makes a new connection and asks who answers it. What does not answer
// says nothing: the messages find out what is wrong.
func (s *Sink) lookOnce(ctx context.Context) {
	client, err := s.fresh()
	if err != nil {
		return
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.cfg.URL+hits.Path, nil)
	if err != nil {
		return
	}
	changes := s.changes()
	resp, err := client.Do(req)
	if err != nil {
		return
	}
	resp.Body.Close()
	s.saw(resp.Header.Get(hits.ProcessHeader), changes)
}
