//go:build e2e

package pair

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"crowsnest/test/kubelab"
	"crowsnest/test/servers"
)

// A pair that reads the Kubernetes API itself.
func TestE2EPairReadsTheAPI(t *testing.T) {
	n, from := plans(t, 1)
	l := newLab(t, n, from)
	k := kubelab.NewKubelet(t)
	l.Node("node-1", k.Port())
	l.readBy(t, n, from, func(seed uint64) *reads {
		load := fmt.Sprint("load-", seed)
		l.Namespace(load)
		l.Grant(namespace, account, load,
			kubelab.Rule{Groups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}},
			kubelab.Rule{Groups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}})
		var logs [2]*kubelab.Container
		for i := range logs {
			pod := fmt.Sprint("p-", i)
			l.Pod(kubelab.PodSpec{Namespace: load, Name: pod, Node: "node-1", Containers: []string{"c"}, Owner: "ReplicaSet/app-5d4f"})
			logs[i] = k.Start(load, pod, "c")
			l.SetStatus(load, pod, kubelab.ContainerStatus{Name: "c", Started: time.Now()})
		}
		return &reads{
			source: fmt.Sprintf("kubernetes: {kubeconfig: %s, namespaces: [%s]}", l.Kubeconfig(l.URL, l.token), load),
			write:  func(node int, line string) { logs[node].Log(time.Now(), line) },
		}
	})
}

// A pair that reads Loki.
func TestE2EPairReadsLoki(t *testing.T) {
	n, from := plans(t, 1)
	l := newLab(t, n, from)
	loki := servers.Loki(t, servers.LokiOptions{})
	l.readBy(t, n, from, func(seed uint64) *reads {
		of := fmt.Sprint("plan-", seed)
		return &reads{
			source: fmt.Sprintf("loki: {url: %q, selector: '{plan=%q}', lateness: 5s, fast_interval: 1s}", loki.URL, of),
			write: func(node int, line string) {
				loki.Push("", servers.Entry{Time: time.Now(), Line: line, Labels: map[string]string{
					"plan": of, "namespace": "load", "pod": fmt.Sprint("p-", node), "container": "c",
				}})
			},
		}
	})
}

// readBy runs plans of pairs without agents.
func (l *lab) readBy(t *testing.T, n int, from uint64, of func(seed uint64) *reads) {
	t.Helper()
	for i := range n {
		seed := from + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w, hook := l.pair(t, seed, "", of(seed))
			k := w.plan(seed, 3, slices.Concat(faults, ofRecord))
			w.judge(k, func() map[string]string { return ofFailures(hook.States()) }, "firing", "resolved")
			w.judge(k, w.hook.states, "opened", "resolved")
		})
	}
}
