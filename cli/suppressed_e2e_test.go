//go:build e2e

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes/history"
	"crowsnest/test/daemon"
	"crowsnest/test/servers"
	"crowsnest/test/wait"
	"crowsnest/web"
)

// suppressedWithin is the time within which pages and API show a change in Alertmanager.
const suppressedWithin = 30 * time.Second

// sendJSON sends a request to an Alertmanager and returns the answer.
func sendJSON(t *testing.T, method, address string, body any) []byte {
	t.Helper()
	data, err := json.Marshal(body)
	require.NoError(t, err)
	r, err := http.NewRequestWithContext(t.Context(), method, address, bytes.NewReader(data))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, 200, res.StatusCode, string(out))
	return out
}

// Silenced and inhibited alerts of real Alertmanagers are marked within 30 seconds, and in the history.
func TestE2ESuppressed(t *testing.T) {
	bin, dir := build(t), t.TempDir()
	pair := servers.Alertmanagers(t, servers.AlertmanagerOptions{Config: `route: {receiver: none}
receivers: [{name: none}]
inhibit_rules: [{source_matchers: [alertname="NodeDown"], target_matchers: [alertname="DiskFull"], equal: [namespace]}]
`})
	pods := filepath.Join(dir, "pods")
	file := filepath.Join(pods, "kube-system_kcm_0b5d7c1e-0000-4000-8000-000000000001", "kcm", "0.log")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	log := func(text string) {
		f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		_, err = fmt.Fprintf(f, "%s stderr F %s\n", time.Now().UTC().Format(time.RFC3339Nano), text)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	rules := filepath.Join(dir, "rules.yaml")
	require.NoError(t, os.WriteFile(rules, []byte(`pack: {name: p, rules: 2}
rules:
- {alert: LeaseLost, from: '{namespace="kube-system"}', match: lost the lease, clear: got the lease, by: [namespace], severity: critical}
- {alert: DiskFull, from: '{namespace="kube-system"}', match: disk is full, by: [namespace], severity: warning}
`), 0o600))
	addr, err := daemon.FreeAddr()
	require.NoError(t, err)
	d := &daemon.Daemon{Binary: bin, Dir: dir, Addr: addr}
	require.NoError(t, d.Configure(fmt.Sprintf("global: {external_labels: {cluster: c1}}\nrules: {shipped: false, paths: [%q]}\nsources:\n  kubelet: {dir: %q}\nsinks:\n  alertmanager: {urls: [%q, %q], min_firing: 1s}\n",
		rules, pods, pair[0].URL, pair[1].URL)))
	log("lost the lease")
	log("disk is full")
	require.NoError(t, d.Start())
	t.Cleanup(func() { _, _ = d.End(os.Kill) })
	require.NoError(t, d.Ready(t.Context(), time.Minute))

	suppressed := func(alert string) (out *history.Suppression) {
		var answer struct{ Data web.Episodes }
		require.NoError(t, json.Unmarshal(sendJSON(t, "GET", "http://"+addr+"/api/v1/episodes", nil), &answer))
		for _, e := range answer.Data.Episodes {
			if e.Alert == alert {
				out = e.Suppressed
			}
		}
		return out
	}
	accepted := func(alert string) bool {
		return strings.Contains(string(sendJSON(t, "GET", pair[0].URL+"/api/v2/alerts", nil)), alert) && strings.Contains(string(sendJSON(t, "GET", pair[1].URL+"/api/v2/alerts", nil)), alert)
	}
	require.True(t, wait.Until(time.Minute, func() bool { return accepted("LeaseLost") && accepted("DiskFull") }))
	require.Nil(t, suppressed("LeaseLost"))

	silence := func() string {
		var made struct{ SilenceID string }
		require.NoError(t, json.Unmarshal(sendJSON(t, "POST", pair[0].URL+"/api/v2/silences", map[string]any{
			"matchers": []any{map[string]any{"name": "alertname", "value": "Lease.*", "isRegex": true}, map[string]any{"name": "cluster", "value": "c1", "isRegex": false}},
			"startsAt": time.Now().UTC(), "endsAt": time.Now().UTC().Add(time.Hour), "createdBy": "Ada", "comment": "planned work",
		}), &made))
		return made.SilenceID
	}
	id := silence()
	require.True(t, wait.Until(suppressedWithin, func() bool { x := suppressed("LeaseLost"); return x != nil && x.Silence == id }))
	require.Equal(t, []string{"Ada", "planned work"}, []string{suppressed("LeaseLost").Author, suppressed("LeaseLost").Comment})
	require.Nil(t, suppressed("DiskFull"))
	out, err := exec.Command(bin, "get", "alerts", "--url", "http://"+addr).CombinedOutput()
	require.NoError(t, err)
	require.Contains(t, string(out), "firing (silenced)")

	// One member knows the other alert. It does not notify, but the other member does.
	down := []any{map[string]any{"labels": map[string]string{"alertname": "NodeDown", "namespace": "kube-system"}}}
	sendJSON(t, "POST", pair[0].URL+"/api/v2/alerts", down)
	require.False(t, wait.Until(suppressedWithin/2, func() bool { return suppressed("DiskFull") != nil }))
	sendJSON(t, "POST", pair[1].URL+"/api/v2/alerts", down)
	require.True(t, wait.Until(suppressedWithin, func() bool { return suppressed("DiskFull") != nil }))
	require.Len(t, suppressed("DiskFull").InhibitedBy, 1)
	require.Contains(t, string(sendJSON(t, "GET", pair[0].URL+"/api/v2/alerts", nil)), suppressed("DiskFull").InhibitedBy[0])
	page := string(sendJSON(t, "GET", "http://"+addr+"/", nil))
	require.Contains(t, page, "Silenced from ")
	require.Contains(t, page, "Inhibited by ")

	sendJSON(t, "DELETE", pair[1].URL+"/api/v2/silence/"+id, nil)
	require.True(t, wait.Until(suppressedWithin, func() bool { return suppressed("LeaseLost") == nil }))
	id = silence()
	require.True(t, wait.Until(suppressedWithin, func() bool { x := suppressed("LeaseLost"); return x != nil && x.Silence == id }))
	log("got the lease")
	var answer struct{ Data web.History }
	require.True(t, wait.Until(time.Minute, func() bool {
		require.NoError(t, json.Unmarshal(sendJSON(t, "GET", "http://"+addr+"/api/v1/history", nil), &answer))
		return len(answer.Data.Episodes) == 1
	}))
	require.Equal(t, id, answer.Data.Episodes[0].Suppressed.Silence)
	out, err = exec.Command(bin, "get", "history", "--url", "http://"+addr).CombinedOutput()
	require.NoError(t, err)
	require.Contains(t, string(out), "(silenced)")
}
