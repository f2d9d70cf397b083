package upstream

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/hits"
)

// A process that answers again after another one has answered runs beside it. One that
// replaces another does not, and an answer that was in transit meanwhile proves nothing.
func TestAnswered(t *testing.T) {
	now := time.Unix(1e9, 0)
	f := func(want bool, ids ...string) {
		t.Helper()
		var a answered
		for _, id := range ids {
			a.saw(id, a.changes, now)
		}
		require.Equal(t, want, !a.twofold(now).IsZero(), ids)
	}
	f(false)
	f(false, "a", "a", "", "a")
	f(false, "a", "b", "b", "c")
	f(true, "a", "b", "a")
	f(true, "a", "b", "", "c", "a")
	f(true, "a", "b", "b", "a", "c")

	var a answered
	a.saw("a", 0, now)
	begun := a.changes
	a.saw("b", a.changes, now)
	a.saw("a", begun, now) // it was sent before b took the place of a
	require.Zero(t, a.twofold(now))
	for i := range 100 {
		a.saw(string(rune('c'+i)), a.changes, now)
		require.LessOrEqual(t, len(a.replaced), maxReplaced)
	}
}

// service sends every new connection to the next of its processes, and keeps a
// connection where it is.
type service struct {
	mu        sync.Mutex
	processes []string
	next      int
	kept      *peer // of messages
}

func (s *service) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	id := s.processes[0]
	if r.Method == http.MethodGet {
		s.next++
		id = s.processes[s.next%len(s.processes)]
	}
	s.mu.Unlock()
	if r.Method == http.MethodGet {
		return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Header: http.Header{hits.ProcessHeader: {id}}}, nil
	}
	resp, err := s.kept.RoundTrip(r)
	if err == nil {
		resp.Header.Set(hits.ProcessHeader, id)
	}
	return resp, err
}

// Two aggregators behind one address are noticed although each agent keeps its connection
// to one, and so is the return to one. A restart does not count as two.
func TestTwoAggregators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind := &service{processes: []string{"a"}, kept: &peer{}}
		s, err := New(Config{URL: "http://aggregator:9798", Node: "n1"}, Options{Transport: behind})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = s.Run(ctx)
		}()
		after := func(d time.Duration, processes ...string) time.Time {
			behind.mu.Lock()
			behind.processes = processes
			behind.mu.Unlock()
			time.Sleep(d)
			synctest.Wait()
			return s.Stats().Twofold
		}
		require.Zero(t, after(time.Hour, "a"))
		require.Zero(t, after(time.Hour, "b"))
		since := after(4*probeEvery, "b", "c")
		require.NotZero(t, since)
		require.Equal(t, since, after(time.Hour, "b", "c"), "it goes on")
		require.NotZero(t, after(twofoldFor-2*probeEvery, "c"))
		require.Zero(t, after(twofoldFor, "c"))
		cancel()
		<-done
	})
}
