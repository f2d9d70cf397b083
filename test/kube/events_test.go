//go:build e2e

package kube

import (
	"context"
	"encoding/json"
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

const eventsPack = `pack: {name: events, version: 0.1.0, rules: 2}
rules:
- alert: LabEvents
  from: '{component="events"}'
  match: {contains: 'msg="event"', field: {reason: Counted}}
  by: [namespace]
  keep_firing_for: 1h
  severity: warning
  annotations: {summary: "Events in {{ $labels.namespace }}"}
- alert: LabPodDoesNotFit
  from: '{component="events"}'
  match: {contains: FailedScheduling, field: {reason: FailedScheduling}}
  clear: {contains: Scheduled, field: {reason: Scheduled}}
  for: 15s
  by: [namespace, pod]
  severity: warning
  annotations: {summary: "{{ $labels.pod }} fits on no node"}
`

const eventsConfig = `global: {blind_after: 10s}
rules: {shipped: false, paths: [pack.yaml]}
sources:
  events: {kubeconfig: %q}
sinks:
  alertmanager: {urls: [%q], min_firing: 1s}
`

const demoEvents = "/apis/events.k8s.io/v1/namespaces/demo/events"

// say creates an Event about a pod.
func say(l *kubelab.Lab, name, reason, pod string) {
	l.Do(http.MethodPost, demoEvents, kubelab.Object{
		"metadata": kubelab.Object{"namespace": "demo", "name": name}, "eventTime": time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00"),
		"type": "Warning", "reason": reason, "action": "Test", "reportingController": "test", "reportingInstance": "test-0", "note": "a test: " + name,
		"regarding": kubelab.Object{"kind": "Pod", "namespace": "demo", "name": pod},
	})
}

// counted returns how many lines the failure of LabEvents has.
func (d *lab) counted(ctx context.Context) (n int64) {
	text, err := d.Get(ctx, "/api/v1/episodes")
	var answer struct {
		Data struct {
			Episodes []struct {
				Alert string
				Count int64
			}
		}
	}
	if err != nil || json.Unmarshal([]byte(text), &answer) != nil {
		return -1
	}
	for _, e := range answer.Data.Episodes {
		if e.Alert == "LabEvents" {
			n += e.Count
		}
	}
	return n
}

// TestE2EDaemonEvents: while the daemon is killed again and again, and the API server too,
// every Event is counted once. Nothing fires or ends while the API server is away.
func TestE2EDaemonEvents(t *testing.T) {
	l := kubelab.Start(t)
	l.Namespace("demo")
	l.ServiceAccount("demo", "crowsnest")
	l.Grant("demo", "crowsnest", "", kubelab.Rule{Groups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"list", "watch"}})
	dir := t.TempDir()
	addr, err := daemon.FreeAddr()
	require.NoError(t, err)
	d := &lab{t: t, am: fakeam.New(), Daemon: &daemon.Daemon{Binary: filepath.Join(dir, "crowsnest"), Dir: dir, Addr: addr}}
	t.Cleanup(d.kill)
	require.NoError(t, daemon.Build(d.Binary))
	server, err := fakeam.Serve(d.am)
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pack.yaml"), []byte(eventsPack), 0o600))
	require.NoError(t, d.Configure(fmt.Sprintf(eventsConfig, l.Kubeconfig("", l.Token("demo", "crowsnest")), server.URL)))
	require.NoError(t, d.Start())

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var api sync.Mutex // held while the API server is away
	wrote := int64(0)
	var writing sync.WaitGroup
	writing.Go(func() {
		for ; ctx.Err() == nil; wait.Pause(ctx, 10*time.Millisecond) {
			api.Lock()
			say(l, fmt.Sprint("e", wrote), "Counted", "web")
			wrote++
			api.Unlock()
		}
	})
	for round := range 15 {
		wait.Pause(ctx, time.Second)
		d.kill()
		switch round % 5 {
		case 1:
			l.Compact()
		case 3:
			api.Lock()
			l.StopAPI()
			l.StartAPI()
			api.Unlock()
		}
		require.NoError(t, d.Start())
	}
	cancel()
	writing.Wait()
	if !wait.Until(patience, func() bool { return d.counted(t.Context()) >= wrote }) {
		text, err := d.Get(t.Context(), "/api/v1/episodes")
		t.Fatalf("%d of %d: %.2000s %v\n%s", d.counted(t.Context()), wrote, text, err, d.LogEnd())
	}
	wait.Pause(t.Context(), 10*time.Second)
	require.Equal(t, wrote, d.counted(t.Context()))
	t.Logf("%d Events, each counted once, over 15 kills", wrote)

	say(l, "fit-a", "FailedScheduling", "a")
	d.alert("LabPodDoesNotFit", "pod", "a", false)
	say(l, "fit-b", "FailedScheduling", "b")
	wait.Pause(t.Context(), 2*time.Second)
	l.StopAPI()
	d.alert("CrowsnestBlind", "source", "events", false)
	wait.Pause(t.Context(), 30*time.Second)
	for _, w := range d.am.Accepted("LabPodDoesNotFit") {
		require.False(t, w.Resolved || w.Alert.Labels["pod"] == "b", "nobody knows whether b was scheduled: %v", w.Alert)
	}
	l.StartAPI()
	d.alert("LabPodDoesNotFit", "pod", "b", false)
	say(l, "fits-a", "Scheduled", "a")
	d.alert("LabPodDoesNotFit", "pod", "a", true)
	d.alert("CrowsnestBlind", "source", "events", true)
	require.Empty(t, d.am.Accepted("CrowsnestLinesLost"))
}
