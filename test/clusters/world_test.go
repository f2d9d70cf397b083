// Package clusters tests clusters with equal namespaces and pods, which must never be mixed, with the
// real binary.
package clusters

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/daemon"
	"crowsnest/test/fakeam"
	"crowsnest/test/wait"
)

const patience = time.Minute

var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "clusters")
	if err != nil {
		fmt.Fprintln(os.Stderr, "clusters:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "crowsnest")
	if err := daemon.Build(binary); err != nil {
		fmt.Fprintln(os.Stderr, "clusters:", err)
		return 1
	}
	return m.Run()
}

// world has the Alertmanager of all clusters.
type world struct {
	*testing.T
	am  *fakeam.AM
	url string // the address of the Alertmanager
}

func newWorld(t *testing.T) *world {
	t.Helper()
	am := fakeam.New()
	s, err := fakeam.Serve(am)
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	return &world{T: t, am: am, url: s.URL}
}

// start starts a daemon with a configuration.
func (w *world) start(config string) *daemon.Daemon {
	w.Helper()
	addr, err := daemon.FreeAddr()
	require.NoError(w, err)
	d := &daemon.Daemon{Binary: binary, Dir: w.TempDir(), Addr: addr}
	require.NoError(w, d.Configure(config))
	w.Cleanup(func() {
		_, _ = d.End(syscall.SIGKILL)
		if w.Failed() && os.Getenv("CROWSNEST_LOGS") != "" {
			w.Log(d.LogEnd())
		}
	})
	require.NoError(w, d.Start())
	require.NoError(w, d.Ready(w.Context(), patience))
	return d
}

func (w *world) eventually(what string, ok func() bool) {
	w.Helper()
	require.True(w, wait.Until(patience, ok), what)
}
