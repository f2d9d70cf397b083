// Package probes runs the real binary under a simulated kubelet, whose probes
// come from the rendered chart, while peers are missing: no pod is restarted
// because of a peer, everything else is detected and notified, and the
// heartbeat reports the coverage. The kustomizations have the same objects as the
// chart (test/deploy).
//
//	go test ./test/probes                                  shortened periods
//	CROWSNEST_CHAOS=1 go test -timeout 60m ./test/probes   as shipped
package probes

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"crowsnest/test/daemon"
	"crowsnest/test/fakeam"
	"crowsnest/test/fakeloki"
	"crowsnest/test/kubesim"
	"crowsnest/test/manifests"
	"crowsnest/test/wait"
)

// line raises CrowsnestInstallationTest, a rule of the base.
const line = "crowsnest, raise the test alert"

var (
	binary string
	// long runs the pods as shipped, with the periods of their manifests.
	long = os.Getenv("CROWSNEST_CHAOS") != ""
	// haste is the factor by which periods are shortened.
	haste      = time.Duration(40)
	blindAfter = 7 * time.Second // the watermark of source objects advances every 5 s
	patience   = 60 * time.Second
)

func TestMain(m *testing.M) {
	flag.Parse()
	if long {
		haste, blindAfter, patience = 1, 5*time.Minute, 15*time.Minute
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	_ = flag.Set("test.parallel", "9") // scenarios are mostly waiting
	dir, err := os.MkdirTemp("", "crowsnest-probes-")
	if err == nil {
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "crowsnest")
		err = daemon.Build(binary)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "probes:", err)
		return 1
	}
	return m.Run()
}

// gitPack is what the Git repository contains.
const gitPack = `pack: {name: git, version: 0.1.0}
rules:
- {alert: GitRule, from: '{container="git"}', match: it failed, severity: info, annotations: {summary: It failed.}}
`

// cluster is an installation of the chart with its environment.
type cluster struct {
	t          *testing.T
	dir        string
	am         *fakeam.AM
	loki       *fakeloki.Loki
	kube       *api
	peers      map[string]*peer // alertmanager, loki, apiserver, service
	pods       map[string]*pod
	agentsAddr string // listen address for agents
	kubeconfig string
	rules      string // folder of the ConfigMap of packs
	asShipped  bool   // long times are not shortened
	proxied    bool   // the peer service is an HTTP proxy, to which names are left
}

// newCluster returns a cluster with all peers and without pods.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := prepare(t)
	c.am, c.loki, c.kube = fakeam.New(), fakeloki.New(), &api{stop: t.Context().Done()}
	c.peers["alertmanager"], c.peers["loki"], c.peers["apiserver"] = newPeer(t, c.am), newPeer(t, c.loki), newPeer(t, c.kube)
	c.write("token", "secret")
	c.kubeconfig = c.write("kubeconfig", fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q}}]\nusers: [{name: u, user: {}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n", c.peers["apiserver"].url()))
	return c
}

// install makes the pods of the chart with a file of deploy/helm/crowsnest/ci and
// further arguments of helm.
func (c *cluster) install(values string, args ...string) {
	c.t.Helper()
	for name, w := range workloads(c.t, manifests.Chart(c.t, values, args...)) {
		c.pods[name] = c.pod(name, w)
	}
}

// prepare returns a cluster without pods, whose only peer is the Service of the
// aggregator.
func prepare(t *testing.T) *cluster {
	t.Helper()
	addr, err := daemon.FreeAddr()
	require.NoError(t, err)
	rules, err := filepath.Abs(manifests.ChartDir + "/files/rules")
	require.NoError(t, err)
	c := &cluster{t: t, dir: t.TempDir(), pods: map[string]*pod{}, agentsAddr: addr, rules: rules, asShipped: long}
	ready := func() bool { return c.pods["aggregator"].isReady() }
	c.peers = map[string]*peer{"service": newPeer(t, service(ready, addr))}
	require.NoError(t, os.Mkdir(filepath.Join(c.dir, "logs"), 0o755))
	return c
}

// write writes a file of the cluster and returns its path.
func (c *cluster) write(name, text string) string {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	require.NoError(c.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(c.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// pod creates a pod from its manifest. Addresses and paths are those of the
// test; everything else is as shipped.
func (c *cluster) pod(name string, w workload) *pod {
	text, err := yaml.Marshal(w.config)
	require.NoError(c.t, err)
	paths := []string{
		"/etc/crowsnest-rules", c.rules, "/git/current/crowsnest/rules", c.write("git.yaml", gitPack), "/var/run/secrets/crowsnest", c.dir,
		"/etc/crowsnest-tls", filepath.Join(c.dir, "tls"),
		"http://crowsnest-aggregator:9798", c.peers["service"].url(),
	}
	if loki := c.peers["loki"]; loki != nil {
		paths = append(paths, "http://loki-gateway.loki", loki.url())
	}
	local := strings.NewReplacer(paths...)
	cfg := map[string]any{}
	require.NoError(c.t, yaml.Unmarshal([]byte(local.Replace(string(text))), &cfg))
	c.local(cfg)
	text, err = yaml.Marshal(cfg)
	require.NoError(c.t, err)
	addr, err := daemon.FreeAddr()
	require.NoError(c.t, err)
	probes, err := daemon.FreeAddr()
	require.NoError(c.t, err)
	p := &pod{t: c.t, probes: probes, container: w.container, Daemon: &daemon.Daemon{Binary: binary, Dir: filepath.Join(c.dir, name), Addr: addr}}
	p.Prepare = func(cmd *exec.Cmd) { cmd.Env = append(os.Environ(), "NODE_NAME=node-1") }
	for file, text := range w.files {
		c.write(filepath.Join(name, file), local.Replace(text))
	}
	require.NoError(c.t, p.Configure(string(text)))
	for _, arg := range w.Args[1:] {
		switch flag, _, _ := strings.Cut(arg, "="); flag {
		case "--config.file", "--web.listen-address":
		case "--web.probe-address":
			p.Flags = append(p.Flags, "--web.probe-address="+probes)
		default:
			p.Flags = append(p.Flags, arg)
		}
	}
	return p
}

// local sets what is specific to a cluster, and shortens long times.
func (c *cluster) local(cfg map[string]any) {
	at := func(path ...string) map[string]any {
		m := cfg
		for _, key := range path {
			next, ok := m[key].(map[string]any)
			if !ok {
				if m[key] != nil || !has(m, key) {
					return nil
				}
				next = map[string]any{}
			}
			m[key], m = next, next
		}
		return m
	}
	set := func(key string, value any, path ...string) {
		if m := at(path...); m != nil {
			m[key] = value
		}
	}
	set("listen_address", c.agentsAddr, "sources", "agents")
	if c.proxied {
		set("proxy_url", c.peers["service"].url(), "sinks", "upstream", "http_config")
	}
	set("dir", filepath.Join(c.dir, "logs"), "sources", "kubelet")
	set("kubeconfig", c.kubeconfig, "sources", "agents", "token_review")
	set("kubeconfig", c.kubeconfig, "sources", "agents", "nodes")
	set("kubeconfig", c.kubeconfig, "sources", "objects")
	set("kubeconfig", c.kubeconfig, "sources", "kubernetes")
	set("urls", []string{c.peers["alertmanager"].url()}, "sinks", "alertmanager")
	if !c.asShipped {
		cfg["global"] = map[string]any{"blind_after": blindAfter.String()}
		set("interval", "10s", "sources", "objects")
		set("min_firing", "0s", "sinks", "alertmanager")
		set("resend_delay", "1s", "sinks", "alertmanager")
	}
}

func has(m map[string]any, key string) bool { _, ok := m[key]; return ok }

// raise writes the line of the test alert to the logs of this cluster.
func (c *cluster) raise() { c.print("hello", line) }

// print writes a line to Loki, and to the log of a new pod.
func (c *cluster) print(pod, text string) {
	c.loki.Push(fakeloki.Entry{Labels: map[string]string{"namespace": "crowsnest-test", "pod": pod}, Time: time.Now(), Line: text})
	w := kubesim.New(kubesim.Options{Root: filepath.Join(c.dir, "logs"), Namespace: "crowsnest-test", Pod: pod, Container: "hello", UID: "1", Clock: time.Now})
	w.Write("stdout", text)
	require.NoError(c.t, w.Err)
	w.Close()
}

func (c *cluster) eventually(what string, ok func() bool) {
	c.t.Helper()
	if !wait.Until(patience, ok) {
		for name, p := range c.pods {
			c.t.Logf("%s: %s\n%s", name, p.body(c.t.Context()), p.LogEnd())
		}
		seen := map[string]bool{}
		for _, name := range []string{"CrowsnestHeartbeat", "CrowsnestIdle", "CrowsnestBlind"} {
			for _, w := range c.am.Accepted(name) {
				if x := fmt.Sprint(w.Resolved, w.Alert.Labels, w.Alert.Annotations); !seen[x] {
					seen[x] = true
					c.t.Log(x)
				}
			}
		}
		require.Fail(c.t, what, "%v", keys(c.am.All()))
	}
}

// firing reports whether an alert fires whose texts contain this text.
func (c *cluster) firing(alert, text string) bool {
	newest := map[string]fakeam.Accepted{}
	for _, w := range c.am.Accepted(alert) {
		newest[fmt.Sprint(w.Alert.Labels)] = w
	}
	for labels, w := range newest {
		if !w.Resolved && strings.Contains(labels+fmt.Sprint(w.Alert.Annotations), text) {
			return true
		}
	}
	return false
}

// resolved reports whether the newest notification of an alert about a source
// is its end.
func (c *cluster) resolved(alert, source string) (over bool) {
	for _, w := range c.am.Accepted(alert) {
		if w.Alert.Labels["source"] == source {
			over = w.Resolved
		}
	}
	return over
}

// scenario is the chart with one file of values, and one peer that is missing at
// the start.
type scenario struct {
	values, missing string
	// blind is the source that CrowsnestBlind names; "": it must not fire.
	blind string
	// partial and full are texts of the heartbeat without and with the peer;
	// partial "": it is not sent.
	partial, full string
	// undetected means that without the peer nothing can be detected or
	// notified.
	undetected bool
	// known means that everything worked in an earlier run of the pods.
	known bool
}

func TestMissingPeers(t *testing.T) {
	const agents = "agents (1 of 1 nodes)"
	for _, s := range []scenario{
		// Without the API server, an unknown agent cannot be authenticated.
		{values: "production", missing: "apiserver", blind: "objects", undetected: true, full: "full: objects, " + agents},
		{values: "production", missing: "apiserver", known: true, blind: "objects", partial: "partial: " + agents + "; not seen: objects since ", full: "full: objects, " + agents},
		{values: "production", missing: "alertmanager", undetected: true, full: "full: objects, " + agents},
		{values: "production", missing: "service", blind: "agents", undetected: true, partial: "partial: objects; not seen: agents since ", full: "full: objects, " + agents},
		{values: "base", missing: "service", blind: "agents", undetected: true, full: "full: " + agents},
		{values: "git-sync", missing: "alertmanager", undetected: true, full: "full: " + agents},
		{values: "loki", missing: "loki", blind: "loki", undetected: true, full: "full: loki"},
		{values: "loki", missing: "alertmanager", undetected: true, full: "full: loki"},
		{values: "standalone-deployment", missing: "apiserver", blind: "kubernetes", undetected: true, full: "full: kubernetes"},
	} {
		name := s.values + "/" + s.missing
		if s.known {
			name += " after a restart"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.run(t)
		})
	}
}

func (s scenario) run(t *testing.T) {
	c := newCluster(t)
	c.install(s.values)
	c.print("other", "an ordinary line")
	for name, p := range c.peers {
		if name != s.missing || s.known {
			p.come()
		}
	}
	if s.known {
		c.firstLife(s.full)
		c.peers[s.missing].leave()
	}
	for _, p := range c.pods {
		p.run()
	}
	for name, p := range c.pods {
		c.eventually(name+" is ready", p.isReady)
	}
	c.raise()
	s.without(c)
	c.peers[s.missing].come()
	c.eventually("everything is seen", func() bool { return c.firing("CrowsnestHeartbeat", "coverage:"+s.full+" ") })
	c.eventually("the failure is notified", func() bool { return len(c.am.Accepted("CrowsnestInstallationTest")) > 0 })
	if s.blind != "" {
		c.eventually("it is not blind any more", func() bool { return c.resolved("CrowsnestBlind", s.blind) })
	}
	for _, p := range c.pods {
		p.unrestarted()
	}
	require.NotContains(t, strings.Join(keys(c.am.All()), " "), "CrowsnestLinesLost")
}

// firstLife runs the pods until everything works.
func (c *cluster) firstLife(full string) {
	c.pods["aggregator"].mu.Lock()
	c.pods["aggregator"].ready = true
	c.pods["aggregator"].mu.Unlock()
	for _, p := range c.pods {
		require.NoError(c.t, p.Start())
		c.t.Cleanup(func() { _, _ = p.End(syscall.SIGKILL) })
	}
	c.eventually("everything is seen", func() bool { return c.firing("CrowsnestHeartbeat", "coverage:"+full+" ") })
	for _, p := range c.pods {
		_, err := p.End(syscall.SIGTERM)
		require.NoError(c.t, err)
	}
}

// without checks the behaviour while the peer is missing.
func (s scenario) without(c *cluster) {
	if !s.undetected {
		c.eventually("the failure is notified", func() bool { return c.firing("CrowsnestInstallationTest", "") })
	}
	if s.blind != "" {
		c.eventually("it is said that it is blind", func() bool { return c.firing("CrowsnestBlind", s.blind) })
	}
	if s.partial != "" {
		c.eventually("the heartbeat says what is seen", func() bool { return c.firing("CrowsnestHeartbeat", "coverage:"+s.partial) })
	} else if !s.known {
		require.Empty(c.t, c.am.Accepted("CrowsnestHeartbeat"), "nothing is seen, or nobody can be notified")
	}
	for name, p := range c.pods {
		require.True(c.t, p.isReady(), name)
	}
}

func keys(m map[string][]fakeam.Accepted) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	return out
}
