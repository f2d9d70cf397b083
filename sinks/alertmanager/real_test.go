package alertmanager

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
)

const realConfig = `
route:
  receiver: hook
  group_by: [alertname]
  group_wait: 500ms
  group_interval: 500ms
  repeat_interval: 1h
receivers:
- name: hook
  webhook_configs:
  - url: %s
    send_resolved: true
`

// hook receives the notifications of an Alertmanager.
type hook struct {
	mu  sync.Mutex
	got map[string][]string // statuses by alertname
}

func (h *hook) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var n struct {
		Alerts []struct {
			Status string            `json:"status"`
			Labels map[string]string `json:"labels"`
		} `json:"alerts"`
	}
	if json.NewDecoder(r.Body).Decode(&n) != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range n.Alerts {
		h.got[a.Labels["alertname"]] = append(h.got[a.Labels["alertname"]], a.Status)
	}
}

func (h *hook) notified(name string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.got[name], " ")
}

// realAM is a process of the real Alertmanager.
type realAM struct {
	t         *testing.T
	bin, addr string
	dir       string
	cmd       *exec.Cmd
}

func newRealAM(t *testing.T, h *hook) *realAM {
	t.Helper()
	bin := os.Getenv("CROWSNEST_ALERTMANAGER")
	if bin == "" {
		home, err := os.UserHomeDir()
		require.NoError(t, err)
		bin = filepath.Join(home, ".cache", "crowsnest", "bin", "alertmanager")
	}
	if _, err := os.Stat(bin); err != nil {
		t.Skip("no Alertmanager here; name one in CROWSNEST_ALERTMANAGER")
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	am := &realAM{t: t, bin: bin, addr: freeAddr(t), dir: t.TempDir()}
	require.NoError(t, os.WriteFile(am.dir+"/am.yml", fmt.Appendf(nil, realConfig, srv.URL), 0o600))
	t.Cleanup(func() { am.stop(syscall.SIGKILL) })
	am.start()
	return am
}

// freeAddr returns a loopback address below the ports of passing connections.
func freeAddr(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.N(10000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	require.Fail(t, "no free port")
	return ""
}

func (a *realAM) start() {
	a.t.Helper()
	a.cmd = exec.Command(a.bin, "--config.file="+a.dir+"/am.yml", "--storage.path="+a.dir+"/data",
		"--web.listen-address="+a.addr, "--cluster.listen-address=", "--log.level=warn")
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(a.t, a.cmd.Start())
	a.eventually("ready", func() bool { return a.get("/-/ready", nil) == nil })
}

func (a *realAM) stop(sig os.Signal) {
	if a.cmd != nil {
		_ = a.cmd.Process.Signal(sig)
		_ = a.cmd.Wait()
		a.cmd = nil
	}
}

func (a *realAM) get(path string, into any) error {
	ctx, cancel := context.WithTimeout(a.t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.addr+path, nil)
	if err != nil {
		return err
	}
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// active returns the names of the alerts that it knows as firing.
func (a *realAM) active() []string {
	var got []struct {
		Labels map[string]string `json:"labels"`
	}
	if a.get("/api/v2/alerts", &got) != nil {
		return nil
	}
	var out []string
	for _, al := range got {
		out = append(out, al.Labels["alertname"])
	}
	return out
}

func (a *realAM) eventually(what string, ok func() bool) {
	a.t.Helper()
	require.Eventually(a.t, ok, 60*time.Second, 20*time.Millisecond, what)
}

// TestRealAlertmanager: what receivers are notified of.
func TestRealAlertmanager(t *testing.T) {
	h := &hook{got: map[string][]string{}}
	am := newRealAM(t, h)
	t.Cleanup(func() {
		if t.Failed() {
			h.mu.Lock()
			defer h.mu.Unlock()
			t.Logf("notified: %v", h.got)
		}
	})
	minFiring := 3 * time.Second // well above the group_wait of a starved Alertmanager
	s := running(t, Config{
		URLs: []string{"http://" + am.addr}, ResendDelay: time.Second, MinFiring: &minFiring,
		ExternalLabels: map[string]string{"cluster": "c1"}, ExternalURL: "http://crowsnest.example",
	})
	sent := func() int64 { return s.Status()[0].Sent }
	notify := func(eps ...episodes.Episode) { s.Notify(eps) }

	stays, ends, blip := fire("Stays"), fire("Ends"), fire("Blip")
	notify(stays, ends)
	notify(blip, end(blip))
	am.eventually("all are told", func() bool {
		return h.notified("Stays") == "firing" && h.notified("Ends") == "firing" && h.notified("Blip") == "firing resolved"
	})
	from := sent()
	am.eventually("resends", func() bool { return sent() >= from+6 })
	ends = end(ends)
	notify(ends)
	am.eventually("the end is told", func() bool { return h.notified("Ends") == "firing resolved" })

	// Clocks that step are no reason to refuse.
	ahead, behind := fire("Ahead"), fire("Behind")
	ahead.StartsAt, behind.StartsAt = ahead.StartsAt.Add(time.Hour), behind.StartsAt.Add(-time.Hour)
	notify(ahead, behind)
	aheadEnds, behindEnds := end(ahead), end(behind)
	behindEnds.EndsAt = behindEnds.StartsAt.Add(-time.Hour)
	am.eventually("both are taken", func() bool {
		return h.notified("Ahead") == "firing" && h.notified("Behind") == "firing"
	})
	notify(aheadEnds, behindEnds)
	am.eventually("both ends are taken", func() bool {
		return h.notified("Ahead") == "firing resolved" && h.notified("Behind") == "firing resolved"
	})
	require.Zero(t, s.Status()[0].Failed[reasonRefused])

	// It restarts: what is open is there again without another notification,
	// and what ended meanwhile is told.
	endsAway := fire("EndsAway")
	notify(endsAway)
	am.eventually("told", func() bool { return h.notified("EndsAway") == "firing" })
	am.stop(syscall.SIGTERM)
	during := fire("During")
	notify(during, end(endsAway))
	am.eventually("it is missed", func() bool { return !s.Status()[0].Up })
	notify(end(during))
	am.start()
	am.eventually("healed", func() bool { return slices.Contains(am.active(), "Stays") })
	am.eventually("what happened meanwhile is told", func() bool {
		return h.notified("EndsAway") == "firing resolved" && h.notified("During") == "firing resolved"
	})
	from = sent()
	am.eventually("resends", func() bool { return sent() >= from+6 })
	require.Equal(t, "firing", h.notified("Stays"))
	require.Equal(t, "firing resolved", h.notified("Ends"))

	// Killed, it forgets also whom it notified: an end must still be told.
	am.stop(syscall.SIGKILL)
	am.eventually("it is missed", func() bool { return !s.Status()[0].Up })
	require.NoError(t, os.RemoveAll(am.dir+"/data"))
	notify(end(stays))
	am.start()
	am.eventually("the end is told", func() bool { return strings.HasSuffix(h.notified("Stays"), "resolved") })
	require.Zero(t, s.Status()[0].Failed[reasonRefused])
}
