//go:build e2e

package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/kubelab"
	"crowsnest/test/wait"
)

// readRole grants all that the source needs.
var readRole = kubelab.Rule{Groups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"list", "watch"}}

// running is a source that reads a real API server and can be restarted.
type running struct {
	*testing.T
	cfg EventsConfig
	*eventPipe
	src  *Events
	stop func()
}

func (r *running) start(positions json.RawMessage) {
	r.src = NewEvents(r.cfg)
	require.NoError(r, r.src.Restore(positions))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.src.Run(ctx, r.eventPipe) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(r, <-done)
	})
	r.Cleanup(func() { r.stop() })
}

// lines returns how often each Event was written with each count.
func (r *running) lines() map[string]int {
	b := &eventBench{T: r.T, eventPipe: r.eventPipe}
	out := map[string]int{}
	for _, line := range b.wrote() {
		out[line]++
	}
	return out
}

// author writes Events through the API of a lab.
type author struct {
	mu     sync.Mutex // held while the API server is away
	l      *kubelab.Lab
	counts map[string]int
	total  int
}

const inDemo = eventsPath + "/namespaces/demo/events"

// write creates an Event, or raises the count of one.
func (a *author) write() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.total++
	now := eventTime(time.Now())
	if n := len(a.counts); n > 0 && rand.IntN(3) == 0 {
		name := fmt.Sprint("e", rand.IntN(n))
		a.counts[name]++
		a.l.Do(http.MethodPatch, inDemo+"/"+name, kubelab.Object{"series": kubelab.Object{"count": a.counts[name], "lastObservedTime": now}})
		return
	}
	name := fmt.Sprint("e", len(a.counts))
	a.counts[name] = 1
	a.l.Do(http.MethodPost, inDemo, demoEvent(name, now))
}

func demoEvent(name, now string) kubelab.Object {
	return kubelab.Object{
		"metadata": kubelab.Object{"namespace": "demo", "name": name}, "eventTime": now, "type": "Warning", "reason": "BackOff", "action": "Restart",
		"regarding":           kubelab.Object{"kind": "Pod", "namespace": "demo", "name": name},
		"reportingController": "kubelet", "reportingInstance": "n1", "note": "Back-off restarting failed container",
	}
}

// TestE2EEvents: with a real API server that is killed, with broken and hanging
// connections, versions that are too old, a token that is replaced, and restarts of the
// source, no Event is lost or read twice.
func TestE2EEvents(t *testing.T) {
	l := kubelab.Start(t)
	toAPI := kubelab.NewProxy(t, l.Port)
	l.Namespace("demo")
	l.ServiceAccount("demo", "crowsnest")
	l.Grant("demo", "crowsnest", "", readRole)
	config := l.Kubeconfig(toAPI.URL(), l.Token("demo", "crowsnest"))
	r := &running{T: t, cfg: EventsConfig{Kubeconfig: config, LookBack: time.Hour}, eventPipe: &eventPipe{}}
	r.start(nil)
	a := &author{l: l, counts: map[string]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	var writing sync.WaitGroup
	writing.Go(func() {
		for wait.Pause(ctx, 20*time.Millisecond); ctx.Err() == nil; wait.Pause(ctx, 20*time.Millisecond) {
			a.write()
		}
	})
	for round := range 14 {
		switch round % 7 {
		case 0:
			toAPI.Cut()
		case 1:
			a.mu.Lock()
			l.StopAPI()
			wait.Pause(ctx, time.Second)
			l.StartAPI()
			a.mu.Unlock()
		case 2: // too old
			toAPI.Down(true)
			wait.Pause(ctx, time.Second)
			l.Compact()
			toAPI.Down(false)
		case 3:
			r.stop()
			wait.Pause(ctx, time.Second)
			r.start(r.src.Positions())
		case 4: // too old after a restart
			r.stop()
			wait.Pause(ctx, time.Second)
			l.Compact()
			r.start(r.src.Positions())
		case 5:
			toAPI.Hang(true)
			wait.Pause(ctx, 3*time.Second)
			toAPI.Hang(false)
		case 6: // the token is refused, then replaced
			a.mu.Lock()
			l.Do(http.MethodDelete, "/api/v1/namespaces/demo/serviceaccounts/crowsnest", nil)
			l.StopAPI()
			l.StartAPI()
			a.mu.Unlock()
			require.True(t, wait.Until(patience, func() bool { return strings.Contains(r.src.Status().Error, "refuses the credentials") }), r.src.Status().Error)
			l.ServiceAccount("demo", "crowsnest")
			require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(config), "token"), []byte(l.Token("demo", "crowsnest")), 0o600))
		}
		wait.Pause(ctx, time.Duration(500+rand.IntN(2000))*time.Millisecond)
	}
	cancel()
	writing.Wait()
	ended := time.Now()
	require.True(t, wait.Until(patience, func() bool { return r.provedAt().After(ended) }), r.src.Status().Error)
	got := r.lines()
	lost, twice := 0, 0
	for name, count := range a.counts {
		for n := 1; n <= count; n++ {
			seen := got[fmt.Sprintf("demo/%s=%d", name, n)]
			twice += max(seen-1, 0)
			if n == count && seen == 0 {
				lost++
			}
		}
	}
	st := r.src.Status()
	t.Logf("%d writes of %d Events, %d lines, %d lost, %d twice; errors %v", a.total, len(a.counts), len(r.records), lost, twice, st.Errors)
	require.Zero(t, lost)
	require.Zero(t, twice)
	require.True(t, st.Up, st.Error)
	require.Empty(t, st.Losses)
}

func (p *eventPipe) provedAt() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.proved
}

// TestE2EEventsRole: list and watch are enough, and each is needed.
func TestE2EEventsRole(t *testing.T) {
	l := kubelab.Start(t)
	l.Namespace("demo")
	l.ServiceAccount("demo", "crowsnest")
	r := &running{T: t, cfg: EventsConfig{Kubeconfig: l.Kubeconfig("", l.Token("demo", "crowsnest"))}, eventPipe: &eventPipe{}}
	r.start(nil)
	says := func(text string) {
		t.Helper()
		require.True(t, wait.Until(patience, func() bool { return strings.Contains(r.src.Status().Error, text) }), r.src.Status().Error)
	}
	says(`not allowed: grant list and watch of events.events.k8s.io (the API server answers 403: events.events.k8s.io is forbidden: User "system:serviceaccount:demo:crowsnest" cannot list resource "events"`)
	one := readRole
	one.Verbs = []string{"list"}
	l.Grant("demo", "crowsnest", "", one)
	says(`cannot watch resource "events"`)
	l.Revoke("demo", "crowsnest", "")
	l.Grant("demo", "crowsnest", "", readRole)
	l.Do(http.MethodPost, inDemo, demoEvent("e", eventTime(time.Now())))
	require.True(t, wait.Until(patience, func() bool { return r.src.Status().Up && len(r.lines()) == 1 }), r.src.Status().Error)
}

// TestE2EEventsClaims: the API server takes an Event about an object of another namespace from
// whoever may create Events in one. The namespace of the stream is where it was created.
func TestE2EEventsClaims(t *testing.T) {
	l := kubelab.Start(t)
	l.Namespace("demo")
	e := demoEvent("e", eventTime(time.Now()))
	e["regarding"] = kubelab.Object{"kind": "Pod", "namespace": "kube-system", "name": "etcd-0"}
	l.Do(http.MethodPost, inDemo, e)
	l.ServiceAccount("demo", "crowsnest")
	l.Grant("demo", "crowsnest", "", readRole)
	r := &running{T: t, cfg: EventsConfig{Kubeconfig: l.Kubeconfig("", l.Token("demo", "crowsnest"))}, eventPipe: &eventPipe{}}
	r.start(nil)
	require.True(t, wait.Until(patience, func() bool { return len(r.lines()) == 1 }), r.src.Status().Error)
	require.Equal(t, "demo", r.records[0].namespace)
	require.Contains(t, r.records[0].text, " object=kube-system/etcd-0 ")
}

// TestE2EEventsLoad: the memory and the requests of 10,000 Events a minute, for a minute.
func TestE2EEventsLoad(t *testing.T) {
	const perMinute, authors = 10_000, 8
	l := kubelab.Start(t)
	l.Namespace("demo")
	l.ServiceAccount("demo", "crowsnest")
	l.Grant("demo", "crowsnest", "", readRole)
	r := &running{T: t, cfg: EventsConfig{Kubeconfig: l.Kubeconfig("", l.Token("demo", "crowsnest")), LookBack: time.Hour}, eventPipe: &eventPipe{}}
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / (1 << 20)
	}
	before := heap()
	r.start(nil)
	wrote := make(chan string, perMinute)
	for i := range perMinute {
		wrote <- fmt.Sprint("e", i)
	}
	close(wrote)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	began := time.Now()
	var writing sync.WaitGroup
	for range authors {
		writing.Go(func() {
			for name := range wrote {
				l.Do(http.MethodPost, inDemo, demoEvent(name, eventTime(time.Now())))
				wait.Pause(ctx, time.Until(began.Add(time.Duration(number(name))*time.Minute/perMinute)))
			}
		})
	}
	peak := 0.0
	for len(wrote) > 0 {
		peak = max(peak, heap())
		wait.Pause(ctx, time.Second)
	}
	writing.Wait()
	took, ended := time.Since(began), time.Now()
	require.True(t, wait.Until(patience, func() bool { return r.provedAt().After(ended) }), r.src.Status().Error)
	got := r.lines()
	require.Len(t, got, perMinute)
	require.Equal(t, 1, slices.Max(slices.Collect(maps.Values(got))))
	var kept int
	r.mu.Lock()
	for _, rec := range r.records {
		kept += len(rec.text)
	}
	r.mu.Unlock()
	lists := requests(l)
	require.NotZero(t, lists)
	require.Less(t, float64(lists), 15*time.Since(began).Minutes()+5)
	t.Logf("%d Events in %v, %d lists: heap %.1f MiB before, at most %.1f, of which the test keeps %.1f in lines; positions %d KiB; watermark %v old",
		perMinute, took, lists, before, peak, float64(kept)/(1<<20), len(r.src.Positions())>>10, time.Since(r.provedAt()))
}

// requests returns how many lists of Events the API server has answered.
func requests(l *kubelab.Lab) (n int) {
	_, text := l.Try(http.MethodGet, "/metrics", nil)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "apiserver_request_total{") && strings.Contains(line, `group="events.k8s.io"`) && strings.Contains(line, `verb="LIST"`) {
			_, value, _ := strings.Cut(line, "} ")
			count, _ := strconv.Atoi(strings.TrimSpace(value))
			n += count
		}
	}
	return n
}

func number(name string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(name, "e"))
	return n
}
