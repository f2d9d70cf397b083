//go:build e2e

package kubernetes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"crowsnest/sources"
	"crowsnest/test/kubelab"
)

// readRole grants all that the source needs.
var readRole = []kubelab.Rule{
	{Groups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}},
	{Groups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}},
}

// wait waits in real time.
func wait(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	<-t.C
}

// real runs a source against a real API server.
func real(t *testing.T, cfg Config) (*Source, *pipe) {
	t.Helper()
	s, p := New(cfg), newPipe()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, p) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return s, p
}

// writer writes the log of one container until it is stopped.
type writer struct {
	mu       sync.Mutex
	pod      string
	k        *kubelab.Kubelet
	c        *kubelab.Container
	at       time.Time
	lines    []string
	started  time.Time
	ended    time.Time
	restarts int
}

func (w *writer) write(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range n {
		at := time.Now()
		switch i % 7 {
		case 3:
			at = w.at // the same time
		case 5:
			at = at.Add(-time.Millisecond) // the other stream is behind
		}
		text := fmt.Sprintf("%s line %d", w.pod, len(w.lines)-len(w.lines)%5)
		w.at = at
		w.lines = append(w.lines, text)
		if i%2 == 0 {
			w.c.Log(at, text)
		} else {
			w.c.Stdout(at, text)
		}
	}
}

func (w *writer) restart() {
	w.write(3)
	w.mu.Lock()
	w.c.Exit()
	w.ended = time.Now()
	w.c = w.k.Start("load", w.pod, "manager")
	w.started = time.Now()
	w.restarts++
	w.mu.Unlock()
	w.write(3)
}

func (w *writer) status() kubelab.ContainerStatus {
	return kubelab.ContainerStatus{Name: "manager", Restarts: w.restarts, Started: w.started, Ended: w.ended}
}

func (w *writer) written() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.lines)
}

// TestE2EFiftyContainers: with a real API server, broken connections, rotations and
// restarts, no line is lost or duplicated.
func TestE2EFiftyContainers(t *testing.T) {
	const containers, rounds = 50, 16
	l := kubelab.Start(t)
	k := kubelab.NewKubelet(t)
	toKubelet, toAPI := kubelab.NewProxy(t, k.Port()), kubelab.NewProxy(t, l.Port)
	l.Node("node-1", toKubelet.Port())
	l.Namespace("load")
	l.ServiceAccount("load", "crowsnest")
	l.Grant("load", "crowsnest", "", readRole...)
	var ws []*writer
	for i := range containers {
		w := &writer{pod: fmt.Sprintf("p-%02d", i), k: k, started: time.Now()}
		l.Pod(kubelab.PodSpec{Namespace: "load", Name: w.pod, Node: "node-1", Containers: []string{"manager"}, Owner: "ReplicaSet/app-5d4f"})
		w.c = k.Start("load", w.pod, "manager")
		l.SetStatus("load", w.pod, w.status())
		ws = append(ws, w)
	}
	s, p := real(t, Config{Kubeconfig: l.Kubeconfig(toAPI.URL(), l.Token("load", "crowsnest"))})
	caughtUp := func(which ...*writer) {
		t.Helper()
		for _, w := range which {
			written := w.written() // more comes all the time
			if !assert.Eventually(t, func() bool { return len(p.texts("load/"+w.pod+"/manager")) >= written }, time.Minute, 20*time.Millisecond) {
				w.mu.Lock()
				got := p.texts("load/" + w.pod + "/manager")
				missing := slices.DeleteFunc(slices.Clone(w.lines), func(l string) bool { return slices.Contains(got, l) })
				t.Fatalf("round of %s: %d of %d missing, %.200q; restarts %d; %+v", w.pod, len(missing), len(w.lines), missing, w.restarts, s.Status().Losses)
			}
		}
	}
	stop, writing := make(chan struct{}), sync.WaitGroup{}
	for _, w := range ws {
		writing.Go(func() {
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
					w.write(10)
				}
			}
		})
	}
	for round := range rounds {
		var some []*writer
		for _, i := range rand.Perm(containers)[:3] {
			some = append(some, ws[i])
		}
		switch round % 4 {
		case 0:
			toAPI.Cut()
		case 1:
			toKubelet.Cut()
		case 2: // restarts, some of them while nobody is connected
			if round%8 == 2 {
				toKubelet.Cut()
			}
			for _, w := range some {
				w.restart()
			}
			wait(time.Duration(rand.N(1500)) * time.Millisecond)
			for _, w := range some {
				l.SetStatus("load", w.pod, w.status())
			}
			wait(12 * time.Second) // till the status is sure
		case 3: // while connected, as long as nobody is away
			caughtUp(some...)
			for _, w := range some {
				w.mu.Lock()
				w.c.Rotate()
				w.mu.Unlock()
			}
			wait(500 * time.Millisecond)
		}
		wait(time.Duration(500+rand.N(1500)) * time.Millisecond)
	}
	close(stop)
	writing.Wait()
	lost, doubled, total := 0, 0, 0
	caughtUp(ws...)
	wait(3 * time.Second)
	for _, w := range ws {
		count := map[string]int{}
		for _, text := range w.lines {
			count[text]++
			total++
		}
		for _, text := range p.texts("load/" + w.pod + "/manager") {
			count[text]--
		}
		for _, n := range count {
			lost += max(n, 0)
			doubled += max(-n, 0)
		}
	}
	st := s.Status()
	t.Logf("%d lines, %d lost, %d doubled; %d requests for logs; errors %v, losses %v", total, lost, doubled, len(k.Requests()), st.Errors, st.Losses)
	require.Zero(t, lost)
	require.Zero(t, doubled)
	require.Empty(t, st.Losses)
	require.True(t, st.Up, st.Error)
	require.EqualValues(t, total, st.Lines)
	require.Equal(t, "app", p.labels["load/p-00/manager"]["workload"])
	require.Less(t, time.Since(p.provedAt()), 10*time.Second)
}

// TestE2ERefused: without the role or a valid token, the source reports one clear
// error and sends few requests. It recovers when the cause is fixed.
func TestE2ERefused(t *testing.T) {
	l := kubelab.Start(t)
	k := kubelab.NewKubelet(t)
	l.Node("node-1", k.Port())
	l.Namespace("load")
	l.ServiceAccount("load", "crowsnest")
	l.Pod(kubelab.PodSpec{Namespace: "load", Name: "p", Node: "node-1", Containers: []string{"manager"}})
	c := k.Start("load", "p", "manager")
	l.SetStatus("load", "p", kubelab.ContainerStatus{Name: "manager"})
	config := l.Kubeconfig("", l.Token("load", "crowsnest"))
	s, p := real(t, Config{Kubeconfig: config, LookBack: time.Hour})
	says := func(text string) {
		t.Helper()
		var first sources.Status
		require.Eventually(t, func() bool { // it learns of the error before it learns that no log is read
			first = s.Status()
			return strings.Contains(first.Error, text) && !first.Up
		}, time.Minute, 20*time.Millisecond)
		wait(12 * time.Second)
		now := s.Status()
		require.Equal(t, first.Error, now.Error)
		for reason, n := range now.Errors {
			require.LessOrEqual(t, n-first.Errors[reason], int64(2), reason)
		}
		t.Log(now.Error)
	}
	reads := func(text string) {
		t.Helper()
		c.Log(time.Now(), text)
		require.Eventually(t, func() bool { return slices.Contains(p.texts("load/p/manager"), text) }, 90*time.Second, 20*time.Millisecond)
		require.Eventually(t, func() bool { return s.Status().Up && s.Status().Error == "" }, time.Minute, 20*time.Millisecond)
	}
	says(`cannot list resource "pods"`)
	l.Grant("load", "crowsnest", "", readRole[0])
	says(`cannot get resource "pods/log"`)
	l.Grant("load", "crowsnest", "load", readRole[1])
	reads("the role is there")

	const account = "/api/v1/namespaces/load/serviceaccounts/crowsnest"
	l.Do("DELETE", account, nil)
	l.StopAPI() // ends open requests
	l.StartAPI()
	says("refuses the credentials")
	l.ServiceAccount("load", "crowsnest")
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(config), "token"), []byte(l.Token("load", "crowsnest")), 0o600))
	reads("the token is new")
	l.DeletePod("load", "p")
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return slices.Contains(p.podDeleted, "load/p")
	}, time.Minute, 20*time.Millisecond)
	got := p.texts("load/p/manager")
	slices.Sort(got)
	require.Equal(t, got, slices.Compact(slices.Clone(got)))
}
