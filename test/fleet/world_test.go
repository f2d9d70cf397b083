// Package fleet tests many clusters with the real binary: a fleet view of forty clusters,
// and clusters with equal namespaces and pods, which must never be mixed.
package fleet

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/rules"
	"crowsnest/test/daemon"
	"crowsnest/test/fakeam"
	"crowsnest/test/wait"
	"crowsnest/web"
)

const patience = time.Minute

var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "fleet")
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "crowsnest")
	if err := daemon.Build(binary); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		return 1
	}
	return m.Run()
}

// world has a fleet view and the Alertmanager of all.
type world struct {
	*testing.T
	am   *fakeam.AM
	url  string // of the Alertmanager
	view *daemon.Daemon
}

func newWorld(t *testing.T) *world {
	t.Helper()
	am := fakeam.New()
	s, err := fakeam.Serve(am)
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	return &world{T: t, am: am, url: s.URL}
}

// start starts a daemon with a configuration.
func (w *world) start(config string) *daemon.Daemon {
	w.Helper()
	addr, err := daemon.FreeAddr()
	require.NoError(w, err)
	d := &daemon.Daemon{Binary: binary, Dir: w.TempDir(), Addr: addr}
	require.NoError(w, d.Configure(config))
	w.Cleanup(func() {
		_, _ = d.End(syscall.SIGKILL)
		if w.Failed() && os.Getenv("CROWSNEST_LOGS") != "" {
			w.Log(d.LogEnd())
		}
	})
	require.NoError(w, d.Start())
	require.NoError(w, d.Ready(w.Context(), patience))
	return d
}

// watch starts a fleet view of clusters, by their addresses.
func (w *world) watch(clusters map[string]string) {
	w.Helper()
	var list strings.Builder
	for name, url := range clusters {
		fmt.Fprintf(&list, "    - {cluster: %q, url: %q}\n", name, url)
	}
	w.view = w.start(fmt.Sprintf(`
sources:
  fleet:
    clusters:
%s    interval: 1s
    timeout: 2s
    unknown_after: 4s
    alert: {min_clusters: 3, for: 1s, hold: 3s}
sinks: {alertmanager: {urls: [%q]}}
rules: {shipped: false, allow_empty: true}
`, list.String(), w.url))
}

// fleet returns what the fleet view knows.
func (w *world) fleet() (out web.Fleet) {
	w.Helper()
	body, err := w.view.Get(w.Context(), "/api/v1/fleet")
	require.NoError(w, err)
	require.NoError(w, json.Unmarshal([]byte(body), &struct{ Data *web.Fleet }{&out}))
	return out
}

func (w *world) eventually(what string, ok func() bool) {
	w.Helper()
	require.True(w, wait.Until(patience, ok), what)
}

// summary is that of the newest alert of the fleet view.
func (w *world) summary() string {
	all := w.am.Accepted("CrowsnestFleetFailure")
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1].Alert.Annotations["summary"]
}

// cluster is the daemon of a cluster: the real API, with made-up alerts.
type cluster struct {
	name, addr string
	handler    http.Handler

	mu   sync.Mutex
	open []episodes.Episode
	down func()
}

var began = time.Now().Add(-time.Hour).UTC().Truncate(time.Second)

func newCluster(t *testing.T, name string) *cluster {
	t.Helper()
	c := &cluster{name: name, addr: "127.0.0.1:0"}
	c.handler = web.New(c.view(), web.Options{Registry: prometheus.NewRegistry()}).Handler()
	c.up(t)
	t.Cleanup(func() { c.down() })
	return c
}

// up makes it answer.
func (c *cluster) up(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", c.addr)
	require.NoError(t, err)
	c.addr = l.Addr().String()
	srv, done := &http.Server{Handler: c.handler, ReadHeaderTimeout: time.Minute}, make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l)
	}()
	c.down = sync.OnceFunc(func() {
		_ = srv.Close()
		<-done
	})
}

func (c *cluster) view() web.View {
	heartbeat := episodes.Episode{Fingerprint: 1, Alert: "CrowsnestHeartbeat", State: episodes.StateFiring, StartsAt: began, Labels: map[string]string{"alertname": "CrowsnestHeartbeat", "severity": "none"}}
	return web.View{
		Episodes: func() []episodes.Episode {
			c.mu.Lock()
			defer c.mu.Unlock()
			return append([]episodes.Episode{heartbeat}, c.open...)
		},
		Stats: func() episodes.Stats { return episodes.Stats{} }, Rules: func() web.Rules { return web.Rules{Set: &rules.Set{}} },
		Sources: func() []web.Source { return nil }, Endpoints: func() []web.Endpoint { return nil },
		Status:     func() web.Status { return web.Status{Start: began} },
		External:   func() []map[string]string { return []map[string]string{{"cluster": c.name}} },
		Deliveries: func(episodes.Fingerprint) []web.Delivery { return nil },
		Timeline:   func(episodes.Fingerprint) (episodes.Timeline, bool) { return episodes.Timeline{}, false },
		Shadow:     func() *web.Shadow { return nil }, Unknown: func() web.Unknown { return web.Unknown{} },
		UnknownRule: func(string) (string, error) { return "", nil }, Links: func() web.Links { return web.Links{} },
	}
}

// fails makes a rule open; affected is the annotation about the running version.
func (c *cluster) fails(rule, affected string, alerts int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range alerts {
		labels := map[string]string{"alertname": rule, "severity": "critical", "namespace": "kube-system", "pod": fmt.Sprint("autoscaler-", i)}
		c.open = append(c.open, episodes.Episode{
			Fingerprint: episodes.FingerprintOf(labels), Rule: &rules.Rule{Alert: rule, Pack: "demo"}, Alert: rule, State: episodes.StateFiring,
			Labels: labels, Annotations: map[string]string{"affected": affected}, StartsAt: began.Add(time.Duration(len(c.name)) * time.Second), FiredAt: began, LastSeen: began, Count: 1,
			Line: "E0101 the line of a failure, as long as lines of controllers are on average in most clusters",
		})
	}
}

func (c *cluster) recovers() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = nil
}
