package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/lab/inputs"
	"crowsnest/matcher"
)

// watched is a pack that is watched, one tick at a time.
type watched struct {
	t    *testing.T
	out  bytes.Buffer
	tick chan time.Time
	end  func()
}

// watchPack watches a folder with one pack until the test ends.
func watchPack(t *testing.T, w *packWatch) *watched {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	x := &watched{t: t, tick: make(chan time.Time)}
	w.out, w.now = &x.out, func() time.Time { return time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC) }
	done := make(chan error)
	go func() { done <- w.run(ctx, x.tick) }()
	x.end = func() {
		cancel()
		require.NoError(t, <-done)
	}
	synctest.Wait()
	return x
}

// next returns what n ticks print.
func (x *watched) next(n int) string {
	for range n {
		x.tick <- time.Time{}
		synctest.Wait()
	}
	out := x.out.String()
	x.out.Reset()
	return regexp.MustCompile(`\x1b\[[^A-Za-z]*[A-Za-z]`).ReplaceAllString(out, "")
}

const watchedPack = `pack: {name: p}
rules:
- alert: LeaseLost
  from: '{container="syncer"}'
  match: leaderelection lost
  by: [namespace]
  severity: warning
  tests:
  - name: fires
    stream: {container: syncer, namespace: a}
    input: [{at: 0s, line: leaderelection lost}]
    expect: [{at: 1m, firing: [{namespace: a}]}]
`

func TestConcurrentWatch(t *testing.T) { synctest.Test(t, testWatch) }

func testWatch(t *testing.T) {
	dir := t.TempDir()
	pack := filepath.Join(dir, "p.yaml")
	write := func(text string) { // an editor replaces the file by renaming
		require.NoError(t, os.WriteFile(pack+".tmp", []byte(text), 0o600))
		require.NoError(t, os.Rename(pack+".tmp", pack))
	}
	write(watchedPack)
	log := filepath.Join(dir, "x.log")
	require.NoError(t, os.WriteFile(log, []byte("2026-11-20T09:00:00Z leaderelection lost\n2026-11-20T09:00:01Z fine\n"), 0o600))
	w := &packWatch{name: ownName, paths: []string{pack}, mutate: true, log: &watchedLog{paths: []string{log}, lenient: true, find: inputs.Options{Labels: matcher.Labels{}, Unpack: t.TempDir()}}}
	x := watchPack(t, w)
	defer x.end()
	x.out.Reset()
	require.Empty(t, x.next(3), "nothing changed")

	write(strings.Replace(watchedPack, "at: 1m,", "at: 1h,", 1))
	out := x.next(2)
	require.Contains(t, out, "10:00:00  FAILED: 1 file, 1 rule, 0 warnings; 1 test, 1 failed")
	require.Contains(t, out, "FAIL "+pack+":9: LeaseLost / fires\n  line 12: at 1h0m0s: firing alerts differ")
	require.Contains(t, out, "log: 1 alert from 1 match of 2 lines\n  LeaseLost: 1 line, 1 alert\n")

	write("pack: {name: p}\nrules:\n- alert: LeaseLost\n  fro: x\n")
	out = x.next(2)
	require.Contains(t, out, "BROKEN: ")
	require.Contains(t, out, "did you mean")

	require.NoError(t, os.Remove(pack))
	require.Contains(t, x.next(2), "check the path")

	write(watchedPack)
	out = x.next(2)
	require.Contains(t, out, "ok: 1 file, 1 rule, 0 warnings; 1 test, 0 failed, 2 parts without a test")
	require.Contains(t, out, "UNPROTECTED "+pack)

	// While the file changes at every tick, nothing is printed.
	for i := range 5 {
		write(watchedPack + fmt.Sprintf("# %d\n", i))
		require.Empty(t, x.next(1))
	}
	require.Contains(t, x.next(1), "ok: ")
}

// The screen is cleared on a terminal only.
func TestConcurrentWatchScreen(t *testing.T) {
	pack := filepath.Join(t.TempDir(), "p.yaml")
	require.NoError(t, os.WriteFile(pack, []byte(watchedPack), 0o600))
	for _, terminal := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		var out bytes.Buffer
		w := &packWatch{name: ownName, paths: []string{pack}, out: &out, clear: terminal, now: time.Now}
		tick := make(chan time.Time)
		done := make(chan error)
		go func() { done <- w.run(ctx, tick) }()
		tick <- time.Time{}
		cancel()
		require.NoError(t, <-done)
		require.Equal(t, terminal, strings.HasPrefix(out.String(), "\x1b[H\x1b[2J"))
	}
}

// The built-in packs are loaded beside the watched ones, and only these are tested.
func TestConcurrentWatchBesideShipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pack := filepath.Join(t.TempDir(), "p.yaml")
		write := func(text string) { require.NoError(t, os.WriteFile(pack, []byte(text), 0o600)) }
		write(watchedPack)
		x := watchPack(t, &packWatch{name: ownName, paths: []string{pack}, shipped: true})
		defer x.end()
		require.Contains(t, x.out.String(), "ok: 1 file, 1 rule, 0 warnings; 1 test, 0 failed")
		write(strings.Replace(watchedPack, "LeaseLost", "ControllerPanics", 1))
		require.Contains(t, x.next(2), "BROKEN: 1 error")
	})
}
