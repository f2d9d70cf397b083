//go:build e2e

// Package kube runs the daemon against a real Kubernetes API.
package kube

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/fakeam"
	"crowsnest/test/kubelab"
	"crowsnest/test/servers"
)

const (
	patience = 90 * time.Second
	often    = 50 * time.Millisecond
)

// pack is one rule about lines and one about a state.
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
  machines: {kubeconfig: %q, interval: 5s}
sinks:
  alertmanager: {urls: [%q], min_firing: 1s}
storage: {path: state}
`

// crd is as much of Cluster API as there needs to be.
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

type daemon struct {
	*testing.T
	dir string
	bin string
	cmd *exec.Cmd
	am  *fakeam.AM
}

func (d *daemon) start() {
	d.Helper()
	log, err := os.OpenFile(filepath.Join(d.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(d, err)
	defer log.Close()
	d.cmd = exec.Command(d.bin, "run", "--config.file", filepath.Join(d.dir, "crowsnest.yml"),
		"--web.listen-address", fmt.Sprintf("127.0.0.1:%d", servers.FreePort(d)), "--log.format=json")
	d.cmd.Stdout, d.cmd.Stderr = log, log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(d, d.cmd.Start())
}

func (d *daemon) kill() {
	if d.cmd != nil {
		_ = d.cmd.Process.Kill()
		_ = d.cmd.Wait()
		d.cmd = nil
	}
}

// alert waits for an alert with a label of this value that fires, or has ended.
func (d *daemon) alert(name, label, value string, resolved bool) (found fakeam.Alert) {
	d.Helper()
	require.Eventually(d, func() bool {
		for _, w := range d.am.Words(name) {
			if w.Alert.Labels[label] == value && w.Resolved == resolved {
				found = w.Alert
				return true
			}
		}
		return false
	}, patience, often, "%s with %s=%s\n%s", name, label, value, d.log())
	return found
}

func (d *daemon) log() string {
	b, _ := os.ReadFile(filepath.Join(d.dir, "log"))
	return string(b[max(0, len(b)-4000):])
}

// TestE2EDaemon: lines of pods and the state of Machines become alerts through
// the real API, with a role that allows nothing else, and over a kill.
func TestE2EDaemon(t *testing.T) {
	l := kubelab.Start(t)
	k := kubelab.NewKubelet(t)
	l.Node("node-1", k.Port())
	l.Namespace("vc")
	l.ServiceAccount("vc", "crowsnest")
	l.Grant("vc", "crowsnest", "",
		kubelab.Rule{Groups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}},
		kubelab.Rule{Groups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}},
		kubelab.Rule{Groups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list"}},
		kubelab.Rule{Groups: []string{"cluster.x-k8s.io"}, Resources: []string{"machines"}, Verbs: []string{"list"}})
	l.Pod(kubelab.PodSpec{Namespace: "vc", Name: "vc-a-0", Node: "node-1", Containers: []string{"syncer"}, Image: "ghcr.io/loft-sh/vcluster-oss:0.22.5", Owner: "StatefulSet/vc-a"})
	c := k.Start("vc", "vc-a-0", "syncer")
	l.SetStatus("vc", "vc-a-0", kubelab.ContainerStatus{Name: "syncer"})

	d := &daemon{T: t, dir: t.TempDir(), am: fakeam.New()}
	t.Cleanup(d.kill)
	d.bin = filepath.Join(d.dir, "crowsnest")
	out, err := exec.Command("go", "build", "-o", d.bin, "crowsnest/cmd/crowsnest").CombinedOutput()
	require.NoError(t, err, string(out))
	server, err := fakeam.Serve(d.am)
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	kubeconfig := l.Kubeconfig("", l.Token("vc", "crowsnest"))
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o600))
	}
	write("pack.yaml", pack)
	write("crowsnest.yml", fmt.Sprintf(config, kubeconfig, kubeconfig, server.URL))
	d.start()

	c.Log(time.Now(), "E1120 leaderelection lost one")
	a := d.alert("LabLeaderLost", "round", "one", false)
	require.Equal(t, "vc-a-0", a.Labels["pod"])
	require.True(t, strings.HasPrefix(a.Annotations["affected"], "yes: vcluster 0.22.5 is affected"), a.Annotations["affected"])
	require.Equal(t, "0.22.6", a.Annotations["fixed_in"])
	require.Eventually(t, func() bool { return strings.Contains(d.log(), "Cluster API is not installed") }, patience, often)

	d.kill() // while it is away, the container logs, ends and starts again
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
			"spec": kubelab.Object{"clusterName": "local"}, "status": kubelab.Object{"phase": "Running", "nodeRef": kubelab.Object{"name": node}},
		}
	}
	require.Eventually(t, func() bool {
		code, _ := l.Try(http.MethodPost, machines, machine("m1", "node-1"))
		return code == http.StatusCreated
	}, patience, often)
	l.Node("node-2", k.Port())
	d.start()
	d.alert("LabLeaderLost", "round", "two", false)
	d.alert("LabLeaderLost", "round", "three", false)
	d.alert("LabNodeHasNoMachine", "node", "node-2", false)
	l.Do(http.MethodPost, machines, machine("m2", "node-2"))
	d.alert("LabNodeHasNoMachine", "node", "node-2", true)
	for _, w := range d.am.Words("LabNodeHasNoMachine") {
		require.Equal(t, "node-2", w.Alert.Labels["node"])
	}
	for _, name := range []string{"CrowsnestLinesLost", "CrowsnestBlind"} {
		require.Empty(t, d.am.Words(name))
	}
}
