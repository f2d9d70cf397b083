package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/sinks"
	"crowsnest/state"
	"crowsnest/test/setclock"
)

func TestUnsavedAlert(t *testing.T) {
	since := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f := func(u unsaved, now time.Time, want bool) {
		t.Helper()
		e, ok := unsavedAlert(now, u)
		require.Equal(t, want, ok)
		if ok {
			require.Equal(t, since, e.StartsAt)
			require.Contains(t, e.Annotations["description"], "no space left")
		}
	}
	full := unsaved{since, errors.New("no space left")}
	f(unsaved{}, since.Add(time.Hour), false)
	f(full, since, false)
	f(full, since.Add(unsavedAfter-1), false)
	f(full, since.Add(unsavedAfter), true)
	f(full, since.Add(24*time.Hour), true)

	// A clock that is set is no time that passes.
	var clock setclock.Clock
	from := clock.Now()
	clock.Set(time.Hour)
	_, ok := unsavedAlert(clock.Now(), unsaved{since: from, why: errors.New("full")})
	require.False(t, ok)
}

func TestSkewAlert(t *testing.T) {
	f := func(skew float64, up, want bool) {
		t.Helper()
		s := skews{}
		for _, after := range []time.Duration{0, skewedFor - 1, skewedFor, time.Hour} {
			e, ok := s.alert(time.Unix(1, 0).Add(after), sinks.EndpointStatus{Endpoint: "http://am:9093", Up: up, ClockSkew: skew})
			require.Equal(t, want && after >= skewedFor, ok)
			require.True(t, !ok || e.StartsAt.Equal(time.Unix(1, 0)))
		}
		_, ok := s.alert(time.Unix(2, 0), sinks.EndpointStatus{Endpoint: "http://am:9093", Up: true})
		require.False(t, ok)
		require.Empty(t, s)
	}
	f(0, true, false)
	f(29, true, false)
	f(-29, true, false)
	f(30, true, true)
	f(-3600, true, true)
	f(-3600, false, false) // what it said last may be long ago
}

// The state cannot be saved, and then it can: it is known since when, and saving
// resumes by itself. The lock is taken again if its file is gone.
func TestSaverRecovers(t *testing.T) {
	now := time.Unix(1000, 0)
	clock := func() time.Time { return now }
	dir := filepath.Join(t.TempDir(), "state")
	s := &saver{dir: dir, pipe: newPipeline(episodes.New(episodes.Config{}), clock), log: zerolog.Nop()}
	s.hold()
	require.NotNil(t, s.held)
	s.save()
	require.Zero(t, s.unsaved())

	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.WriteFile(dir, nil, 0o600)) // not a folder any more
	for range 3 {
		now = now.Add(time.Minute)
		s.hold()
		s.save()
		require.Equal(t, time.Unix(1060, 0), s.unsaved().since)
		require.Error(t, s.unsaved().why)
	}
	saved, failures := s.status()
	require.Equal(t, time.Unix(1000, 0), saved)
	require.Equal(t, int64(3), failures)

	require.NoError(t, os.Remove(dir))
	require.False(t, s.held.Valid())
	s.hold()
	require.True(t, s.held.Valid())
	s.save()
	require.Zero(t, s.unsaved())
	payload, note, err := state.Load(dir)
	require.NoError(t, err)
	require.Empty(t, note)
	require.NotEmpty(t, payload)

	// Another instance is there first.
	require.NoError(t, os.RemoveAll(dir))
	other, err := state.Lock(t.Context(), dir)
	require.NoError(t, err)
	now = now.Add(time.Minute)
	s.hold()
	require.False(t, s.keeps())
	require.ErrorIs(t, s.unsaved().why, state.ErrLocked)
	s.save()
	require.NoFileExists(t, filepath.Join(dir, "state"))
	require.NoError(t, other.Release())
	s.hold()
	require.True(t, s.keeps())
	s.save()
	require.FileExists(t, filepath.Join(dir, "state"))
	require.Zero(t, s.unsaved())
	s.release()
}

// What a receiver accepted that cannot tell repeats apart is saved before the next
// turn.
func TestAcceptedIsSavedSoon(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := &saver{dir: dir, pipe: newPipeline(episodes.New(episodes.Config{}), time.Now), log: zerolog.Nop(), urgent: make(chan struct{}, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.run(ctx) }()
		f := func(unique bool, after time.Duration) {
			t.Helper()
			began := time.Now()
			for range 10 {
				s.accepted(unique)
			}
			<-time.After(saveEvery)
			synctest.Wait()
			saved, errors := s.status()
			require.Zero(t, errors)
			require.Equal(t, after, saved.Sub(began))
		}
		f(true, urgentEvery)
		f(false, saveEvery)
		cancel()
		<-done
		s.release()
	})
}
