package chaos

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/fakeam"
)

// serve starts a fake Alertmanager.
func serve(t *testing.T) *fakeam.Server {
	t.Helper()
	s, err := fakeam.Serve(fakeam.New())
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	return s
}

// realConfig has one group per alert, so that each notification is of one.
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

// pager is a real Alertmanager and what it notifies of.
type pager struct {
	url  string
	t    *testing.T
	bin  string
	args []string
	log  string    // file
	cmd  *exec.Cmd // of the test's goroutine

	mu   sync.Mutex
	told map[string][]string // statuses by key
}

// ServeHTTP receives the notifications.
func (p *pager) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var n struct {
		Alerts []struct {
			Status   string            `json:"status"`
			Labels   map[string]string `json:"labels"`
			StartsAt time.Time         `json:"startsAt"`
		} `json:"alerts"`
	}
	if json.NewDecoder(r.Body).Decode(&n) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range n.Alerts {
		p.told[keyOf(a.Labels)] = append(p.told[keyOf(a.Labels)], a.Status)
	}
}

func (p *pager) notifications() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]string{}
	for k, v := range p.told {
		out[k] = strings.Join(v, " ")
	}
	return out
}

// forget forgets what was told of a key.
func (p *pager) forget(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.told, key)
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

// newPager starts a real Alertmanager, or returns nil where there is none.
func newPager(t *testing.T, dir string) *pager {
	t.Helper()
	bin := os.Getenv("CROWSNEST_ALERTMANAGER")
	if bin == "" {
		home, err := os.UserHomeDir()
		require.NoError(t, err)
		bin = filepath.Join(home, ".cache", "crowsnest", "bin", "alertmanager")
	}
	if _, err := os.Stat(bin); err != nil {
		t.Log("no real Alertmanager here: notifications are not counted")
		return nil
	}
	p := &pager{told: map[string][]string{}, t: t, bin: bin, log: filepath.Join(dir, "alertmanager.log")}
	hook := httptest.NewServer(p)
	t.Cleanup(hook.Close)
	config := filepath.Join(dir, "alertmanager.yml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, realConfig, hook.URL), 0o600))
	addr := freeAddr(t)
	p.args = []string{
		"--config.file=" + config, "--storage.path=" + filepath.Join(dir, "alertmanager"),
		"--web.listen-address=" + addr, "--cluster.listen-address=", "--log.level=warn",
	}
	p.url = "http://" + addr
	t.Cleanup(p.kill)
	p.start()
	return p
}

// start starts the Alertmanager and waits until it is ready.
func (p *pager) start() {
	p.t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(p.t, err)
	defer log.Close()
	p.cmd = exec.Command(p.bin, p.args...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(p.t, p.cmd.Start())
	eventually(p.t, 30*time.Second, "the real Alertmanager is ready", func() bool {
		_, err := request(p.t.Context(), http.MethodGet, p.url+"/-/ready")
		return err == nil
	})
}

// kill kills the Alertmanager, which forgets every alert.
func (p *pager) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}
