//go:build e2e

package kube

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/daemon"
	"crowsnest/test/fakeam"
	"crowsnest/test/kubelab"
	"crowsnest/test/wait"
)

const statePack = `pack: {name: state, version: 0.1.0, rules: 2}
rules:
- alert: LabLeaseStale
  from: '{component="leases", namespace="kube-system"}'
  match: {contains: 'msg="lease is stale"', field: {name: kube-scheduler}}
  clear: {contains: 'msg="lease is held"', field: {name: kube-scheduler}}
  by: [object]
  severity: critical
  annotations: {summary: "{{ $labels.object }} is stale"}
- alert: LabMachineNotReady
  from: '{component="conditions"}'
  match: 'msg="condition" type=Ready status=False'
  clear: {any: ['msg="condition" type=Ready status=True', 'msg="condition is gone" type=Ready']}
  for: 15s
  by: [namespace, object]
  severity: warning
  annotations: {summary: "{{ $labels.object }} is not ready"}
`

const stateConfig = `global: {blind_after: 10s}
rules: {shipped: false, paths: [pack.yaml]}
sources:
  objects: {kubeconfig: %q, interval: 10s, kinds: [leases.coordination.k8s.io, machines.cluster.x-k8s.io]}
sinks:
  alertmanager: {urls: [%q], min_firing: 1s}
`

// holder renews a Lease every second until the returned function is called, which returns
// the time of the last renewal.
func holder(t *testing.T, l *kubelab.Lab) (die func() time.Time) {
	const path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	var last time.Time
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			last = time.Now()
			_, _ = l.Try(http.MethodPatch, path, kubelab.Object{"spec": kubelab.Object{"renewTime": last.UTC().Format("2006-01-02T15:04:05.000000Z07:00")}})
			wait.Pause(ctx, time.Second)
		}
	}()
	return func() time.Time {
		cancel()
		<-done
		return last
	}
}

// TestE2EObjects: a Lease that nobody renews, and a Machine that is not ready, become
// alerts, over a kill. While the API server is away, nothing fires or ends, and the
// daemon reports that it is blind.
func TestE2EObjects(t *testing.T) {
	l := kubelab.Start(t)
	l.Do(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd())
	l.Namespace("shop")
	l.ServiceAccount("shop", "crowsnest")
	l.Grant("shop", "crowsnest", "",
		kubelab.Rule{Groups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"list", "watch"}},
		kubelab.Rule{Groups: []string{"cluster.x-k8s.io"}, Resources: []string{"machines"}, Verbs: []string{"list", "watch"}})
	l.Do(http.MethodPost, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", kubelab.Object{
		"metadata": kubelab.Object{"name": "kube-scheduler"}, "spec": kubelab.Object{"holderIdentity": "s-0", "leaseDurationSeconds": 6},
	})
	dir := t.TempDir()
	addr, err := daemon.FreeAddr()
	require.NoError(t, err)
	d := &lab{t: t, am: fakeam.New(), Daemon: &daemon.Daemon{Binary: filepath.Join(dir, "crowsnest"), Dir: dir, Addr: addr}}
	t.Cleanup(d.kill)
	require.NoError(t, daemon.Build(d.Binary))
	server, err := fakeam.Serve(d.am)
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pack.yaml"), []byte(statePack), 0o600))
	require.NoError(t, d.Configure(fmt.Sprintf(stateConfig, l.Kubeconfig("", l.Token("shop", "crowsnest")), server.URL)))
	die := holder(t, l)
	require.NoError(t, d.Start())
	const shop = "/apis/cluster.x-k8s.io/v1beta1/namespaces/shop/machines"
	machine := func(name, ready string) kubelab.Object {
		return kubelab.Object{
			"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "metadata": kubelab.Object{"name": name},
			"status": kubelab.Object{"conditions": []kubelab.Object{{"type": "Ready", "status": ready, "reason": "Test", "lastTransitionTime": "2026-11-20T16:00:00Z"}}},
		}
	}
	require.Eventually(t, func() bool {
		code, _ := l.Try(http.MethodPost, shop, machine("a", "False"))
		return code == http.StatusCreated
	}, patience, often)
	d.alert("LabMachineNotReady", "object", "shop/a", false)
	require.Empty(t, d.am.Accepted("LabLeaseStale"))
	died := die()
	d.alert("LabLeaseStale", "object", "kube-system/kube-scheduler", false)
	t.Logf("the alert of the Lease is there %s after the last renewal; it is valid for 6s", time.Since(died))

	d.kill()
	require.NoError(t, d.Start())
	l.Do(http.MethodPost, shop, machine("b", "False"))
	require.Eventually(t, func() bool {
		episodes, err := d.Get(t.Context(), "/api/v1/episodes")
		return err == nil && strings.Contains(episodes, "shop/b")
	}, patience, often)
	l.StopAPI()
	d.alert("CrowsnestBlind", "source", "objects", false)
	wait.Pause(t.Context(), 20*time.Second)
	for _, w := range append(d.am.Accepted("LabLeaseStale"), d.am.Accepted("LabMachineNotReady")...) {
		require.False(t, w.Resolved, "%v", w.Alert)
		require.NotEqual(t, "shop/b", w.Alert.Labels["object"], "nobody knows whether it is still not ready")
	}
	l.StartAPI()
	d.alert("LabMachineNotReady", "object", "shop/b", false)
	l.Do(http.MethodPatch, shop+"/a", machine("a", "True"))
	l.Do(http.MethodDelete, shop+"/b", nil)
	die = holder(t, l)
	d.alert("LabMachineNotReady", "object", "shop/a", true)
	d.alert("LabMachineNotReady", "object", "shop/b", true)
	d.alert("LabLeaseStale", "object", "kube-system/kube-scheduler", true)
	d.alert("CrowsnestBlind", "source", "objects", true)
	die()
	require.Empty(t, d.am.Accepted("CrowsnestLinesLost"))
}
