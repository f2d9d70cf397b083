//go:build e2e

package alertmanager

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/test/servers"
)

// scene is a cluster of two, a client that sends alerts to it, and the receiver of its
// notifications.
type scene struct {
	hook   *servers.Hook
	ams    [2]*servers.AlertmanagerServer
	client planClient
	words  map[string]episodes.Episode // newest, by alertname

	member       *servers.AlertmanagerServer // that is away
	gone         chan struct{}
	goneAt       time.Time
	backAt       time.Time
	memoryCounts bool // see judge
}

// planClient sends alerts.
type planClient interface {
	notify(ep episodes.Episode)
	// reach cuts the network to an Alertmanager, or repairs it.
	reach(url string, ok bool)
	// answered returns the time of an Alertmanager's first answer since its network was
	// repaired; zero: none.
	answered() time.Time
	restart(kill bool)
	save()
	stop()
}

func newScene(t *testing.T, client func(t *testing.T, s *scene) planClient) *scene {
	s := &scene{hook: servers.NewHook(t, alertname), words: map[string]episodes.Episode{}, gone: make(chan struct{})}
	s.ams = servers.Alertmanagers(t, servers.AlertmanagerOptions{
		Webhook: s.hook.URL, GroupInterval: 5 * time.Second, Debug: true, Faster: planFaster,
	})
	s.client = client(t, s)
	t.Cleanup(func() { s.client.stop() })
	return s
}

func (s *scene) notify(ep episodes.Episode) {
	s.words[ep.Alert] = ep
	s.client.notify(ep)
}

func (s *scene) leave(member int, how string) {
	s.member, s.goneAt = s.ams[member], time.Now()
	switch how {
	case stopped:
		go func() { defer close(s.gone); s.member.Stop() }()
		return
	case killed:
		s.member.Kill()
	case suspended:
		s.member.Suspend()
	case cut, isolated:
		s.client.reach(s.member.URL, false)
		s.member.Isolate(how == isolated)
	}
	close(s.gone)
}

func (s *scene) back(how string) {
	<-s.gone
	s.backAt = time.Now()
	s.client.reach(s.member.URL, true)
	s.member.Isolate(false)
	switch how {
	case suspended:
		s.member.Resume()
	case stopped, killed:
		s.member.Launch()
	}
}

// gate is the network of a client. It is safe for concurrent use.
type gate struct {
	http.Transport
	mu     sync.Mutex
	killed bool
	cut    string // host to which packets are dropped; "": none
	watch  string // host whose next answer is wanted; "": none
	first  time.Time
}

// RoundTrip tries to connect as often as the kernel would.
func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	for _, again := range []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second} {
		select {
		case <-time.After(again):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		g.mu.Lock()
		killed, cut := g.killed, g.cut == r.URL.Host
		g.mu.Unlock()
		switch {
		case killed:
			return nil, errors.New("killed")
		case !cut:
			res, err := g.Transport.RoundTrip(r)
			g.mu.Lock()
			if err == nil && g.watch == r.URL.Host {
				g.watch, g.first = "", time.Now()
			}
			g.mu.Unlock()
			return res, err
		}
	}
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func (g *gate) reach(url string, ok bool) {
	host := url[len("http://"):]
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cut = host; ok {
		g.cut, g.watch = "", host
	}
}

func (g *gate) answered() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.first
}

// sinkClient is crowsnest's sink. It is killed by its network.
type sinkClient struct {
	*gate
	t       *testing.T
	scene   *scene
	sink    *Sink
	end     func()
	saved   []byte
	savedAt time.Time
}

func newSinkClient(t *testing.T, s *scene) planClient {
	s.memoryCounts = true
	c := &sinkClient{gate: &gate{}, t: t, scene: s}
	c.start(nil)
	return c
}

func (c *sinkClient) notify(ep episodes.Episode) { c.sink.Notify([]episodes.Episode{ep}) }

// start makes a sink, from a saved state if there is one, and runs it.
func (c *sinkClient) start(state []byte) {
	minFiring := time.Second
	s, err := New(Config{
		URLs: []string{c.scene.ams[0].URL, c.scene.ams[1].URL}, ResendDelay: time.Second, EndsAfter: 75 * time.Second, MinFiring: &minFiring,
	}, Options{Log: zerolog.Nop()})
	require.NoError(c.t, err)
	if state != nil {
		require.NoError(c.t, s.Import(state))
	}
	for _, e := range s.endpoints {
		e.client.http.Transport = c.gate
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	c.sink = s
	c.end = sync.OnceFunc(func() {
		cancel()
		<-done
		c.CloseIdleConnections()
	})
}

func (c *sinkClient) stop() { c.end() }

func (c *sinkClient) save() {
	if time.Since(c.savedAt) < planSave {
		return
	}
	b, err := c.sink.Export()
	require.NoError(c.t, err)
	c.saved, c.savedAt = b, time.Now()
}

func (c *sinkClient) kill(yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed = yes
}

// restart ends the sink and starts the next one with what was saved. The engine
// sends it what is open and what ended lately.
func (c *sinkClient) restart(kill bool) {
	c.kill(kill)
	c.end()
	if !kill {
		c.savedAt = time.Time{}
		c.save()
	}
	c.kill(false)
	c.start(c.saved)
	for _, ep := range c.scene.words {
		c.notify(ep)
	}
}
