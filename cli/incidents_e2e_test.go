//go:build e2e

package cli

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
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest"
	"crowsnest/cli/internal/demo"
	"crowsnest/test/servers"
)

// notified is an on-call's receiver behind Alertmanager.
type notified struct {
	mu     sync.Mutex
	alerts []notification
}

type notification struct {
	Status      string            `json:"status"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func (n *notified) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Alerts []notification `json:"alerts"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.alerts = append(n.alerts, in.Alerts...)
}

// heard returns how often an expected alert was notified in each status, and
// its annotations.
func (n *notified) heard(want demo.Expected) (firing, resolved int, annotations map[string]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	last := map[string]string{} // a group is notified whole: the same status again is no news
	for _, a := range n.alerts {
		for k, v := range want {
			if a.Labels[k] != v {
				goto next
			}
		}
		if id := fmt.Sprint(a.Labels); last[id] != a.Status {
			last[id] = a.Status
			if a.Status == "firing" {
				firing++
			} else {
				resolved++
			}
		}
		annotations = a.Annotations
	next:
	}
	return firing, resolved, annotations
}

// strange returns what was notified and nothing expects.
func (n *notified) strange(expected []demo.Expected) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []string
	for _, a := range n.alerts {
		known := a.Labels["alertname"] == "CrowsnestHeartbeat"
		for _, e := range expected {
			covers := true
			for k, v := range e {
				covers = covers && a.Labels[k] == v
			}
			known = known || covers
		}
		if !known {
			out = append(out, fmt.Sprint(a.Labels))
		}
	}
	return out
}

// The incidents reach the on-call: from the logs of three nodes by agents and an
// aggregator, and from one node alone, through a real Alertmanager to a webhook,
// each once, with what to do.
func TestE2EIncidents(t *testing.T) {
	bin := build(t)
	stories, err := demo.Load(crowsnest.Incidents())
	require.NoError(t, err)
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		incidents(t, bin, stories, 0)
	})
	t.Run("agents", func(t *testing.T) {
		t.Parallel()
		incidents(t, bin, stories, 3)
	})
}

func incidents(t *testing.T, bin string, stories []demo.Story, nodes int) {
	t.Helper()
	page := &notified{}
	webhook := httptest.NewServer(page)
	t.Cleanup(webhook.Close)
	am := servers.Alertmanager(t, servers.AlertmanagerOptions{Webhook: webhook.URL})
	dir := t.TempDir()
	var expected, resolves []demo.Expected
	for _, s := range stories {
		expected = append(expected, s.Fires...)
		resolves = append(resolves, s.Resolves...)
	}
	sink := fmt.Sprintf("{alertmanager: {urls: [%q], min_firing: 2s}}", am.URL)
	var plays []*demo.Play
	if nodes == 0 {
		pods := filepath.Join(dir, "pods")
		plays = append(plays, play(t, pods, stories, time.Now()))
		daemonProcess(t, bin, dir, "alone", fmt.Sprintf("sources: {kubelet: {dir: %s}}\nsinks: %s", pods, sink))
	} else {
		address := fmt.Sprintf("127.0.0.1:%d", servers.FreePort(t))
		now := time.Now()
		for i := range nodes {
			pods := filepath.Join(dir, fmt.Sprint("node-", i))
			var here []demo.Story
			for k, s := range stories { // every node has some of the stories
				if k%nodes == i {
					here = append(here, s)
				}
			}
			plays = append(plays, play(t, pods, here, now))
			daemonProcess(t, bin, dir, fmt.Sprint("agent-", i),
				fmt.Sprintf("sources: {kubelet: {dir: %s}}\nsinks: {upstream: {url: http://%s, node: node-%d}}", pods, address, i))
		}
		daemonProcess(t, bin, dir, "aggregator", fmt.Sprintf("sources: {agents: {listen_address: %q}}\nsinks: %s", address, sink))
	}
	var live sync.WaitGroup
	for _, p := range plays {
		live.Go(func() { _ = p.Live(t.Context()) })
	}
	t.Cleanup(live.Wait)
	complete := func() bool {
		for _, e := range expected {
			if n, _, _ := page.heard(e); n == 0 {
				return false
			}
		}
		for _, e := range resolves {
			if _, n, _ := page.heard(e); n == 0 {
				return false
			}
		}
		return true
	}
	require.Eventually(t, complete, 4*time.Minute, 200*time.Millisecond, "not every alert was notified")
	require.Empty(t, page.strange(expected), "notified, and nothing expects it")
	for _, e := range expected {
		firing, _, annotations := page.heard(e)
		require.Equal(t, 1, firing, "%v was notified more than once", e)
		require.NotEmpty(t, annotations["remediation"], e)
		require.NotEmpty(t, annotations["line"], e)
		t.Logf("%v: %s", e, annotations["summary"])
	}
}

func play(t *testing.T, pods string, stories []demo.Story, now time.Time) *demo.Play {
	t.Helper()
	require.NoError(t, os.MkdirAll(pods, 0o755))
	p := demo.NewPlay(pods, stories, now)
	require.NoError(t, p.WritePast())
	return p
}

// daemonProcess runs the program until the test ends.
func daemonProcess(t *testing.T, bin, dir, name, config string) {
	t.Helper()
	file := filepath.Join(dir, name+".yml")
	text := config + "\nstorage: {path: " + filepath.Join(dir, name+"-state") + "}\n"
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	log, err := os.Create(filepath.Join(dir, name+".log"))
	require.NoError(t, err)
	cmd := exec.Command(bin, "run", "--config.file="+file, "--web.listen-address=127.0.0.1:0")
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		_ = log.Close()
		if b, _ := os.ReadFile(log.Name()); t.Failed() {
			lines := strings.Split(string(b), "\n")
			t.Logf("%s:\n%s", name, strings.Join(lines[max(0, len(lines)-20):], "\n"))
		}
	})
}
