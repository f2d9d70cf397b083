//go:build e2e

package kube

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/daemon"
	"crowsnest/test/fakeam"
	"crowsnest/test/kubelab"
)

const (
	patience = 90 * time.Second
	often    = 50 * time.Millisecond
)

// pack has one rule for lines and one for a state.
const pack = `pack: {name: lab, version: 0.1.0, rules: 2}
rules:
- alert: LabLeaderLost
  from: '{namespace="vc", workload="vc-a", container="syncer"}'
  match: {regex: 'leaderelection lost (?P<round>\w+)'}
  by: [namespace, pod, round]
  severity: critical
  annotations: {summary: "{{ $labels.pod }} lost its lease"}
  remediation:
    summary: Restart it.
    affects: [{component: vcluster, image: loft-sh/vcluster-oss, versions: "<0.22.6", fixed_in: "0.22.6"}]
- alert: LabNodeHasNoMachine
  from: '{component="machines"}'
  match: 'msg="node has no machine" node='
  clear: {any: ['msg="node has a machine" node=', 'msg="node is gone" node=']}
  for: 10s
  by: [node]
  severity: warning
  annotations: {summary: "{{ $labels.node }} has no Machine"}
`

const config = `global: {external_url: "https://crowsnest.example.org/"}
rules: {shipped: false, paths: [pack.yaml]}
sources:
  kubernetes: {kubeconfig: %q}
  objects: {kubeconfig: %q, interval: 10s, kinds: [nodes, machines.cluster.x-k8s.io], machines: {}}
sinks:
  alertmanager: {urls: [%q], min_firing: 1s}
`

// crd is a minimal Machine definition of Cluster API.
func crd() kubelab.Object {
	return kubelab.Object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": kubelab.Object{"name": "machines.cluster.x-k8s.io", "annotations": kubelab.Object{"api-approved.kubernetes.io": "unapproved, for a test"}},
		"spec": kubelab.Object{
			"group": "cluster.x-k8s.io", "scope": "Namespaced",
			"names": kubelab.Object{"kind": "Machine", "listKind": "MachineList", "plural": "machines", "singular": "machine"},
			"versions": []kubelab.Object{{
				"name": "v1beta1", "served": true, "storage": true,
				"schema": kubelab.Object{"openAPIV3Schema": kubelab.Object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}
}

// lab is a daemon with its receiver.
type lab struct {
	*daemon.Daemon
	t  *testing.T
	am *fakeam.AM
}

func (d *lab) kill() { _, _ = d.End(syscall.SIGKILL) }

// alert waits for an alert with a label of this value that fires, or has ended.
func (d *lab) alert(name, label, value string, resolved bool) (found fakeam.Alert) {
	d.t.Helper()
	require.Eventually(d.t, func() bool {
		for _, w := range d.am.Accepted(name) {
			if w.Alert.Labels[label] == value && w.Resolved == resolved {
				found = w.Alert
				return true
			}
		}
		return false
	}, patience, often, "%s with %s=%s\n%s", name, label, value, d.LogEnd())
	return found
}

// TestE2EDaemon: pod logs and the state of Machines become alerts through the
// real API, with a role that allows nothing else, and over a kill.
func TestE2EDaemon(t *testing.T) {
	l := kubelab.Start(t)
	k := kubelab.NewKubelet(t)
	l.Node("node-1", k.Port())
	l.Namespace("vc")
	l.ServiceAccount("vc", "crowsnest")
	l.Grant("vc", "crowsnest", "",
		kubelab.Rule{Groups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}},
		kubelab.Rule{Groups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}},
		kubelab.Rule{Groups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}},
		kubelab.Rule{Groups: []string{"cluster.x-k8s.io"}, Resources: []string{"machines"}, Verbs: []string{"list", "watch"}})
	l.Pod(kubelab.PodSpec{Namespace: "vc", Name: "vc-a-0", Node: "node-1", Containers: []string{"syncer"}, Image: "ghcr.io/loft-sh/vcluster-oss:0.22.5", Owner: "StatefulSet/vc-a"})
	c := k.Start("vc", "vc-a-0", "syncer")
	l.SetStatus("vc", "vc-a-0", kubelab.ContainerStatus{Name: "syncer"})

	dir := t.TempDir()
	addr, err := daemon.FreeAddr()
	require.NoError(t, err)
	d := &lab{t: t, am: fakeam.New(), Daemon: &daemon.Daemon{Binary: filepath.Join(dir, "crowsnest"), Dir: dir, Addr: addr}}
	t.Cleanup(d.kill)
	require.NoError(t, daemon.Build(d.Binary))
	server, err := fakeam.Serve(d.am)
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	kubeconfig := l.Kubeconfig("", l.Token("vc", "crowsnest"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pack.yaml"), []byte(pack), 0o600))
	require.NoError(t, d.Configure(fmt.Sprintf(config, kubeconfig, kubeconfig, server.URL)))
	require.NoError(t, d.Start())

	c.Log(time.Now(), "E1120 leaderelection lost one")
	a := d.alert("LabLeaderLost", "round", "one", false)
	require.Equal(t, "vc-a-0", a.Labels["pod"])
	require.True(t, strings.HasPrefix(a.Annotations["affected"], "yes: vcluster 0.22.5 is affected"), a.Annotations["affected"])
	require.Equal(t, "0.22.6", a.Annotations["fixed_in"])

	d.kill() // while the daemon is down, the container logs, ends and restarts
	c.Log(time.Now(), "E1120 leaderelection lost two")
	c.Exit()
	ended := time.Now()
	c = k.Start("vc", "vc-a-0", "syncer")
	l.SetStatus("vc", "vc-a-0", kubelab.ContainerStatus{Name: "syncer", Restarts: 1, Ended: ended})
	c.Log(time.Now(), "E1120 leaderelection lost three")
	l.Do(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd())
	l.Namespace("fleet-local")
	const machines = "/apis/cluster.x-k8s.io/v1beta1/namespaces/fleet-local/machines"
	machine := func(name, node string) kubelab.Object {
		return kubelab.Object{
			"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "metadata": kubelab.Object{"name": name},
			"spec": kubelab.Object{"clusterName": "local", "providerID": "lab://" + node}, "status": kubelab.Object{"phase": "Running", "nodeRef": kubelab.Object{"name": node}},
		}
	}
	require.Eventually(t, func() bool {
		code, _ := l.Try(http.MethodPost, machines, machine("m1", "node-1"))
		return code == http.StatusCreated
	}, patience, often)
	l.Node("node-2", k.Port())
	require.NoError(t, d.Start())
	d.alert("LabLeaderLost", "round", "two", false)
	d.alert("LabLeaderLost", "round", "three", false)
	d.alert("LabNodeHasNoMachine", "node", "node-2", false)
	l.Do(http.MethodPost, machines, machine("m2", "node-2"))
	d.alert("LabNodeHasNoMachine", "node", "node-2", true)
	for _, w := range d.am.Accepted("LabNodeHasNoMachine") {
		require.Equal(t, "node-2", w.Alert.Labels["node"])
	}
	for _, name := range []string{"CrowsnestLinesLost", "CrowsnestBlind"} {
		require.Empty(t, d.am.Accepted(name))
	}
}
