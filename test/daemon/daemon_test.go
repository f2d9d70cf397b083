package daemon

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// fake makes the test binary act as the daemon.
const fake = "CROWSNEST_TEST_FAKE_DAEMON"

func TestMain(m *testing.M) {
	if os.Getenv(fake) != "" {
		serve()
		return
	}
	goleak.VerifyTestMain(m)
}

// serve implements the requests of these tests.
func serve() {
	addr := os.Args[slices.Index(os.Args, "--web.listen-address")+1]
	fmt.Println("listens at", addr)
	http.HandleFunc("GET /-/ready", func(http.ResponseWriter, *http.Request) {})
	http.HandleFunc("POST /-/reload", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "a broken rule", http.StatusInternalServerError)
	})
	http.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "# TYPE a counter\na{b=\"c d\"} 3\n"+LinesRead+" 1.5e+06\nnonsense\n")
	})
	http.HandleFunc("GET /hang", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	fmt.Println(http.ListenAndServe(addr, nil))
}

func newFake(t *testing.T) *Daemon {
	t.Helper()
	addr, err := FreeAddr()
	require.NoError(t, err)
	d := &Daemon{
		Binary: os.Args[0], Dir: t.TempDir(), Addr: addr, Flags: []string{"--another"},
		Prepare: func(cmd *exec.Cmd) { cmd.Env = append(os.Environ(), fake+"=1") },
	}
	t.Cleanup(func() { _, _ = d.End(syscall.SIGKILL) })
	return d
}

func TestDaemon(t *testing.T) {
	d := newFake(t)
	require.Equal(t, d.Dir+"/state", d.StatePath())
	require.NoError(t, d.Configure("text"))
	require.Nil(t, d.Process())
	for range 2 {
		require.NoError(t, d.Start())
		require.Error(t, d.Start(), "it runs")
		require.NoError(t, d.Ready(t.Context(), time.Minute))
		require.NotNil(t, d.Process())
		metrics, err := d.Metrics(t.Context())
		require.NoError(t, err)
		require.Equal(t, map[string]float64{`a{b="c d"}`: 3, LinesRead: 1.5e6}, metrics)
		require.ErrorContains(t, d.Reload(t.Context()), "500 Internal Server Error: a broken rule")
		d.Signal(syscall.Signal(0))
		took, err := d.End(syscall.SIGTERM)
		require.ErrorContains(t, err, "terminated")
		require.Positive(t, took)
		took, err = d.End(syscall.SIGTERM)
		require.NoError(t, err)
		require.Zero(t, took)
		d.Signal(syscall.SIGTERM) // without a process
	}
	require.Equal(t, fmt.Sprintf("listens at %s\nlistens at %[1]s\n", d.Addr), d.Log(), "of both processes")
}

// All waits are bounded.
func TestSilence(t *testing.T) {
	d := newFake(t)
	require.ErrorContains(t, d.Ready(t.Context(), time.Millisecond), "the daemon is not ready")
	require.NoError(t, d.Start())
	require.NoError(t, d.Ready(t.Context(), time.Minute))
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := d.Get(ctx, "/hang")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	d.Binary = "/nonexistent/program"
	_, _ = d.End(syscall.SIGKILL)
	require.Error(t, d.Start())
	require.Nil(t, d.Process())
}
