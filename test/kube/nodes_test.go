//go:build e2e

package kube

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/daemon"
	"crowsnest/test/fakeam"
	"crowsnest/test/kubelab"
	"crowsnest/test/kubesim"
	"crowsnest/test/wait"
)

// forgottenWithin is the promised time for a node that left.
const forgottenWithin = time.Minute

const nodesPack = `pack: {name: lab, version: 0.1.0, rules: 1}
rules:
- alert: LabLost
  from: '{namespace="vc"}'
  match: {regex: 'lost id=(?P<id>\w+)'}
  clear: {regex: 'taken id=(?P<id>\w+)'}
  for: 2s
  by: [id]
  severity: warning
  annotations: {summary: "{{ $labels.id }} is lost"}
`

// fleet is an aggregator with an agent for each node, all of them real processes.
type fleet struct {
	*lab
	agents map[string]*daemon.Daemon
}

func newFleet(t *testing.T, l *kubelab.Lab, nodes ...string) *fleet {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "crowsnest")
	require.NoError(t, daemon.Build(binary))
	make1 := func(name, config string) *daemon.Daemon {
		addr, err := daemon.FreeAddr()
		require.NoError(t, err)
		d := &daemon.Daemon{Binary: binary, Dir: filepath.Join(dir, name), Addr: addr}
		require.NoError(t, os.Mkdir(d.Dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(d.Dir, "pack.yaml"), []byte(nodesPack), 0o600))
		require.NoError(t, os.Mkdir(filepath.Join(d.Dir, "logs"), 0o755))
		require.NoError(t, d.Configure("rules: {shipped: false, paths: [pack.yaml]}\n"+config))
		t.Cleanup(func() { _, _ = d.End(syscall.SIGKILL) })
		require.NoError(t, d.Start())
		return d
	}
	listen, err := daemon.FreeAddr()
	require.NoError(t, err)
	f := &fleet{lab: &lab{t: t, am: fakeam.New()}, agents: map[string]*daemon.Daemon{}}
	server, err := fakeam.Serve(f.am)
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	kubeconfig := l.Kubeconfig("", l.Token("crowsnest", "crowsnest-aggregator"))
	f.Daemon = make1("aggregator", fmt.Sprintf("sources: {agents: {listen_address: %q, nodes: {kubeconfig: %q}, lateness: 1s}}\nsinks: {alertmanager: {urls: [%q], min_firing: 1s}}\n", listen, kubeconfig, server.URL))
	for _, node := range nodes {
		l.Do(http.MethodPost, "/api/v1/nodes", kubelab.Object{"metadata": kubelab.Object{"name": node}})
		f.agents[node] = make1(node, fmt.Sprintf("sources: {kubelet: {dir: %q}}\nsinks: {upstream: {url: \"http://%s\", node: %s}}\n", filepath.Join(dir, node, "logs"), listen, node))
	}
	f.eventually("every node is read", patience, func() bool {
		m, err := f.Metrics(t.Context())
		n := 0.0
		for _, node := range nodes {
			n += m[fmt.Sprintf(`crowsnest_agent_up{node=%q,source="agents"}`, node)]
		}
		return err == nil && n == float64(len(nodes))
	})
	// Only a node whose Node was seen can be known to have left.
	f.eventually("the Node of every node was seen", patience, func() bool {
		state, err := os.ReadFile(filepath.Join(f.StatePath(), "state"))
		return err == nil && strings.Count(string(state), `"node":true`) == len(nodes)
	})
	return f
}

func (f *fleet) eventually(what string, within time.Duration, ok func() bool) {
	f.t.Helper()
	if !wait.Until(within, ok) {
		state, _ := f.Get(f.t.Context(), "/api/v1/sources")
		require.Fail(f.t, what, "%s\n%s", state, f.LogEnd())
	}
}

// lost writes the line of a failure on a node.
func (f *fleet) lost(node, id string) {
	f.t.Helper()
	c := kubesim.New(kubesim.Options{Root: filepath.Join(f.agents[node].Dir, "logs"), Namespace: "vc", Pod: "p-" + id, Container: "c", UID: "1", Clock: time.Now})
	c.Write("stderr", "lease lost id="+id)
	require.NoError(f.t, c.Err)
	c.Close()
}

// notified waits for the alert about a failure.
func (f *fleet) notified(id string) {
	f.t.Helper()
	f.eventually(id+" is notified", patience, func() bool {
		return slices.ContainsFunc(f.am.Accepted("LabLost"), func(w fakeam.Accepted) bool { return w.Alert.Labels["id"] == id })
	})
}

func (f *fleet) held() bool {
	m, err := f.Metrics(f.t.Context())
	return err == nil && m[`crowsnest_rule_held{rule="LabLost"}`] == 1
}

// TestE2ENodesThatLeave: with the rights of the manifests and a real API
// server, a node that was deleted puts nothing on hold after a minute and
// raises no alert. A node that is unreachable, or was deleted while the API
// server is down, keeps conclusions on hold until its deletion is known.
func TestE2ENodesThatLeave(t *testing.T) {
	l := kubelab.Start(t)
	l.Namespace("crowsnest")
	l.ServiceAccount("crowsnest", "crowsnest-aggregator")
	l.Grant("crowsnest", "crowsnest-aggregator", "", kubelab.Rule{Groups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}})
	f := newFleet(t, l, "node-1", "node-2", "node-3")

	_, _ = f.agents["node-2"].End(syscall.SIGKILL)
	began := time.Now()
	l.Do(http.MethodDelete, "/api/v1/nodes/node-2", nil)
	f.lost("node-1", "a")
	f.notified("a")
	t.Logf("a node that left was forgotten after %s", time.Since(began).Round(time.Second))
	require.Less(t, time.Since(began), forgottenWithin)

	_, _ = f.agents["node-3"].End(syscall.SIGKILL)
	f.lost("node-1", "b")
	f.eventually("an unreachable node holds", patience, f.held)
	l.StopAPI()
	f.eventually("it is said that Nodes are not known", patience, func() bool {
		body, err := f.Get(t.Context(), "/api/v1/sources")
		return err == nil && strings.Contains(body, "Watching the nodes has failed since")
	})
	require.True(t, f.held())
	for _, w := range f.am.Accepted("LabLost") {
		require.Equal(t, "a", w.Alert.Labels["id"], "b is held")
	}
	l.StartAPI()
	require.True(t, f.held())
	began = time.Now()
	l.Do(http.MethodDelete, "/api/v1/nodes/node-3", nil)
	f.notified("b")
	t.Logf("and another one after %s", time.Since(began).Round(time.Second))
	require.Less(t, time.Since(began), forgottenWithin)
	require.Empty(t, f.am.Accepted("CrowsnestBlind"))
}
