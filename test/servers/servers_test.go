//go:build e2e

package servers

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// postAlert posts one alert that lasts for an hour.
func postAlert(t *testing.T, am *AlertmanagerServer, name string) {
	t.Helper()
	body := `[{"labels":{"alertname":"` + name + `"},"endsAt":"` + time.Now().Add(time.Hour).Format(time.RFC3339) + `"}]`
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, am.URL+"/api/v2/alerts", strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	require.NoError(t, do(req, nil))
}

// Two Alertmanagers send one notification for an alert that both received.
func TestAlertmanagers(t *testing.T) {
	notified := make(chan string, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		notified <- string(body)
	}))
	defer hook.Close()
	pair := Alertmanagers(t, AlertmanagerOptions{Webhook: hook.URL})
	for _, am := range pair {
		postAlert(t, am, "Both")
		require.Equal(t, "Both", am.Names())
		require.Len(t, am.Alerts(`alertname="Both"`), 1)
		require.Empty(t, am.Alerts(`alertname="Other"`))
	}
	require.Contains(t, <-notified, "Both")
}

// A killed server restarts with its address and files.
func TestLokiComesBack(t *testing.T) {
	l := Loki(t, LokiOptions{})
	start := time.Now()
	want := Entry{
		Time: start.UTC().Round(time.Microsecond), Line: "a line", Labels: map[string]string{"app": "x", "service_name": "x"},
		Metadata: map[string]string{"trace": "1"},
	}
	l.Push("", want)
	got := func() Entry {
		t.Helper()
		entries := l.Query("", `{app="x"}`, start.Add(-time.Minute))
		require.Len(t, entries, 1)
		delete(entries[0].Metadata, "detected_level")
		return entries[0]
	}
	require.Equal(t, want, got())
	l.Kill()
	require.Error(t, l.TryPush("", want))
	l.Start()
	require.Equal(t, want, got())
}

func TestLokiTenants(t *testing.T) {
	l := Loki(t, LokiOptions{Auth: true})
	e := Entry{Time: time.Now(), Line: "of a", Labels: map[string]string{"app": "x"}}
	require.ErrorContains(t, l.TryPush("", e), "401")
	l.Push("a", e)
	require.Len(t, l.Query("a", `{app="x"}`, e.Time.Add(-time.Minute)), 1)
	require.Empty(t, l.Query("b", `{app="x"}`, e.Time.Add(-time.Minute)))
}

// Rules of Prometheus reach an Alertmanager.
func TestPrometheus(t *testing.T) {
	am := Alertmanager(t, AlertmanagerOptions{})
	rules := filepath.Join(t.TempDir(), "rules.yml")
	require.NoError(t, os.WriteFile(rules, []byte("groups: [{name: g, rules: [{alert: Always, expr: vector(1)}]}]\n"), 0o600))
	out, err := Promtool(t, "check", "rules", rules)
	require.NoError(t, err, out)
	p := Prometheus(t, PrometheusOptions{Rules: []string{rules}, Alertmanagers: []string{strings.TrimPrefix(am.URL, "http://")}})
	require.Equal(t, map[string]string{"{}": "2"}, p.Query("vector(1) + 1"))
	require.Eventually(t, func() bool { return am.Names() == "Always" }, time.Minute, 100*time.Millisecond)
}
