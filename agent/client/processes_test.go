package client

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/agent/wire"
)

// A process that answers again after another one has answered runs beside it. One that
// replaces another does not.
func TestProcesses(t *testing.T) {
	now := time.Unix(1e9, 0)
	f := func(names string, want bool) {
		t.Helper()
		var p processes
		for _, name := range strings.Split(names, ",") {
			p.noteAnswer(name, now)
		}
		require.Equal(t, want, !p.twofoldSince(now).IsZero(), names)
	}
	f("", false)
	f("a,a,,a", false)
	f("a,b,b,c", false)
	f("a,b,a", true)
	f("a,b,,b,a,c", true)
}

// service is a Service in front of several processes: each new connection reaches the next
// one, and requests stay with their connection.
type service struct {
	*peer
	mu        sync.Mutex
	processes []string
	next      int
}

func (s *service) CloseIdleConnections() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
}

func (s *service) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	name := s.processes[s.next%len(s.processes)]
	s.mu.Unlock()
	resp, err := s.peer.RoundTrip(r)
	if err == nil {
		resp.Header.Set(wire.ProcessHeader, name)
	}
	return resp, err
}

// Two aggregators behind one address are noticed, and so is the return to one. A restart
// does not count as two.
func TestTwoAggregators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind := &service{processes: []string{"a"}, peer: &peer{}}
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
			time.Sleep(d) // virtual
			synctest.Wait()
			return s.Stats().TwoAggregatorsSince
		}
		require.Zero(t, after(time.Hour, "a"))
		require.Zero(t, after(time.Hour, "b"))
		since := after(6*reconnectEvery, "b", "c")
		require.NotZero(t, since)
		require.Equal(t, since, after(time.Hour, "b", "c"), "it goes on")
		require.NotZero(t, after(twofoldFor-2*reconnectEvery, "c"))
		require.Zero(t, after(twofoldFor, "c"))
		cancel()
		<-done
	})
}
