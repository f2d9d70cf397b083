//go:build e2e

package cli

import (
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/daemon"
	"crowsnest/test/fakeam"
	"crowsnest/test/wait"
)

// An open episode of a running daemon becomes a test of its rule, with the labels of the
// stream, and as a false page it is one that fails.
func TestE2ECapture(t *testing.T) {
	bin, dir := build(t), t.TempDir()
	am := httptest.NewServer(fakeam.New())
	t.Cleanup(am.Close)
	addr, err := daemon.FreeAddr()
	require.NoError(t, err)
	pods := filepath.Join(dir, "pods")
	log := filepath.Join(pods, "kube-system_kcm_0b5d7c1e-0000-4000-8000-000000000001", "kcm", "0.log")
	require.NoError(t, os.MkdirAll(filepath.Dir(log), 0o755))
	now := time.Now().UTC()
	require.NoError(t, os.WriteFile(log, fmt.Appendf(nil, "%s stderr F lost the lease, password=hunter2\n", now.Add(-time.Second).Format(time.RFC3339Nano)), 0o600))
	rules := filepath.Join(dir, "rules.yaml")
	require.NoError(t, os.WriteFile(rules, []byte(`pack: {name: p} # ours
rules:
- alert: LeaseLost
  from: '{container="kcm"}'
  match: lost the lease
  by: [namespace]
  severity: critical
`), 0o600))
	d := &daemon.Daemon{Binary: bin, Dir: dir, Addr: addr}
	require.NoError(t, d.Configure(fmt.Sprintf("rules: {shipped: false, paths: [%q]}\nsources:\n  kubelet: {dir: %q}\nsinks:\n  alertmanager: {urls: [%q]}\n", rules, pods, am.URL)))
	require.NoError(t, d.Start())
	t.Cleanup(func() { _, _ = d.End(os.Kill) })
	require.NoError(t, d.Ready(t.Context(), time.Minute))
	var print []string
	require.True(t, wait.Until(time.Minute, func() bool {
		text, err := exec.Command(bin, "get", "episodes", "--url", "http://"+addr, "-o", "json", `alertname="LeaseLost"`).Output()
		print = regexp.MustCompile(`"fingerprint":\s*"([0-9a-f]{16})"`).FindStringSubmatch(string(text))
		return err == nil && print != nil
	}))
	for _, args := range [][]string{{}, {"--false-page"}} {
		out, err := exec.Command(bin, append([]string{"rules", "capture", "--url", "http://" + addr, "--write", rules, print[1]}, args...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	text, err := os.ReadFile(rules)
	require.NoError(t, err)
	require.Contains(t, string(text), "pack: {name: p} # ours\n")
	require.Contains(t, string(text), "stream: {namespace: kube-system, pod: kcm, container: kcm")
	require.NotContains(t, string(text), "hunter2")
	out, err := exec.Command(bin, "test", "rules", rules).CombinedOutput()
	require.Error(t, err, "the false page fires")
	require.Contains(t, string(out), "2 tests, 1 failed")
}
