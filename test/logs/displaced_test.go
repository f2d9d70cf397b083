package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/test/daemon"
	"crowsnest/test/fakeam"
	"crowsnest/test/kubesim"
	"crowsnest/test/wait"
)

const displacedConfig = `rules: {shipped: false, paths: [%s]}
sources:
  kubelet: {dir: %s}
sinks:
  alertmanager: {urls: [%q], resend_delay: 1s, min_firing: 0s}
limits: {active_alerts: 20, alerts_per_namespace: 20}
`

const displacedPack = `pack: {name: logs, version: 1.0.0}
rules:
- {alert: LeaseLost, severity: warning, from: '{container="app"}', match: lease lost, clear: lease taken, by: [namespace, pod], annotations: {summary: It is lost.}}
`

// Alerts that lost their places to other namespaces are not notified as resolved, before a kill and
// after it, until their clear line is read.
func TestDisplacedOverAKill(t *testing.T) {
	t.Parallel()
	am := fakeam.New()
	server, err := fakeam.Serve(am)
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	dir := t.TempDir()
	rules, pods := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "pods")
	require.NoError(t, os.WriteFile(rules, []byte(displacedPack), 0o600))
	require.NoError(t, os.Mkdir(pods, 0o755))
	addr, err := daemon.FreeAddr()
	require.NoError(t, err)
	d := &daemon.Daemon{Binary: program, Dir: dir, Addr: addr}
	require.NoError(t, d.Configure(fmt.Sprintf(displacedConfig, rules, pods, server.URL)))
	t.Cleanup(func() { _, _ = d.End(syscall.SIGKILL) })
	eventually := func(what string, ok func() bool) {
		t.Helper()
		require.True(t, wait.Until(patience, ok), "%s\n%s", what, d.LogEnd())
	}
	logs := map[string]*kubesim.Container{}
	write := func(namespace, pod, text string) {
		key := namespace + "/" + pod
		if logs[key] == nil {
			logs[key] = kubesim.New(kubesim.Options{Root: pods, Namespace: namespace, Pod: pod, Container: "app"})
			t.Cleanup(logs[key].Close)
		}
		logs[key].Write("stderr", text)
	}
	// notified returns how often it was said since then that alerts of a namespace fire, and which
	// are resolved.
	notified := func(namespace string, since int) (firing map[string]bool, resolved []string) {
		firing = map[string]bool{}
		for _, w := range am.Accepted("LeaseLost")[since:] {
			pod := w.Alert.Labels["pod"]
			switch {
			case w.Alert.Labels["namespace"] != namespace:
			case w.Resolved:
				resolved = append(resolved, pod)
			default:
				firing[pod] = true
			}
		}
		return firing, resolved
	}
	write("a", "p0", "started")
	require.NoError(t, d.Start())
	require.NoError(t, d.Ready(t.Context(), patience))
	for i := range 20 {
		write("a", fmt.Sprint("p", i), "lease lost")
	}
	eventually("all fire", func() bool { firing, _ := notified("a", 0); return len(firing) == 20 })
	for i := range 9 {
		write(fmt.Sprint("b", i), "p", "lease lost")
	}
	eventually("others have places", func() bool { firing, _ := notified("b8", 0); return len(firing) == 1 })
	last := func() string {
		all := am.Accepted("LeaseLost")
		for i := len(all) - 1; i >= 0; i-- {
			if a := all[i].Alert; a.Labels["namespace"] == "a" && a.Annotations["ended"] != "" {
				return a.Labels["pod"]
			}
		}
		return ""
	}
	eventually("one was displaced", func() bool { return last() != "" })
	gone := last()
	for range 2 {
		_, _ = d.End(syscall.SIGKILL)
		since := len(am.Accepted("LeaseLost"))
		require.NoError(t, d.Start())
		require.NoError(t, d.Ready(t.Context(), patience))
		eventually("all are notified again", func() bool { firing, _ := notified("a", since); return len(firing) == 20 })
		_, resolved := notified("a", 0)
		require.Empty(t, resolved)
	}
	write("a", gone, "lease taken")
	eventually("its end is known", func() bool { _, resolved := notified("a", 0); return len(resolved) > 0 })
	_, resolved := notified("a", 0)
	require.Equal(t, gone, resolved[0])
}
