package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/test/fakeam"
	"crowsnest/test/servers"
)

// serve starts a fake Alertmanager.
func serve(t *testing.T) *fakeam.Server {
	t.Helper()
	s, err := fakeam.Serve(fakeam.New())
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	return s
}

// realConfig has one group per alert, so that each notification has one alert.
const realConfig = `
route:
  receiver: hook
  group_by: ['...']
  group_wait: 1s
  group_interval: 2s
  repeat_interval: 24h
receivers:
- name: hook
  webhook_configs:
  - url: %s
    send_resolved: true
`

// pager is a real Alertmanager with its notifications.
type pager struct {
	am   *servers.AlertmanagerServer
	hook *servers.Hook
}

// keyOf is the key of an alert in the ledger.
func keyOf(labels map[string]string) string {
	id := labels["id"]
	if labels["alertname"] == "ChaosLines" {
		id = labels["pod"]
	}
	if labels["alertname"] == "CrowsnestLinesLost" {
		id = labels["reason"]
	}
	if labels["alertname"] == "CrowsnestBlind" || labels["alertname"] == "CrowsnestAgentRefused" {
		id = labels["source"]
	}
	if labels["overflow"] != "" {
		id = "overflow"
	}
	return labels["alertname"] + " " + id
}

// newPager starts a real Alertmanager, or returns nil if it is not installed.
func newPager(t *testing.T, dir string) *pager {
	t.Helper()
	if servers.Find("alertmanager") == "" {
		t.Log("no real Alertmanager here: notifications are not counted")
		return nil
	}
	hook := servers.NewHook(t, keyOf)
	dir = filepath.Join(dir, "alertmanager")
	require.NoError(t, os.Mkdir(dir, 0o755))
	return &pager{hook: hook, am: servers.Alertmanager(t, servers.AlertmanagerOptions{Dir: dir, Config: fmt.Sprintf(realConfig, hook.URL)})}
}
