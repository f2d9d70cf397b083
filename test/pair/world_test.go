package pair

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/daemon"
	"crowsnest/test/kubelab"
	"crowsnest/test/kubesim"
	"crowsnest/test/servers"
	"crowsnest/test/wait"
)

const rules = `pack: {name: pair, version: "1.0.0", rules: 2}
rules:
- alert: Broken
  from: '{container="c"}'
  match: {regex: 'broken id=(?P<id>[a-z0-9-]+)'}
  clear: {regex: 'mended id=(?P<id>[a-z0-9-]+)'}
  by: [id]
  limit: 5000
  severity: warning
- alert: Lost
  from: '{container="c"}'
  match: {regex: 'lost id=(?P<id>[a-z0-9-]+)'}
  clear: {regex: 'found id=(?P<id>[a-z0-9-]+)'}
  for: 2s
  by: [id]
  limit: 5000
  severity: warning
`

// aggregator is the configuration of an aggregator.
const aggregator = `global: {blind_after: 2m}
rules: {shipped: false, paths: [%s]}
sources:
  %s
sinks:
  alertmanager: {urls: ["%s"], resend_delay: 5s, min_firing: 2s}
  webhook: {url: %q}
limits: {active_alerts: 10000}
`

// decider returns the section of member i that decides who leads, and the network to what
// it names; nil: there is none.
type decider func(i int) (section string, network *kubelab.Proxy)

// options of a world.
type options struct {
	decide decider
	lease  time.Duration
	ams    []string // URLs
	alone  string   // a binary that has no standby; "": a pair
	binary string   // "": the one that TestMain built
	reads  *reads   // nil: agents
}

// reads is what aggregators read themselves, without agents.
type reads struct {
	source string // as in the configuration
	write  func(node int, line string)
}

// member is one of the two aggregators, with the networks in front of it.
type member struct {
	*daemon.Daemon
	standby *kubelab.Proxy    // the network to its listener for the other one
	agents  [2]*kubelab.Proxy // from each agent
	record  *kubelab.Proxy    // to what decides; nil: it cannot be cut
	stopped string            // while this file exists, the clock stands still, if the binary can do that
}

// world is a pair of aggregators, with two agents unless it reads itself.
type world struct {
	t         *testing.T
	opt       options
	pair      [2]*member
	agents    []*daemon.Daemon // none if the pair reads itself
	write     func(node int, line string)
	ams       []*kubelab.Proxy // the networks to the Alertmanagers
	receivers []*receiver      // in front of each Alertmanager
	hook      *hook
	// also returns what else is known about a key, for errors; nil: nothing.
	also func(key string) string
}

// story returns when receivers were notified of a key.
func (w *world) story(key string) string {
	out := ""
	w.hook.mu.Lock()
	defer w.hook.mu.Unlock()
	for _, e := range w.hook.events {
		if e.key == key {
			out += "; webhook " + e.event + " " + e.at.Format(clock)
		}
	}
	if w.also != nil {
		out += w.also(key)
	}
	return out
}

func newWorld(t *testing.T, opt options) *world {
	t.Helper()
	w := &world{t: t, opt: opt, hook: newHook(t)}
	dir := t.TempDir()
	file := filepath.Join(dir, "rules.yaml")
	require.NoError(t, os.WriteFile(file, []byte(rules), 0o600))
	program := cmp.Or(opt.alone, opt.binary, binary)
	own := func(name string) *daemon.Daemon {
		d := &daemon.Daemon{Binary: program, Dir: filepath.Join(dir, name)}
		require.NoError(t, os.MkdirAll(d.Dir, 0o755))
		var err error
		d.Addr, err = daemon.FreeAddr()
		require.NoError(t, err)
		t.Cleanup(func() { _, _ = d.End(syscall.SIGKILL) })
		return d
	}
	var receivers []string // the same for both: what an endpoint accepted is part of the state
	for _, am := range opt.ams {
		recorded, at := newReceiver(t, am)
		w.receivers = append(w.receivers, recorded)
		u, err := url.Parse(at)
		require.NoError(t, err)
		port, err := strconv.Atoi(u.Port())
		require.NoError(t, err)
		network := kubelab.NewProxy(t, port)
		w.ams = append(w.ams, network)
		receivers = append(receivers, address(network.Port()))
	}
	var urls [2][]string // of each agent
	for i := range w.pair {
		m := &member{Daemon: own(fmt.Sprint("aggregator-", i))}
		w.pair[i] = m
		listen := servers.FreePort(t)
		for j := range urls {
			m.agents[j] = kubelab.NewProxy(t, listen)
			urls[j] = append(urls[j], address(m.agents[j].Port()))
		}
		source := fmt.Sprintf(`agents: {listen_address: "127.0.0.1:%d", lateness: 2s}`, listen)
		if opt.reads != nil {
			source = opt.reads.source
		}
		config := fmt.Sprintf(aggregator, file, source, strings.Join(receivers, `", "`), w.hook.url)
		if opt.alone != "" {
			require.NoError(t, m.Configure(config))
			continue
		}
		section, record := opt.decide(i)
		serve := servers.FreePort(t)
		m.record, m.standby = record, kubelab.NewProxy(t, serve)
		m.stopped = filepath.Join(m.Dir, "stopped")
		m.Prepare = func(cmd *exec.Cmd) { cmd.Env = append(os.Environ(), "CROWSNEST_STOPPED_CLOCK="+m.stopped) }
		require.NoError(t, m.Configure(config+fmt.Sprintf(`high_availability:
  %s
  listen_address: "127.0.0.1:%d"
  advertise_url: %s
  lease_duration: %s
`, section, serve, address(m.standby.Port()), opt.lease)))
	}
	if opt.reads != nil {
		w.write = opt.reads.write
		return w
	}
	var pods [2]*kubesim.Container
	w.write = func(node int, line string) { pods[node].Write("stderr", line) }
	for i := range pods {
		a := own(fmt.Sprint("agent-", i))
		to := `urls: ["` + strings.Join(urls[i], `", "`) + `"]`
		if opt.alone != "" {
			to = "url: " + urls[i][0]
		}
		root := filepath.Join(a.Dir, "pods")
		require.NoError(t, os.MkdirAll(root, 0o755))
		require.NoError(t, a.Configure(fmt.Sprintf(`rules: {shipped: false, paths: [%s]}
sources:
  kubelet: {dir: %s}
sinks:
  upstream: {%s, node: n%d, timeout: 3s}
`, file, root, to, i)))
		w.agents = append(w.agents, a)
		pods[i] = kubesim.New(kubesim.Options{Root: root, Namespace: "pair", Pod: "p", Container: "c"})
	}
	return w
}

func address(port int) string { return fmt.Sprintf("http://127.0.0.1:%d", port) }

// start starts everything and waits until the standby can take over.
func (w *world) start() {
	w.t.Helper()
	for _, m := range w.pair {
		require.NoError(w.t, m.Start())
	}
	for _, a := range w.agents {
		require.NoError(w.t, a.Start())
	}
	w.paired(time.Minute)
}

// leader returns the member that leads and its standby, nil if there is none.
func (w *world) leader() (leader, standby *member) {
	for i, m := range w.pair {
		if m.value("crowsnest_leader") == 1 {
			return m, w.pair[1-i]
		}
	}
	return nil, nil
}

// value returns a metric of a member, -1 if it does not answer.
func (m *member) value(series string) float64 {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	all, err := m.Metrics(ctx)
	if err != nil {
		return -1
	}
	return all[series]
}

// paired waits until one leads and the other one can take over.
func (w *world) paired(patience time.Duration) {
	w.t.Helper()
	ok := wait.Until(patience, func() bool {
		w.supervise()
		leader, standby := w.leader()
		return leader != nil && leader.value("crowsnest_standby_up") == 1 && standby.value("crowsnest_standby_up") == 1
	})
	if !ok {
		w.fail("the pair is not complete")
	}
}

// supervise starts what ended by itself, as the kubelet does.
func (w *world) supervise() {
	for _, m := range w.pair {
		if p := m.Process(); p != nil && !p.Running() {
			_, _ = m.End(syscall.SIGKILL)
			require.NoError(w.t, m.Start())
		}
	}
}

func (w *world) fail(why string) {
	w.t.Helper()
	for i, m := range w.pair {
		w.t.Logf("aggregator %d:\n%s", i, m.LogEnd())
	}
	for i, a := range w.agents {
		w.t.Logf("agent %d:\n%s", i, a.LogEnd())
	}
	require.FailNow(w.t, why)
}

// hook is the receiver of the sink webhook, which cannot detect repeats itself.
type hook struct {
	url string

	mu     sync.Mutex
	events []event
}

type event struct {
	at    time.Time
	key   string
	event string // opened, updated, resolved
}

func newHook(t *testing.T) *hook {
	h := &hook{}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	h.url = srv.URL
	return h
}

// ServeHTTP records what a request notifies of.
func (h *hook) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var in struct {
		Alerts []struct {
			Event  string            `json:"event"`
			Labels map[string]string `json:"labels"`
		} `json:"alerts"`
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range in.Alerts {
		if a.Event != "updated" && a.Labels["id"] != "" {
			h.events = append(h.events, event{time.Now(), keyOf(a.Labels), a.Event})
		}
	}
}

func keyOf(labels map[string]string) string { return labels["alertname"] + " " + labels["id"] }

// states returns what was notified of each key, "opened resolved", without repeats: a
// request whose answer was not saved when the leader died is repeated.
func (h *hook) states() map[string]string {
	states, _ := h.count()
	return states
}

func (h *hook) count() (states map[string]string, repeats int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string]string{}
	for _, e := range h.events {
		if strings.HasSuffix(out[e.key], e.event) {
			repeats++
			continue
		}
		out[e.key] = strings.TrimPrefix(out[e.key]+" "+e.event, " ")
	}
	return out, repeats
}

// after returns when the hook was first notified of anything after a time; zero: never.
func (h *hook) after(t time.Time) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		if e.at.After(t) {
			return e.at
		}
	}
	return time.Time{}
}
