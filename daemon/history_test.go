package daemon

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"crowsnest/daemon/config"
	"crowsnest/daemon/state"
	"crowsnest/episodes"
	"crowsnest/episodes/history"
	"crowsnest/web"
)

// past returns the answer to a query of the history.
func (s *ship) past(query string) web.History {
	s.t.Helper()
	code, body := s.get("/api/v1/history" + query)
	require.Equal(s.t, http.StatusOK, code, body)
	var answer struct{ Data web.History }
	require.NoError(s.t, json.Unmarshal([]byte(body), &answer))
	return answer.Data
}

// fireAndClear makes an alert and ends it.
func (s *ship) fireAndClear(n int) {
	s.t.Helper()
	s.log("vc-0", "text of a, password=hunter2")
	s.eventually(func() bool { return len(s.am.firing("A")) == n }, "the alert arrives")
	s.log("vc-0", "recovered")
	s.eventually(func() bool { return s.past("?filter=alertname%3DA").Total == n }, "it is in the history")
}

// An ended alert is in the history once, also over restarts, with or without the snapshot.
func TestHistoryOverRestarts(t *testing.T) {
	s := newShip(t)
	s.start()
	s.fireAndClear(1)
	s.eventually(func() bool { return s.past("?q=a").Episodes[0].Notified == 2 }, "it counts what Alertmanager accepted")
	s.stop()
	saved, err := os.ReadFile(s.dir + "/state/history")
	require.NoError(t, err)
	require.NotContains(t, string(saved), "hunter2", "no secret in the history")

	s.start()
	require.Equal(t, 1, s.past("").Total)
	s.fireAndClear(2)
	got := s.past("?filter=alertname%3DA").Episodes
	require.Equal(t, 1, got[0].Flaps)
	require.Zero(t, got[1].Flaps)
	require.Equal(t, 2, got[1].Notified)
	require.EqualValues(t, 1, got[0].Count)
	require.Equal(t, episodes.ReasonClear, got[0].Reason)
	s.stop()

	require.NoError(t, os.Remove(s.dir+"/state/state"))
	require.NoError(t, os.Remove(s.dir+"/state/state.prev"))
	s.start()
	s.eventually(func() bool {
		_, body := s.get("/metrics")
		return strings.Contains(body, `source_lines_total{source="kubelet"} 4`)
	}, "all is read again")
	s.fireAndClear(3)
	require.Len(t, s.past("").Episodes, 3)
}

// Pages, API and history show the external labels, find an alert by them, and by its
// fingerprint with and without them.
func TestOneIdentity(t *testing.T) {
	s := newShip(t)
	s.start()
	s.log("vc-0", "text of a")
	s.eventually(func() bool { return len(s.am.firing("A")) == 1 }, "the alert arrives")
	s.am.mu.Lock()
	set := model.LabelSet{}
	for _, p := range s.am.posts {
		if p.Labels["alertname"] == "A" {
			for name, value := range p.Labels {
				set[model.LabelName(name)] = model.LabelValue(value)
			}
		}
	}
	s.am.mu.Unlock()
	require.Equal(t, model.LabelValue("lab"), set["cluster"])
	theirs := set.Fingerprint().String()
	delete(set, "cluster")
	ours := set.Fingerprint().String()

	find := func(open bool) {
		t.Helper()
		for _, fp := range []string{ours, theirs} {
			code, body := s.get("/episodes/" + fp)
			require.Equal(t, http.StatusOK, code)
			require.Contains(t, body, "lab")
			for _, path := range []string{"/api/v1/episodes/" + fp, "/api/v1/episodes/" + fp + "/timeline"} {
				code, body = s.get(path)
				require.Equal(t, http.StatusOK, code, path)
				require.Contains(t, body, `"fingerprint":"`+ours+`","externalFingerprint":"`+theirs+`"`, path)
				require.Contains(t, body, `"cluster":"lab"`, path)
			}
			if _, body = s.get("/api/v1/alerts?fingerprint=" + fp); open {
				require.Contains(t, body, `"cluster":"lab"`)
			}
			if !open {
				require.Equal(t, 1, s.past("?fingerprint="+fp).Total)
			}
		}
		for filter, want := range map[string]bool{"cluster%3Dlab": true, "cluster%3Dother": false} {
			_, body := s.get("/api/v1/episodes?filter=" + filter)
			require.Equal(t, want, strings.Contains(body, ours), filter)
			if !open {
				require.Equal(t, want, s.past("?filter="+filter).Total == 1, filter)
			}
		}
	}
	find(true)
	s.log("vc-0", "recovered")
	s.eventually(func() bool { return s.past("").Total == 1 }, "it ends")
	find(false)
	// Later only the history has it.
	s.d.engine.Evaluate(time.Now().Add(time.Hour))
	require.NotContains(t, fmt.Sprint(s.d.engine.Episodes(time.Now())), ours)
	for _, fp := range []string{ours, theirs} {
		code, body := s.get("/episodes/" + fp)
		require.Equal(t, http.StatusOK, code)
		require.Contains(t, body, "a log line reports the recovery")
	}
}

// pastIn returns a history in a folder, with one alert that ended.
func pastIn(t *testing.T, dir string) *endedHistory {
	t.Helper()
	p := newPast(config.Storage{Path: dir, HistoryFor: time.Hour * 24 * 30, HistoryEntries: 1000, HistoryMiB: 1}, zerolog.Nop())
	require.NoError(t, p.load())
	return p
}

func endedAt(n int) history.Entry {
	at := time.Date(2026, 3, 1, 0, n, 0, 0, time.UTC)
	return history.Entry{Fingerprint: uint64(n), Alert: "A", Labels: map[string]string{"alertname": "A"}, StartsAt: at, EndsAt: at, ConcludedAt: at}
}

// If the file is damaged, replaced or removed, the next save writes every missing entry once.
func TestHistoryFile(t *testing.T) {
	now := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	f := func(what string, lost int, change func(t *testing.T, dir string, p *endedHistory)) {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			p := pastIn(t, dir)
			for n := range 5 {
				p.Add(endedAt(n))
				require.NoError(t, p.save(now))
			}
			change(t, dir, p)
			p.Add(endedAt(5))
			require.NoError(t, p.save(now))
			require.NoError(t, p.save(now))
			again := pastIn(t, dir)
			require.Len(t, again.All(now), 6-lost)
			records, note, err := state.NewLog(dir, historyFile).Load()
			require.NoError(t, err)
			require.Empty(t, note)
			require.Len(t, records, 6-lost, "nothing is written twice")
		})
	}
	f("nothing", 0, func(*testing.T, string, *endedHistory) {})
	f("removed", 0, func(t *testing.T, dir string, _ *endedHistory) { require.NoError(t, os.RemoveAll(dir)) })
	f("shortened", 0, func(t *testing.T, dir string, _ *endedHistory) {
		require.NoError(t, os.Truncate(filepath.Join(dir, historyFile), 100))
	})
	f("a restart with a truncated tail", 1, func(t *testing.T, dir string, p *endedHistory) {
		path := filepath.Join(dir, historyFile)
		fi, err := os.Stat(path)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(path, fi.Size()-10))
		*p = *pastIn(t, dir)
	})
	f("a restart with a damaged record", 1, func(t *testing.T, dir string, p *endedHistory) {
		path := filepath.Join(dir, historyFile)
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		b[len(b)/2] ^= 1
		require.NoError(t, os.WriteFile(path, b, 0o600))
		*p = *pastIn(t, dir)
	})
	f("another instance wrote meanwhile", -1, func(t *testing.T, dir string, p *endedHistory) {
		other := endedAt(7)
		o := pastIn(t, dir)
		o.Add(other)
		require.NoError(t, o.save(now))
		late := newPast(config.Storage{Path: dir, HistoryFor: time.Hour * 24 * 30, HistoryEntries: 1000, HistoryMiB: 1}, zerolog.Nop())
		late.Add(endedAt(1)) // the other instance has read this entry already
		*p = *late
	})
}

// The file stays within its bound, and what it loses are the oldest episodes.
func TestHistoryFileIsBounded(t *testing.T) {
	now := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	dir := t.TempDir()
	p := newPast(config.Storage{Path: dir, HistoryFor: time.Hour * 24 * 30, HistoryEntries: 100_000, HistoryMiB: 1}, zerolog.Nop())
	for n := range 6000 {
		e := endedAt(n)
		e.Summary = strings.Repeat("x", 200)
		p.Add(e)
		if n%50 == 0 {
			require.NoError(t, p.save(now))
			fi, err := os.Stat(filepath.Join(dir, historyFile))
			require.NoError(t, err)
			require.LessOrEqual(t, fi.Size(), int64(1<<20))
		}
	}
	require.NoError(t, p.save(now))
	again := pastIn(t, dir)
	require.Equal(t, p.All(now)[0].Fingerprint, again.All(now)[0].Fingerprint)
	require.Less(t, len(again.All(now)), 6000)
}

// A history that cannot be written does not keep the snapshot from being saved, and is
// written when that is possible again.
func TestHistoryThatCannotBeWritten(t *testing.T) {
	now := time.Unix(1000, 0)
	dir := t.TempDir()
	s := &saver{dir: dir, pipe: localPipeline(episodes.Config{}, func() time.Time { return now }), endedHistory: pastIn(t, dir), log: zerolog.Nop()}
	s.tryLock()
	require.NoError(t, os.Mkdir(filepath.Join(dir, historyFile), 0o700))
	s.endedHistory.Add(endedAt(1))
	s.save()
	saved, failures := s.status()
	require.Equal(t, now, saved)
	require.EqualValues(t, 1, failures)
	require.ErrorContains(t, s.unsavedSince().Err, "save history")

	// Killed now, the next process has the episode from the snapshot.
	next := &saver{dir: dir, pipe: s.pipe, endedHistory: newPast(config.Storage{Path: dir, HistoryFor: time.Hour * 24 * 365 * 100, HistoryEntries: 10, HistoryMiB: 1}, zerolog.Nop()), log: zerolog.Nop()}
	require.True(t, next.restoreState())
	require.Len(t, next.endedHistory.All(now), 1)

	require.NoError(t, os.RemoveAll(filepath.Join(dir, historyFile)))
	now = now.Add(2 * replaceEvery)
	s.save()
	require.Zero(t, s.unsavedSince())
	records, _, err := state.NewLog(dir, historyFile).Load()
	require.NoError(t, err)
	require.Len(t, records, 1)
	s.unlock()
}

// Writing everything is not tried again at once.
func TestReplaceIsNotRepeated(t *testing.T) {
	now := time.Unix(1000, 0)
	dir := t.TempDir()
	p := pastIn(t, dir)
	p.Add(endedAt(1))
	require.NoError(t, p.save(now))
	require.NoError(t, os.Remove(filepath.Join(dir, historyFile)))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, historyFile, "x"), 0o700)) // a rename over it fails
	p.Add(endedAt(2))
	require.Error(t, p.save(now))
	require.ErrorContains(t, p.save(now.Add(time.Second)), "within a minute")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, historyFile)))
	require.NoError(t, p.save(now.Add(2*time.Minute)))
	require.NoError(t, p.save(now.Add(-time.Hour)), "the clock was set back")
}

// save writes what is not on disk. The caller holds saver.busy.
func (p *endedHistory) save(now time.Time) error {
	b, err := p.pendingBatch()
	if err == nil {
		b, err = p.write(b, now)
	}
	if err == nil {
		p.markWritten(b)
	}
	return err
}
