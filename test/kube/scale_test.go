//go:build e2e

package kube

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/daemon"
	"crowsnest/test/fakeam"
	"crowsnest/test/kubelab"
	"crowsnest/test/wait"
)

// The load of TestE2EScale.
const (
	scaleNodes    = 1000
	scaleMachines = 5000
	scaleEvents   = 10_000 // within a minute
	scaleAuthors  = 8
	maxGrowth     = 64 << 20
)

const agentsOnly = `sources:
  agents: {}
sinks:
  alertmanager: {urls: [%q]}
`

const agentsAndState = `sources:
  agents: {}
  events: {kubeconfig: %[2]q}
  objects: {kubeconfig: %[2]q, kinds: [nodes, machines.cluster.x-k8s.io]}
sinks:
  alertmanager: {urls: [%[1]q]}
`

// TestE2EScale compares the memory of two aggregators with the shipped packs: one that
// also reads 10,000 Events within a minute and watches 1,000 Nodes and 5,000 Machines,
// and one that does not.
func TestE2EScale(t *testing.T) {
	l := kubelab.Start(t)
	l.Do(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd())
	l.Namespace("demo")
	l.Namespace("fleet")
	l.ServiceAccount("demo", "crowsnest")
	l.Grant("demo", "crowsnest", "",
		kubelab.Rule{Groups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"list", "watch"}},
		kubelab.Rule{Groups: []string{"cluster.x-k8s.io"}, Resources: []string{"machines"}, Verbs: []string{"list", "watch"}},
		kubelab.Rule{Groups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}})
	am := fakeam.New()
	server, err := fakeam.Serve(am)
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	dir := t.TempDir()
	binary := filepath.Join(dir, "crowsnest")
	require.NoError(t, daemon.Build(binary))
	start := func(name, configuration string) *lab {
		addr, err := daemon.FreeAddr()
		require.NoError(t, err)
		d := &lab{t: t, am: am, Daemon: &daemon.Daemon{Binary: binary, Dir: filepath.Join(dir, name), Addr: addr}}
		require.NoError(t, os.Mkdir(d.Dir, 0o700))
		t.Cleanup(d.kill)
		require.NoError(t, d.Configure(configuration))
		require.NoError(t, d.Start())
		return d
	}
	small := start("small", fmt.Sprintf(agentsOnly, server.URL))
	large := start("large", fmt.Sprintf(agentsAndState, server.URL, l.Kubeconfig("", l.Token("demo", "crowsnest"))))
	fill(t, l)
	peaks := map[*lab]float64{}
	watch := func() {
		for _, d := range []*lab{small, large} {
			m, err := d.Metrics(t.Context())
			require.NoError(t, err)
			peaks[d] = max(peaks[d], m["go_memstats_heap_alloc_bytes"]+m["go_memstats_stack_inuse_bytes"])
		}
	}
	writeEvents(t, l, watch)
	require.True(t, wait.Until(patience, func() bool { watch(); return large.lines("events") >= scaleEvents && large.lines("objects") > 0 }), large.LogEnd())
	m, err := large.Metrics(t.Context())
	require.NoError(t, err)
	s, err := small.Metrics(t.Context())
	require.NoError(t, err)
	t.Logf("at most %.1f MiB of heap and stacks, %.1f without the sources; resident %.1f and %.1f MiB",
		peaks[large]/(1<<20), peaks[small]/(1<<20), m["process_resident_memory_bytes"]/(1<<20), s["process_resident_memory_bytes"]/(1<<20))
	require.Less(t, peaks[large]-peaks[small], float64(maxGrowth))
}

// lines returns how many lines a source has read.
func (d *lab) lines(source string) float64 {
	m, err := d.Metrics(d.t.Context())
	if err != nil {
		return 0
	}
	return m[fmt.Sprintf("crowsnest_source_lines_total{source=%q}", source)]
}

// fill creates the Nodes and the Machines; every hundredth is not ready.
func fill(t *testing.T, l *kubelab.Lab) {
	t.Helper()
	conditions := func(i int, types ...string) (out []kubelab.Object) {
		status := "True"
		if i%100 == 0 {
			status = "False"
		}
		for _, name := range types {
			out = append(out, kubelab.Object{"type": name, "status": status, "reason": "Is" + name, "message": "everything is as it should be", "lastTransitionTime": "2026-11-20T16:00:00Z"})
		}
		return out
	}
	parallel(scaleNodes, func(i int) {
		l.Do(http.MethodPost, "/api/v1/nodes", kubelab.Object{
			"metadata": kubelab.Object{"name": fmt.Sprintf("node-%d", i)}, "status": kubelab.Object{"conditions": conditions(i, "Ready", "NetworkAvailable")},
		})
	})
	parallel(scaleMachines, func(i int) {
		l.Do(http.MethodPost, "/apis/cluster.x-k8s.io/v1beta1/namespaces/fleet/machines", kubelab.Object{
			"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "metadata": kubelab.Object{"name": fmt.Sprintf("pool-a-6c4b8d9f7-%05d", i)},
			"spec": kubelab.Object{"clusterName": "shop", "providerID": fmt.Sprintf("made-up://%d", i)},
			"status": kubelab.Object{
				"phase": "Running", "nodeRef": kubelab.Object{"name": fmt.Sprintf("node-%d", i)},
				"conditions": conditions(i, "Ready", "BootstrapReady", "InfrastructureReady", "NodeHealthy"),
			},
		})
	})
}

// writeEvents creates the Events at an even pace, and calls each once a second.
func writeEvents(t *testing.T, l *kubelab.Lab, each func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			each()
			wait.Pause(ctx, time.Second)
		}
	})
	reasons := []string{"FailedScheduling", "BackOff", "Unhealthy", "FailedMount", "Scheduled", "Pulled", "Evicted", "FailedAttachVolume"}
	began := time.Now()
	parallel(scaleEvents, func(i int) {
		wait.Pause(ctx, time.Until(began.Add(time.Duration(i)*time.Minute/scaleEvents)))
		say(l, fmt.Sprint("e", i), reasons[i%len(reasons)], fmt.Sprint("pod-", i%500))
	})
	cancel()
	watching.Wait()
}

// parallel calls f for 0 to n-1, a few at a time.
func parallel(n int, f func(int)) {
	next := make(chan int)
	var all sync.WaitGroup
	for range scaleAuthors {
		all.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}
