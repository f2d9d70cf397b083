package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"crowsnest/agent/client"
	"crowsnest/daemon/state"
	"crowsnest/episodes"
	"crowsnest/internal/times"
	"crowsnest/matcher"
	"crowsnest/rules"
)

// localPipeline returns a pipeline with an engine of its own.
func localPipeline(cfg episodes.Config, now func() time.Time) *pipeline {
	e := episodes.New(cfg)
	return newPipeline(e, local{e}, now)
}

// The state cannot be saved for a while: the daemon knows since when, and saving resumes by
// itself. The lock is acquired again if its file was removed.
func TestSaverRecovers(t *testing.T) {
	now := time.Unix(1000, 0)
	clock := func() time.Time { return now }
	dir := filepath.Join(t.TempDir(), "state")
	s := &saver{dir: dir, pipe: localPipeline(episodes.Config{}, clock), log: zerolog.Nop()}
	s.tryLock()
	require.NotNil(t, s.stateLock)
	s.save()
	require.Zero(t, s.unsavedSince())

	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.WriteFile(dir, nil, 0o600)) // not a folder any more
	for range 3 {
		now = now.Add(time.Minute)
		s.tryLock()
		s.save()
		require.Equal(t, time.Unix(1060, 0), s.unsavedSince().Since)
		require.Error(t, s.unsavedSince().Err)
	}
	saved, failures := s.status()
	require.Equal(t, time.Unix(1000, 0), saved)
	require.Equal(t, int64(3), failures)

	require.NoError(t, os.Remove(dir))
	require.False(t, s.stateLock.Valid())
	s.tryLock()
	require.True(t, s.stateLock.Valid())
	s.save()
	require.Zero(t, s.unsavedSince())
	payload, note, err := state.Load(dir)
	require.NoError(t, err)
	require.Empty(t, note)
	require.NotEmpty(t, payload)

	// Another instance is there first.
	require.NoError(t, os.RemoveAll(dir))
	other, err := state.Lock(t.Context(), dir)
	require.NoError(t, err)
	now = now.Add(time.Minute)
	s.tryLock()
	require.False(t, s.savesState())
	require.ErrorIs(t, s.unsavedSince().Err, state.ErrLocked)
	s.save()
	require.NoFileExists(t, filepath.Join(dir, "state"))
	require.NoError(t, other.Release())
	s.tryLock()
	require.True(t, s.savesState())
	s.save()
	require.FileExists(t, filepath.Join(dir, "state"))
	require.Zero(t, s.unsavedSince())
	s.unlock()
}

// If a receiver does not detect repeats, an update that it accepted is saved before the
// next turn.
func TestAcceptedIsSavedSoon(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := &saver{dir: dir, pipe: localPipeline(episodes.Config{}, time.Now), log: zerolog.Nop(), urgent: make(chan struct{}, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.run(ctx) }()
		f := func(unique bool, after time.Duration) {
			t.Helper()
			began := time.Now()
			for range 10 {
				s.accept(unique)
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
		s.unlock()
	})
}

// A snapshot of an agent waits until the aggregator has saved the hits before it.
func TestSnapshotsWait(t *testing.T) {
	up, err := client.New(client.Config{URL: "http://a:1", Node: "n1"}, client.Options{})
	require.NoError(t, err)
	pipe := localPipeline(episodes.Config{}, time.Now)
	pipe.concluder = &remoteConcluder{local: local{pipe.engine}, sink: up}
	s := &saver{dir: t.TempDir(), pipe: pipe, log: zerolog.Nop()}
	s.save()
	saved, errs := s.status()
	require.False(t, saved.IsZero(), "nothing was found before")
	require.Zero(t, errs)

	r := &rules.Rule{Alert: "A"}
	for range 5 {
		up.Take([]matcher.Hit{{Rule: r, Time: time.Now(), Line: "line"}})
		pipe.changed.Store(true)
		s.step(context.Background(), false)
	}
	require.Len(t, s.waiting, maxWaiting)
	again, _ := s.status()
	require.Equal(t, saved, again, "the aggregator has nothing yet")
	first := s.waiting[0].seq
	s.step(context.Background(), true)
	require.Len(t, s.waiting, maxWaiting)
	require.Equal(t, first, s.waiting[0].seq)
	require.Equal(t, uint64(3), s.waiting[1].seq, "the last one is from the end")
}

// append appends the same as json.Marshal.
func TestSnapshotIsJSON(t *testing.T) {
	f := func(s snapshot) {
		t.Helper()
		want, err := json.Marshal(s)
		require.NoError(t, err)
		engine := func(b []byte) ([]byte, error) { return append(b, cmp.Or(string(s.Engine), "null")...), nil }
		got, err := s.appendJSON([]byte("before"), engine)
		require.NoError(t, err)
		require.Equal(t, "before"+string(want), string(got))
	}
	none, some := map[string]json.RawMessage{}, map[string]json.RawMessage{"b": json.RawMessage(`{"x":[1]}`), "a\"<": json.RawMessage(`1`), "none": nil}
	at := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	f(snapshot{Version: 1, SavedAt: at, Sources: none})
	f(snapshot{Version: 1, SavedAt: at, Clock: times.Stamps{Periods: []times.Period{{Until: at, Shift: time.Hour}}}, Sources: none})
	f(snapshot{Version: 1, SavedAt: at, Engine: json.RawMessage(`{"e":2}`), Sources: some, Sinks: none, Self: json.RawMessage(`{"seen":1}`)})
	f(snapshot{Version: 1, SavedAt: at, Engine: json.RawMessage(`{"e":2}`), Sources: none, Sinks: some})
}
