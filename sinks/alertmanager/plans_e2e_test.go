//go:build e2e

package alertmanager

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/test/servers"
	"crowsnest/test/wait"
)

// The plans run with the default times, 60 times as fast: an hour is a minute. What
// is not configurable, such as the time between two tries, is as it is.
const (
	planSpan     = 70 * time.Second // in which everything happens
	planAway     = time.Minute      // longest absence of a member
	planSave     = 700 * time.Millisecond
	planTick     = 50 * time.Millisecond
	planParallel = 4
)

func planConfig(urls ...string) Config {
	minFiring := time.Second
	return Config{URLs: urls, ResendDelay: time.Second, EndsAfter: 75 * time.Second, MinFiring: &minFiring}
}

// TestMemberPlans: a member of a cluster of two is away for a time between
// nothing and an hour, while alerts open and end and crowsnest restarts. People
// are notified of every beginning and of every end once. A member that was suspended
// can break that: when it wakes up it flushes its groups before it reads a request.
// CROWSNEST_PLANS is how many plans are run, CROWSNEST_SEED the seed of the first.
func TestMemberPlans(t *testing.T) {
	plans, seed := number("CROWSNEST_PLANS", 3), number("CROWSNEST_SEED", 1)
	slots := make(chan struct{}, planParallel)
	for i := range plans {
		t.Run(fmt.Sprint("seed ", seed+i), func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			runPlan(t, uint64(seed+i))
		})
	}
}

func number(env string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(env)); err == nil {
		return n
	}
	return otherwise
}

// event is something that happens.
type event struct {
	at   time.Duration
	what string
	do   func()
}

// planRun is a plan under way.
type planRun struct {
	t      *testing.T
	began  time.Time
	ams    [2]*servers.AlertmanagerServer
	sink   *Sink
	gate   *gate
	stop   func()
	saved  []byte
	words  map[string]episodes.Episode // newest, by alertname
	events []event
}

// gate is the network of a sink; it is cut when the sink is killed.
type gate struct {
	http.Transport
	killed atomic.Bool
}

func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	if g.killed.Load() {
		return nil, errors.New("killed")
	}
	return g.Transport.RoundTrip(r)
}

func runPlan(t *testing.T, seed uint64) {
	hook := servers.NewHook(t, alertname)
	p := &planRun{t: t, words: map[string]episodes.Episode{}}
	p.ams = servers.Alertmanagers(t, servers.AlertmanagerOptions{Webhook: hook.URL, GroupInterval: 5 * time.Second, Settle: 30 * time.Second})
	p.start(nil)
	defer func() { p.stop() }()
	p.plan(rand.New(rand.NewPCG(seed, seed)))
	var log []string
	p.began = time.Now()
	nextSave := planSave
	for span := planSpan; time.Since(p.began) < span || len(p.events) > 0; {
		for len(p.events) > 0 && p.events[0].at <= time.Since(p.began) {
			log = append(log, fmt.Sprintf("%s: %s", time.Since(p.began).Round(time.Millisecond), p.events[0].what))
			p.events[0].do()
			p.events = p.events[1:]
		}
		if time.Since(p.began) >= nextSave {
			p.save()
			nextSave += planSave
		}
		wait.Pause(t.Context(), planTick)
	}
	want := map[string]string{}
	for name, ep := range p.words {
		want[name] = "firing"
		if ep.State == episodes.StateResolved {
			want[name] = "firing resolved"
		}
	}
	missing := func() (out []string) {
		told := hook.Told()
		for name, w := range want {
			if !strings.HasSuffix(told[name], strings.TrimPrefix(w, "firing ")) {
				out = append(out, name+": "+told[name])
			}
		}
		return out
	}
	for end := time.Now().Add(time.Minute); len(missing()) > 0 && time.Now().Before(end); {
		wait.Pause(t.Context(), planTick)
	}
	wait.Pause(t.Context(), 12*time.Second) // two group_intervals: what is notified too much comes by then
	require.Empty(t, missing(), "not notified\n%s", strings.Join(log, "\n"))
	told := hook.Told()
	require.Equal(t, want, told, "notified otherwise\n%s", strings.Join(log, "\n"))
}

// plan draws what happens.
func (p *planRun) plan(r *rand.Rand) {
	at := func(from, to time.Duration) time.Duration { return from + time.Duration(r.Int64N(int64(to-from))) }
	away := at(0, planAway)
	if r.IntN(3) == 0 {
		away = at(0, 6*time.Second)
	}
	from := at(3*time.Second, 8*time.Second)
	for i := range 12 {
		name := fmt.Sprintf("A%d", i)
		opens := at(0, planSpan-10*time.Second)
		ends := opens + at(0, planSpan-opens)
		switch i {
		case 0, 1: // open before, and end while the member is away
			opens, ends = at(0, 2*time.Second), at(from, from+away+time.Second)
		case 2: // opens and ends meanwhile
			opens, ends = from+away/4, from+away/2
		case 3: // ends when it returns
			opens, ends = at(0, from), from+away+at(0, 2*time.Second)
		}
		p.add(opens, "opens "+name, func() { p.notify(fire(name)) })
		if i < 10 {
			p.add(max(ends, opens+planTick), "ends "+name, func() { p.notify(end(p.words[name])) })
		}
	}
	am, how := p.ams[r.IntN(2)], []string{"SIGTERM", "SIGKILL", "SIGSTOP"}[r.IntN(3)]
	gone := make(chan struct{})
	p.add(from, how+" "+am.Name, func() {
		switch how {
		case "SIGTERM":
			go func() { defer close(gone); am.Stop() }()
			return
		case "SIGKILL":
			am.Kill()
		case "SIGSTOP":
			am.Suspend()
		}
		close(gone)
	})
	p.add(from+away, "back "+am.Name, func() {
		<-gone
		if how == "SIGSTOP" {
			am.Resume()
			return
		}
		am.Launch()
	})
	for range r.IntN(3) {
		kill := r.IntN(2) == 0
		p.add(at(0, planSpan), fmt.Sprint("crowsnest restarts, killed: ", kill), func() { p.restart(kill) })
	}
	slices.SortStableFunc(p.events, func(a, b event) int { return int(a.at - b.at) })
}

func (p *planRun) add(at time.Duration, what string, do func()) {
	p.events = append(p.events, event{at, what, do})
}

func (p *planRun) notify(ep episodes.Episode) {
	p.words[ep.Alert] = ep
	p.sink.Notify([]episodes.Episode{ep})
}

// start makes a sink, from a saved state if there is one, and runs it.
func (p *planRun) start(state []byte) {
	s, err := New(planConfig(p.ams[0].URL, p.ams[1].URL), Options{Log: zerolog.Nop()})
	require.NoError(p.t, err)
	if state != nil {
		require.NoError(p.t, s.Import(state))
	}
	g := &gate{}
	for _, e := range s.endpoints {
		e.client.transport = g
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	p.sink, p.gate = s, g
	p.stop = func() {
		cancel()
		<-done
		g.CloseIdleConnections()
	}
}

func (p *planRun) save() {
	b, err := p.sink.Export()
	require.NoError(p.t, err)
	p.saved = b
}

// restart ends the sink and starts the next one with what was saved. The engine
// sends it what is open and what ended lately.
func (p *planRun) restart(kill bool) {
	p.gate.killed.Store(kill)
	p.stop()
	if !kill {
		p.save()
	}
	p.start(p.saved)
	for _, ep := range p.words {
		p.sink.Notify([]episodes.Episode{ep})
	}
}
