package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/test/fakeam"
)

// A test alert reaches every Alertmanager, marked, with the rule's texts and an
// end of its own; what an Alertmanager answers is printed.
func TestAlertTest(t *testing.T) {
	one, two := fakeam.New(), fakeam.New()
	servers := []*httptest.Server{httptest.NewServer(one), httptest.NewServer(two)}
	defer servers[0].Close()
	defer servers[1].Close()
	a, b := servers[0].URL, servers[1].URL
	run := func(args ...string) (string, int) {
		t.Helper()
		var out, errs bytes.Buffer
		c := &cli{in: strings.NewReader(""), out: &out, err: &errs, getenv: func(string) string { return "" }}
		root := newRoot(c)
		root.SetArgs(append([]string{"alert", "test"}, args...))
		code := c.exit(root.Execute())
		return out.String() + errs.String(), code
	}
	config := filepath.Join(t.TempDir(), "crowsnest.yml")
	require.NoError(t, os.WriteFile(config, []byte("global: {external_labels: {cluster: c1}}\nsources: {kubelet: {}}\nsinks: {alertmanager: {urls: ['"+a+"', '"+b+"/']}}\n"), 0o600))
	out, code := run("EtcdOutOfSpace", "--config.file", config, "--label", "team=x")
	require.Zero(t, code, out)
	require.Equal(t, 2, strings.Count(out, "accepted: 200 OK"), out)
	for _, am := range []*fakeam.AM{one, two} {
		posts := am.Posts()
		require.Len(t, posts, 1)
		got := posts[0].Alerts[0]
		require.Equal(t, "EtcdOutOfSpace", got.Labels["alertname"])
		require.Equal(t, "true", got.Labels[testLabel])
		require.Equal(t, "c1", got.Labels["cluster"])
		require.Equal(t, "x", got.Labels["team"])
		require.NotEmpty(t, got.Labels["namespace"])
		require.True(t, strings.HasPrefix(got.Annotations["summary"], "TEST, nothing is broken: etcd"), got.Annotations["summary"])
		require.Contains(t, got.Annotations["remediation"], "1. ")
		require.Equal(t, 300, int(got.EndsAt.Sub(got.StartsAt).Seconds()))
	}
	two.Set(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "not today", http.StatusServiceUnavailable)
		return true
	})
	out, code = run("EtcdOutOfSpace", "--alertmanager", a, "--alertmanager", b)
	require.Equal(t, exitFailed, code)
	require.Contains(t, out, "accepted: 200 OK")
	require.Contains(t, out, "503 Service Unavailable not today")
	require.Contains(t, out, "1 Alertmanagers did not accept the alert")
	out, code = run("Nothing", "--alertmanager", a)
	require.Equal(t, exitFailed, code)
	require.Contains(t, out, "there is no rule Nothing")
	out, code = run("EtcdOutOfSpace", "--alertmanager", "am:9093")
	require.Equal(t, exitUsage, code)
	require.Contains(t, out, "scheme")
}
