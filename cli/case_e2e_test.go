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

// A case of a running daemon has the alert, the other one of its namespace, and what the
// daemon cannot see.
func TestE2ECase(t *testing.T) {
	bin, dir := build(t), t.TempDir()
	am := httptest.NewServer(fakeam.New())
	t.Cleanup(am.Close)
	addr, err := daemon.FreeAddr()
	require.NoError(t, err)
	pods := filepath.Join(dir, "pods")
	log := filepath.Join(pods, "kube-system_kcm_0b5d7c1e-0000-4000-8000-000000000001", "kcm", "0.log")
	require.NoError(t, os.MkdirAll(filepath.Dir(log), 0o755))
	now := time.Now().UTC()
	at := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339Nano) }
	require.NoError(t, os.WriteFile(log, fmt.Appendf(nil, "%s stderr F the disk is slow\n%s stderr F lost the lease, password=hunter2 <script>\n", at(-2*time.Second), at(-time.Second)), 0o600))
	rules := filepath.Join(dir, "rules.yaml")
	require.NoError(t, os.WriteFile(rules, []byte(`pack: {name: p, rules: 3}
rules:
- {alert: LeaseLost, from: '{namespace="kube-system"}', match: lost the lease, by: [namespace], severity: critical, annotations: {summary: Nobody has the lease}}
- {alert: DiskSlow, from: '{namespace="kube-system"}', match: the disk is slow, by: [namespace], severity: warning}
- {alert: NeverRead, from: '{component="leases"}', match: 'msg="lease is stale"', by: [namespace], severity: warning}
`), 0o600))
	d := &daemon.Daemon{Binary: bin, Dir: dir, Addr: addr}
	require.NoError(t, d.Configure(fmt.Sprintf("rules: {shipped: false, paths: [%q]}\nsources:\n  kubelet: {dir: %q}\nsinks:\n  alertmanager: {urls: [%q]}\n", rules, pods, am.URL)))
	require.NoError(t, d.Start())
	t.Cleanup(func() { _, _ = d.End(os.Kill) })
	require.NoError(t, d.Ready(t.Context(), time.Minute))
	run := func(args ...string) (string, error) {
		out, err := exec.Command(bin, args...).Output()
		return string(out), err
	}
	var print []string
	require.True(t, wait.Until(time.Minute, func() bool {
		text, err := run("get", "episodes", "--url", "http://"+addr, "-o", "json", `alertname="LeaseLost"`)
		print = regexp.MustCompile(`"fingerprint":\s*"([0-9a-f]{16})"`).FindStringSubmatch(text)
		return err == nil && print != nil
	}))
	for form, want := range map[string][]string{
		"html":     {"Nobody has the lease", "DiskSlow", "NeverRead", "same namespace kube-system", "&lt;script&gt;"},
		"markdown": {"Nobody has the lease", "DiskSlow", "NeverRead"},
		"json":     {`"kind": "daemon"`, `"alert": "DiskSlow"`},
	} {
		text, err := run("case", "-o", form, "--url", "http://"+addr, print[1])
		require.NoError(t, err)
		for _, w := range want {
			require.Contains(t, text, w, "%s without %s", form, w)
		}
		require.NotContains(t, text, "hunter2")
		if form == "html" {
			require.NotContains(t, text, "<script>")
		}
	}
	cmd := exec.Command(bin, "case", "--url", "http://"+addr, "ffffffffffffffff")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "no episode that is open or remembered has this fingerprint")
}
