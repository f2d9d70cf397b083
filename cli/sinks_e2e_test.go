//go:build e2e

package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/servers"
)

// The daemon tells a real Loki and a webhook, also when Loki is away first, and
// its metrics are its own.
func TestDaemonTellsLokiAndWebhook(t *testing.T) {
	l := servers.Loki(t, servers.LokiOptions{})
	posted := make(chan string, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		posted <- string(body)
	}))
	defer hook.Close()
	dir := t.TempDir()
	log := filepath.Join(dir, "app.log")
	require.NoError(t, os.WriteFile(log, nil, 0o600))
	config := filepath.Join(dir, "crowsnest.yml")
	require.NoError(t, os.WriteFile(config, []byte(fmt.Sprintf(`
global: {external_labels: {cluster: c1}}
sources: {files: {paths: [{path: %q, labels: {container: etcd, namespace: kube-system}}]}}
sinks:
  loki: {url: %q}
  webhook: {url: "%s/secret-path"}
storage: {path: %q}
`, log, l.URL, hook.URL, filepath.Join(dir, "state"))), 0o600))
	l.Kill()
	start := time.Now()
	addr := fmt.Sprintf("127.0.0.1:%d", servers.FreePort(t))
	cmd := exec.Command(build(t), "run", "--config.file", config, "--web.listen-address", addr)
	out, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	defer cmd.Process.Kill()
	get := func(path string) (body string) {
		_ = servers.Get(context.Background(), "http://"+addr+path, func(b []byte) error { body = string(b); return nil })
		return body
	}
	require.Eventually(t, func() bool { return get("/-/ready") != "" }, 20*time.Second, 50*time.Millisecond)
	f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = fmt.Fprintln(f, "mvcc: database space exceeded")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	for body := ""; ; { // the heartbeat is posted as well
		select {
		case body = <-posted:
		case <-time.After(30 * time.Second):
			t.Fatal("the webhook got no alert")
		}
		if strings.Contains(body, `"alertname":"EtcdOutOfSpace"`) {
			require.Contains(t, body, `"line":"mvcc: database space exceeded"`)
			break
		}
	}
	l.Launch()
	l.WaitReady()
	require.Eventually(t, func() bool {
		return len(l.Query("", `{service_name="crowsnest", cluster="c1", severity="critical"} | alertname="EtcdOutOfSpace" | event="opened"`, start)) == 1
	}, 90*time.Second, 200*time.Millisecond)
	metrics := get("/metrics")
	require.Contains(t, metrics, `crowsnest_notification_queue_length{endpoint="`+l.URL+`",sink="loki"} 0`)
	require.Contains(t, metrics, `sink="webhook"`)
	require.NotContains(t, metrics, "promtail_")
	require.NotContains(t, metrics, "secret-path")
	require.NotContains(t, get("/api/v1/status/config"), "secret-path")
	l.Suspend()
	at := time.Now()
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())
	t.Logf("stopped %s after SIGTERM with Loki hanging", time.Since(at).Round(time.Millisecond))
	l.Resume()
	text, err := os.ReadFile(out.Name())
	require.NoError(t, err)
	require.NotContains(t, string(text), "secret-path")
}
