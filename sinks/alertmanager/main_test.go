package alertmanager

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"crowsnest/episodes"
	"crowsnest/sinks"
	"crowsnest/test/fakeam"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a sink with fake Alertmanagers, inside a bubble of virtual time.
type bench struct {
	lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
	t      *testing.T
	sink   *Sink
	ams    []*fakeam.AM
	logs   *logLines
	took   []time.Duration // latencies that were reported
	stop   func()
}

// logLines counts lines of log by message. The sink's goroutines do not run
// while a test looks: synctest.Wait comes first.
type logLines struct {
	mu    sync.Mutex
	byMsg map[string]int
}

func (l *logLines) Run(_ *zerolog.Event, _ zerolog.Level, msg string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byMsg[msg]++
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// inBubble runs f with a running sink in front of n Alertmanagers.
func inBubble(t *testing.T, n int, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t}
		for range n {
			b.ams = append(b.ams, fakeam.New())
		}
		b.open(Config{ExternalLabels: map[string]string{"cluster": "c1"}, ExternalURL: "https://crowsnest.example/"}, nil)
		defer func() { b.stop() }()
		f(b)
	})
}

// open makes a sink, from a saved state if there is one, and runs it.
func (b *bench) open(cfg Config, state []byte) {
	b.t.Helper()
	cfg.URLs = nil
	for i := range b.ams {
		cfg.URLs = append(cfg.URLs, fmt.Sprintf("http://am-%d:9093", i))
	}
	b.logs = &logLines{byMsg: map[string]int{}}
	var err error
	b.sink, err = New(cfg, Options{
		Log: zerolog.New(discard{}).Hook(b.logs),
		Latency: func(d time.Duration) {
			b.logs.mu.Lock()
			defer b.logs.mu.Unlock()
			b.took = append(b.took, d)
		},
	})
	require.NoError(b.t, err)
	if state != nil {
		require.NoError(b.t, b.sink.Import(state))
	}
	for i, e := range b.sink.endpoints {
		e.client.http.Transport, e.client.lookup = b.ams[i].Transport(), b.lookup
	}
	b.run()
}

func (b *bench) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- b.sink.Run(ctx) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(b.t, <-done)
	})
}

// pass lets virtual time pass.
func (b *bench) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (b *bench) notify(eps ...episodes.Episode) {
	b.sink.Notify(eps)
	synctest.Wait()
}

// answer returns the newest answer to an alert.
func (b *bench) answer(ep episodes.Episode) sinks.Delivery {
	all := b.sink.Answers(ep.Fingerprint)
	require.NotEmpty(b.t, all)
	return all[len(all)-1]
}

// within requires that ok becomes true within d.
func (b *bench) within(d time.Duration, what string, ok func() bool) {
	b.t.Helper()
	for end := time.Now().Add(d); !ok(); {
		require.True(b.t, time.Now().Before(end), "not within %s: %s", d, what)
		b.pass(50 * time.Millisecond)
	}
}

// told requires the forms in which every Alertmanager received an alert.
func (b *bench) told(name, want string) {
	b.t.Helper()
	for i, am := range b.ams {
		require.Equal(b.t, want, am.States(name), "%s at am-%d", name, i)
	}
}

// fire returns an episode that fires now. Its name is its alertname.
func fire(name string) episodes.Episode {
	var fp episodes.Fingerprint
	for _, c := range name {
		fp = fp*131 + episodes.Fingerprint(c)
	}
	now := time.Now()
	return episodes.Episode{
		Fingerprint: fp, Alert: name, State: episodes.StateFiring, StartsAt: now, FiredAt: now, LastSeen: now, EventTime: now,
		Labels:      map[string]string{"alertname": name, "severity": "warning", "resolves": "clear", "namespace": "default"},
		Annotations: map[string]string{"summary": "something of " + name},
		Count:       1, Line: "a line",
	}
}

// end returns the end of ep, now.
func end(ep episodes.Episode) episodes.Episode {
	ep.State, ep.Reason, ep.EndsAt = episodes.StateResolved, episodes.ReasonClear, time.Now()
	return ep
}
