package sinks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
)

func TestStateRestartedEndpoint(t *testing.T) {
	s := NewState(testConfig())
	s.Notify([]episodes.Episode{firing(1, 0), firing(2, 0), firing(3, 0)}, t0)
	require.Len(t, s.Accepted(s.Due(t0, 10), t0), 3)
	now := t0.Add(5 * time.Minute)
	s.Accepted(s.Due(now, 10), now)
	s.Notify([]episodes.Episode{resolved(3, 0, 5*time.Minute)}, now)
	s.Accepted(s.Due(now, 10), now)
	now = now.Add(30 * time.Second)
	s.Notify([]episodes.Episode{resolved(2, 0, 5*time.Minute)}, now)

	s.Restarted(t0.Add(-time.Hour), t0.Add(time.Minute))
	require.Equal(t, "2 resolved new", words(s.Due(now, 10)), "it started before")

	s.Restarted(now.Add(-time.Second), now)
	due := s.Due(now, 10)
	require.Equal(t, "1 firing new, 2 firing new, 3 resolved", words(due))
	require.Empty(t, s.Accepted(due, now), "none of them for the first time")
	now = now.Add(time.Minute)
	require.Equal(t, "2 resolved new, 1 firing, 3 resolved", words(s.Due(now, 10)))

	// The end was sent to one that had restarted unnoticed.
	s.Accepted(s.Due(now, 10), now)
	now = now.Add(30 * time.Second)
	s.Restarted(now.Add(-10*time.Second), now)
	require.Equal(t, "1 firing new, 2 resolved, 3 resolved", words(s.Due(now, 10)), "these ends were sent before")
	s.Accepted(s.Due(now, 10), now)
	now = now.Add(10 * time.Minute)
	s.Accepted(s.Due(now, 10), now)
	now = now.Add(30 * time.Second)
	s.Notify([]episodes.Episode{resolved(1, 0, 5*time.Minute)}, now)
	s.Accepted(s.Due(now, 10), now)
	s.Restarted(now.Add(-time.Second), now)
	require.Equal(t, "1 firing new", words(s.Due(now, 1)))

	// Only the end was sent to the new process.
	f := func(then time.Duration, want string) {
		t.Helper()
		s := NewState(testConfig())
		s.Notify([]episodes.Episode{firing(1, 0)}, t0)
		s.Accepted(s.Due(t0, 1), t0)
		now := t0.Add(5 * time.Minute)
		s.Notify([]episodes.Episode{resolved(1, 0, 5*time.Minute)}, now)
		s.Accepted(s.Due(now, 1), now)
		s.Restarted(now.Add(then), now)
		require.Equal(t, want, words(s.Due(now, 1)))
	}
	f(-time.Second, "1 firing new")
	f(time.Second, "1 resolved")
}

func TestStateRestartedUnnoticed(t *testing.T) {
	// It was sent again since the start: only the end has to wait.
	s := NewState(testConfig())
	s.Notify([]episodes.Episode{firing(1, 0)}, t0)
	s.Accepted(s.Due(t0, 10), t0)
	s.Accepted(s.Due(t0.Add(time.Minute), 10), t0.Add(time.Minute))
	s.Restarted(t0.Add(30*time.Second), t0.Add(time.Minute))
	s.Notify([]episodes.Episode{resolved(1, 0, 61*time.Second)}, t0.Add(61*time.Second))
	require.Empty(t, s.Due(t0.Add(119*time.Second), 10))
	require.Equal(t, "1 resolved new", words(s.Due(t0.Add(2*time.Minute), 10)))
}
