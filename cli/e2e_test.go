//go:build e2e

package cli

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// build makes the program.
func build(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "crowsnest")
	out, err := exec.Command("go", "build", "-o", bin, "crowsnest/cmd/crowsnest").CombinedOutput()
	require.NoError(t, err, string(out))
	return bin
}

// Every incident becomes the alerts that it should, at a real Alertmanager, and
// nothing else does.
func TestE2EDemo(t *testing.T) {
	bin := build(t)
	for range 2 { // a second run must work as well
		tmp := t.TempDir()
		cmd := exec.Command(bin, "demo", "--until-done")
		cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), "received every expected alert and no other")
		left, err := os.ReadDir(tmp)
		require.NoError(t, err)
		require.Empty(t, left, "the temporary folder is removed")
	}
}

var address = regexp.MustCompile(`Alertmanager\s+http://(\S+)`)

// However a demo ends, its Alertmanager ends with it.
func TestE2EDemoEnds(t *testing.T) {
	bin := build(t)
	f := func(sig syscall.Signal, clean bool) {
		t.Helper()
		tmp := t.TempDir()
		cmd := exec.Command(bin, "demo")
		cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
		stderr, err := cmd.StderrPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		var addr string
		sc := bufio.NewScanner(stderr)
		for sc.Scan() && !strings.HasPrefix(sc.Text(), "playing") {
			if m := address.FindStringSubmatch(sc.Text()); m != nil {
				addr = m[1]
			}
		}
		require.NotEmpty(t, addr)
		require.NoError(t, cmd.Process.Signal(sig))
		_, err = io.Copy(io.Discard, stderr)
		require.NoError(t, err)
		err = cmd.Wait()
		require.Eventually(t, func() bool {
			conn, err := net.Dial("tcp", addr)
			if err == nil {
				conn.Close()
			}
			return err != nil
		}, 10*time.Second, 50*time.Millisecond, "Alertmanager is gone")
		if clean {
			require.NoError(t, err)
			left, err := os.ReadDir(tmp)
			require.NoError(t, err)
			require.Empty(t, left)
		}
	}
	f(syscall.SIGINT, true)
	f(syscall.SIGTERM, true)
	f(syscall.SIGKILL, false)
}
