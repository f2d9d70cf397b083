package upstream

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"crowsnest/hits"
	"crowsnest/internal/pause"
)

const (
	// probeEvery is how often the sink makes a new connection to see which process
	// answers. The connection of the messages stays with one aggregator for hours.
	probeEvery   = time.Minute
	probeTimeout = 5 * time.Second
	// twofoldFor is how long two aggregators are reported after both answered: if
	// both run, ten new connections in a row miss a given one once in a thousand
	// times.
	twofoldFor = 10 * probeEvery
	// maxReplaced is how many replaced aggregators are remembered.
	maxReplaced = 16
)

// answered records which processes answer at the address of the aggregator, in
// order. Sink.mu guards it.
type answered struct {
	last     string   // id of the newest
	replaced []string // that answered before it, oldest first
	changes  int      // of last

	two, since time.Time // when two were seen last, and since when
}

// saw records which process answered a request; changes is the value when the request
// was sent. A replaced process never answers again. So if a process answers again
// after another one did, both run. An answer whose request was sent before the last
// change proves nothing.
func (a *answered) saw(id string, changes int, now time.Time) {
	if id == "" || id == a.last || changes != a.changes {
		return
	}
	if slices.Contains(a.replaced, id) {
		if a.twofold(now).IsZero() {
			a.since = now
		}
		a.two = now
	}
	if a.last != "" {
		a.replaced = slices.DeleteFunc(a.replaced, func(p string) bool { return p == a.last || p == id })
		a.replaced = append(a.replaced, a.last)
		a.replaced = a.replaced[max(0, len(a.replaced)-maxReplaced):]
	}
	a.last = id
	a.changes++
}

// twofold returns since when two processes answer, zero if they do not.
func (a *answered) twofold(now time.Time) time.Time {
	if a.two.IsZero() || now.Sub(a.two) >= twofoldFor {
		return time.Time{}
	}
	return a.since
}

// saw records which process answered.
func (s *Sink) saw(id string, changes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered.saw(id, changes, s.now())
}

// changes returns the value that saw needs after a request.
func (s *Sink) changes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answered.changes
}

// watchAggregators probes about once a minute until ctx ends.
func (s *Sink) watchAggregators(ctx context.Context) {
	for {
		if !pause.Sleep(ctx, probeEvery/2+rand.N(probeEvery), nil) { //nolint:gosec // chance is all that is needed
			return
		}
		s.probe(ctx)
	}
}

// probe makes a new connection and records which process answers it. It ignores
// failures: the messages report them.
func (s *Sink) probe(ctx context.Context) {
	client, err := s.fresh.Client()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.targets.url()+hits.Path, nil)
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
