package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The first Ctrl-C only ends the other processes of a pipe: what they wrote is still reported.
func TestDiscoverOutlivesInterrupt(t *testing.T) {
	delivered := make(chan os.Signal, 1)
	signal.Notify(delivered, syscall.SIGINT)
	defer signal.Stop(delivered)
	in, feed := io.Pipe()
	var out, errs bytes.Buffer
	root := newRoot(&cli{in: in, out: &out, err: &errs, getenv: func(string) string { return "" }})
	root.SetArgs([]string{"discover", "--rules", "none", "-"})
	done := make(chan error)
	go func() { done <- root.Execute() }()
	_, err := io.WriteString(feed, "E0101 10:00:00.0 1 a.go:1] leaderelection lost\n") // returns when it was read
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGINT))
	<-delivered
	require.NoError(t, feed.Close())
	require.NoError(t, <-done)
	require.Contains(t, out.String(), "leaderelection lost")
}

// The rules that discover writes for real logs pass, each part of them has a test, and they
// match the lines that report errors.
func TestDiscoverCorpus(t *testing.T) {
	const corpus = "../../shared/corpus/real"
	if _, err := os.Stat(corpus); err != nil {
		t.Skip("no corpus beside the repository")
	}
	run := func(args ...string) []byte {
		t.Helper()
		var out, errs bytes.Buffer
		root := newRoot(&cli{in: strings.NewReader(""), out: &out, err: &errs, getenv: func(string) string { return "" }})
		root.SetArgs(args)
		require.NoError(t, root.Execute(), errs.String())
		return out.Bytes()
	}
	complaints := func(args ...string) int64 {
		t.Helper()
		var r struct{ Complaints int64 }
		require.NoError(t, json.Unmarshal(run(append([]string{"discover", "--top", "0", "-o", "json", corpus}, args...)...), &r))
		return r.Complaints
	}
	pack := filepath.Join(t.TempDir(), "new.yaml")
	before := complaints("--rules", "none", "--rules-out", pack)
	require.Greater(t, before, int64(1000))
	require.Less(t, complaints("--rules", pack), before/100)
	run("check", "rules", "--strict", pack)
	run("test", "rules", "--mutate", pack)
}
