package sentinel

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const attached = `E0302 10:00:00.000000       1 vol.go:31] "Cannot delete the volume" err="volume %s is still attached to node a, failed to detach"`

func recorded(w *world, n int, least Evidence) []UnknownFailure {
	listed, _ := w.RecordedFailures(n, least)
	return listed
}

// recordedAt returns what is reported of a log with lines at these times, in seconds.
func recordedAt(t *testing.T, line func(i int) string, times ...int) []UnknownFailure {
	w := newWorld(t, Config{})
	for i, at := range times {
		w.now = began.Add(time.Duration(at) * time.Second)
		w.read(manager, line(i))
	}
	return recorded(w, 5, Repeated)
}

func TestRepeats(t *testing.T) {
	same := func(int) string { return fresh }
	one := func(int) string { return fmt.Sprintf(attached, "pvc-a1") }
	another := func(i int) string { return fmt.Sprintf(attached, fmt.Sprintf("pvc-a%d", i)) }
	waiting := func(int) string { return `2026-03-02 10:00:00 waiting for volume shop/a to be healthy` }
	hours := func(n int) (out []int) {
		for i := range n {
			out = append(out, i*7200, i*7200+3, i*7200+9)
		}
		return out
	}
	f := func(want int, line func(int) string, times ...int) {
		t.Helper()
		got := recordedAt(t, line, times...)
		require.Len(t, got, want)
		for _, u := range got {
			require.Equal(t, whyRepeats, u.Reason)
		}
	}
	f(1, same, 0, 60, 120, 240, 300)
	f(1, one, 0, 1, 3, 7, 15, 31, 63, 127, 255)
	f(1, one, 90000, 90100, 90250, 90400) // it begins after a day of other lines
	f(0, same, 0, 0, 1)                   // one attempt at the start
	f(0, same, 0, 60, 120)                // over within minutes
	f(0, same, hours(12)...)              // seldom
	f(0, same, 0, 20000, 40000, 80000)
	f(0, another, 0, 60, 120, 240, 300, 400) // another object each time
	f(0, waiting, 0, 60, 120, 240, 300)      // nothing has failed yet
	f(1, waiting, 0, 120, 240, 360, 480, 650)
}

// A complaint that was over long before the log ended is none.
func TestRepeatsIsOver(t *testing.T) {
	f := func(after time.Duration) int {
		w := newWorld(t, Config{})
		for range 5 {
			w.read(manager, fresh)
			w.now = w.now.Add(time.Minute)
		}
		w.now = w.now.Add(after)
		w.read(manager, `E0302 10:00:00.000000       1 b.go:8] "Cannot store the key" err="the vault refused it"`)
		return len(recorded(w, 5, Repeated))
	}
	require.Equal(t, 1, f(time.Minute))
	require.Zero(t, f(time.Hour))
}

// Why a program ended comes before what it said earlier, and takes over an open alert.
func TestEndComesFirst(t *testing.T) {
	const ended = `E0302 10:00:00.000000       1 main.go:9] "problem running manager" err="the lease of the leader was lost" namespace="shop" name="md-0-a"`
	w := newWorld(t, Config{})
	for i := range 20 {
		w.read(manager, fmt.Sprintf(stuck, "a", i))
		if i >= 8 {
			w.read(manager, ended)
		}
		w.pass(5 * time.Minute)
		if i == 7 {
			require.Contains(t, w.firing["capi-system/manager"].Annotations["description"], "Pattern: Reconciler error")
		}
	}
	text := w.firing["capi-system/manager"].Annotations["description"]
	require.Contains(t, text, "Pattern: problem running manager: the lease of the leader was lost")
	require.Contains(t, text, "Also:\n  Reconciler error")
	require.Equal(t, began, w.firing["capi-system/manager"].StartsAt)
}

// The cause at the end of a long error, and below the first line of a record, is shown.
func TestCauseIsShown(t *testing.T) {
	long := `E0302 10:00:00.000000       1 c.go:3] "Reconciler error" err="` + strings.Repeat("cannot apply the step: ", 60) + `the disk is full" namespace="shop" name="a"`
	record := "E0302 10:00:00.000000       1 c.go:3] \"Cannot store the row\" err=<\n\tthe database refused it\n\tthe disk is full\n > namespace=\"shop\" name=\"a\""
	for _, line := range []string{long, record} {
		got := recordedAt(t, func(int) string { return line }, 0, 60, 120, 240, 300)
		require.Len(t, got, 1)
		require.True(t, strings.HasSuffix(string(got[0].Pattern), "the disk is full"), got[0].Pattern)
		require.Contains(t, got[0].Examples[0], "the disk is full")
		require.LessOrEqual(t, len(got[0].Examples[0]), maxExample)
	}
}

// Browsers that leave are ordinary, however often.
func TestClientsLeave(t *testing.T) {
	w := newWorld(t, Config{})
	for range 40 {
		w.read(manager, `time="2026-03-02T10:00:00Z" level=error msg="Error during subscribe websocket: close sent"`)
		w.pass(5 * time.Minute)
	}
	require.Empty(t, w.firing)
	require.Empty(t, recorded(w, 5, Repeated))
}
