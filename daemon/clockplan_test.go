package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"crowsnest/agent/client"
	"crowsnest/agent/server"
	"crowsnest/daemon/component"
	"crowsnest/daemon/config"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sinks/alertmanager"
	"crowsnest/sources"
	"crowsnest/test/fakeam"
	"crowsnest/test/fault"
	"crowsnest/test/rulefolder"
	"crowsnest/test/setclock"
)

// Clocks of nodes, agents and aggregators are set at random moments while failures begin and end: people are notified once
// of each failure and once of its end, and of nothing else. Everything runs in a bubble of virtual time: the parts of real daemons,
// the protocol between agents and aggregator, and an Alertmanager that judges ends by its own clock, which is right.
//
// CROWSNEST_CLOCK_PLANS is the number of plans, and CROWSNEST_CLOCK_SEED the seed of the first.
func TestClockPlans(t *testing.T) {
	n, from := 3, 1
	for name, to := range map[string]*int{"CROWSNEST_CLOCK_PLANS": &n, "CROWSNEST_CLOCK_SEED": &from} {
		if text := os.Getenv(name); text != "" {
			var err error
			*to, err = strconv.Atoi(text)
			require.NoError(t, err)
		}
	}
	for seed := from; seed < from+n; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			dir := t.TempDir()
			folder := rulefolder.New(t)
			folder.Write("clocks.yaml", clockPack)
			synctest.Test(t, func(t *testing.T) {
				w := &clockWorld{t: t, dir: dir, rules: folder.Dir, am: fakeam.New(), rng: rand.New(rand.NewPCG(uint64(seed), 1))}
				w.play()
			})
		})
	}
}

const (
	// promisedClock is the longest time by which a clock is set.
	promisedClock = 24 * time.Hour
	clockNodes    = 3
	// warmUp is how long everything runs before the first failure, span how long failures begin, and settling how long
	// the plan runs on: alerts of lines end after a while.
	clockWarmUp   = 90 * time.Second
	clockSpan     = 8 * time.Minute
	clockSettling = 8 * time.Minute
)

const clockPack = `pack: {name: clocks, version: 0.1.0, rules: 5}
defaults: {severity: warning}
rules:
- alert: Once
  from: '{container="c"}'
  match: {regex: "begins (?P<key>once[0-9]+)"}
  clear: {regex: "ends (?P<key>once[0-9]+)"}
  by: [key]
- alert: Lasting
  from: '{container="c"}'
  match: {regex: "begins (?P<key>lasting[0-9]+)"}
  clear: {regex: "ends (?P<key>lasting[0-9]+)"}
  for: 30s
  by: [key]
- alert: Often
  from: '{container="c"}'
  match: {regex: "begins (?P<key>often[0-9]+)"}
  clear: {regex: "ends (?P<key>often[0-9]+)"}
  count: 3
  within: 2m
  by: [key]
- alert: Quiet
  from: '{container="c"}'
  match: {regex: "begins (?P<key>quiet[0-9]+)"}
  keep_firing_for: 2m
  by: [key]
- alert: Silent
  from: '{container="c"}'
  match: {regex: "beat (?P<key>silent[0-9]+)"}
  silent: 1m
  expire: 1h
  by: [key]
`

// clockWorld plays one plan.
type clockWorld struct {
	t     *testing.T
	dir   string
	rules string
	am    *fakeam.AM
	rng   *rand.Rand
	began time.Time
	nodes [clockNodes]*clockNode
	// clocks are those of the two aggregators, of which one leads.
	clocks  [2]setclock.Clock
	leading int
	leader  atomic.Pointer[clockProcess] // nil while nobody leads
	want    map[string]bool              // failures by key; true if people must be notified
	happens []clockEvent
	story   string
}

type clockEvent struct {
	at time.Duration
	do func()
}

// clockNode is a node with the logs of two pods.
type clockNode struct {
	name  string
	clock setclock.Clock // clock of the agent
	stamp setclock.Clock // clock of the program that writes the logs
	agent *clockProcess

	mu    sync.Mutex
	pods  [2][]byte
	lines int
}

// log writes a line.
func (n *clockNode) log(key string, text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines++
	pod := int(key[len(key)-1]) % len(n.pods)
	n.pods[pod] = fmt.Appendf(n.pods[pod], "%s stdout F %s, line %d of %s\n", n.stamp.Now().UTC().Format(time.RFC3339Nano), text, n.lines, n.name)
}

// clockSource reads the logs of a node.
type clockSource struct {
	n       *clockNode
	now     func() time.Time
	streams [2]*matcher.Stream
	pos     [2]int
}

func newClockSource(n *clockNode, now func() time.Time) *clockSource {
	s := &clockSource{n: n, now: now}
	for i := range s.streams {
		s.streams[i] = matcher.NewStream(matcher.Labels{"namespace": "kube-system", "pod": fmt.Sprint(n.name, "-", i), "container": "c"}, matcher.StreamOptions{Join: matcher.JoinStream})
	}
	return s
}

func (s *clockSource) Name() string               { return "logs" }
func (s *clockSource) Serves(rules.Selector) bool { return true }
func (s *clockSource) Info() sources.Info         { return sources.Info{Local: true} }
func (s *clockSource) Status() sources.Status {
	return sources.Status{Name: s.Name(), Up: true, Opened: true}
}
func (s *clockSource) Positions() json.RawMessage { b, _ := json.Marshal(s.pos); return b }
func (s *clockSource) Restore(b json.RawMessage) error {
	if b == nil {
		return nil
	}
	return json.Unmarshal(b, &s.pos)
}

func (s *clockSource) Run(ctx context.Context, p sources.Pipeline) error {
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := s.now()
		for i, stream := range s.streams {
			s.n.mu.Lock()
			block := bytes.Clone(s.n.pods[i][s.pos[i]:])
			s.n.mu.Unlock()
			if len(block) > 0 {
				p.Scan(stream, block, func() { s.pos[i] += len(block) })
			}
		}
		p.AdvanceWatermark(s.Name(), now)
	}
}

// clockProcess is a running daemon without its files and listeners.
type clockProcess struct {
	d       *Daemon
	handler http.Handler // server for agents; nil in an agent
	dead    atomic.Bool
	end     func()
}

func (w *clockWorld) daemon(now func() time.Time, dir string) *Daemon {
	cfg := config.Default()
	cfg.Rules = config.RulesConfig{Paths: []string{w.rules}}
	cfg.Storage.Path = dir
	cfg.Sources.All, cfg.Sinks.All = nil, nil
	d, err := makeDaemon(Options{Cfg: cfg, Log: zerolog.Nop(), Getenv: func(string) string { return "" }, now: now})
	require.NoError(w.t, err)
	return d
}

// serve adds a source.
func (d *Daemon) serve(src sources.Source) {
	d.sources, d.kinds = append(d.sources, src), append(d.kinds, component.Kind{})
	d.saver.sources = d.sources
	d.pipe.addSource(src)
}

func (w *clockWorld) startAgent(n *clockNode) {
	d := w.daemon(n.clock.Now, w.dir+"/"+n.name)
	p := &clockProcess{d: d}
	up, err := client.New(client.Config{URL: "http://aggregator", Node: n.name}, client.Options{Now: n.clock.Now, Transport: fault.Transport(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		leader := w.leader.Load()
		if leader == nil || p.dead.Load() {
			panic(http.ErrAbortHandler)
		}
		w.travel()
		leader.handler.ServeHTTP(rw, r)
	}))})
	require.NoError(w.t, err)
	d.pipe.concluder = &remoteConcluder{local: local{d.engine}, sink: up, self: d.self, log: zerolog.Nop()}
	d.receivers = append(d.receivers, up)
	d.saver.receivers, d.endedHistory, d.saver.endedHistory = d.receivers, nil, nil
	d.serve(newClockSource(n, n.clock.Now))
	n.agent = p
	w.run(p)
}

// travel is the time that a request takes.
func (w *clockWorld) travel() {
	time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
}

func (w *clockWorld) startAggregator(ahead time.Duration) {
	clock := &w.clocks[w.leading]
	d := w.daemon(clock.Now, w.dir+"/aggregator")
	p := &clockProcess{d: d}
	am, err := alertmanager.New(alertmanager.Config{URLs: []string{"http://alertmanager"}}, alertmanager.Options{
		Log: zerolog.Nop(), Now: clock.Now, OnAccepted: func() { d.saver.accept(false) }, Leads: func() bool { return !p.dead.Load() },
		Transport: fault.Transport(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.travel()
			w.am.ServeHTTP(rw, r)
		})),
	})
	require.NoError(w.t, err)
	d.sinks = append(d.sinks, am)
	d.receivers = append(d.receivers, am)
	d.saver.receivers = d.receivers
	d.saver.clockLead = ahead
	src := server.New(server.Config{Clock: clock.Now, ListenAddress: "127.0.0.1:99999"})
	d.serve(src)
	p.handler = src.Handler(d.pipe.inletFor(src))
	w.run(p)
	w.leader.Store(p)
}

// run runs what moves lines and alerts.
func (w *clockWorld) run(p *clockProcess) {
	d := p.d
	d.restore()
	d.pipe.concluder.report(d.now(), d.reported.Load())
	g := newGroup(context.Background())
	for _, r := range d.receivers {
		g.start(func(ctx context.Context) { _ = r.Run(ctx) })
	}
	for _, s := range d.sources {
		g.start(func(ctx context.Context) { _ = s.Run(ctx, d.pipe.inletFor(s)) })
	}
	g.start(d.runTicks)
	g.start(d.saver.run)
	p.end = func() {
		p.dead.Store(true)
		d.saver.folderTaken.Store(true) // a killed process writes nothing
		d.pipe.concluder.release()
		g.cancel()
		g.stop(time.Minute)
		d.saver.unlock()
	}
}

// kill ends the leader; one of the two starts some seconds later from what was saved last.
func (w *clockWorld) kill(next int) {
	p := w.leader.Swap(nil)
	p.end()
	last := w.leading
	time.Sleep(time.Duration(1+w.rng.IntN(8)) * time.Second)
	w.leading = next
	w.startAggregator(w.clocks[next].Ahead() - w.clocks[last].Ahead()) // the standby measured the difference
}

func (w *clockWorld) at(at time.Duration, do func()) {
	w.happens = append(w.happens, clockEvent{at, do})
}

// during returns a random time in which failures begin.
func (w *clockWorld) during() time.Duration {
	return clockWarmUp + time.Duration(w.rng.Int64N(int64(clockSpan)))
}

func (w *clockWorld) seconds(from, to int) time.Duration {
	return time.Duration(from*1000+w.rng.IntN((to-from)*1000)) * time.Millisecond
}

// failures plans what is logged.
func (w *clockWorld) failures() {
	w.want = map[string]bool{}
	for i := range 40 {
		rule := []string{"once", "lasting", "often", "quiet", "silent"}[i%5]
		key, at := fmt.Sprint(rule, i), w.during()
		on, off := w.nodes[w.rng.IntN(clockNodes)], w.nodes[w.rng.IntN(clockNodes)]
		begins, ends := func() { on.log(key, "begins "+key) }, func() { off.log(key, "ends "+key) }
		w.want[key] = true
		switch rule {
		case "once":
			from := 5
			if on == off {
				from = 1
			}
			w.at(at, begins)
			w.at(at+w.seconds(from, 120), ends)
		case "lasting":
			w.at(at, begins)
			if w.rng.IntN(3) == 0 {
				w.want[key] = false
				w.at(at+w.seconds(5, 15), ends)
			} else {
				w.at(at+w.seconds(45, 180), ends)
			}
		case "often":
			gap := w.seconds(1, 20)
			for k := range 3 {
				w.at(at+time.Duration(k)*gap, begins)
			}
			w.at(at+2*gap+w.seconds(5, 120), ends)
		case "quiet":
			for k := range 1 + w.rng.IntN(5) {
				w.at(at+time.Duration(k)*20*time.Second, begins)
			}
		case "silent":
			back := at + w.seconds(100, 200)
			for t := time.Duration(0); t < clockWarmUp+clockSpan+clockSettling; t += 15 * time.Second {
				if t < at || t > back {
					w.at(t+w.seconds(0, 2), func() { on.log(key, "beat "+key) })
				}
			}
		}
	}
}

// size returns how far a clock is set: from a second to a day, ahead or back.
func (w *clockWorld) size() time.Duration {
	d := time.Duration(math.Exp(w.rng.Float64()*math.Log(promisedClock.Seconds()))) * time.Second
	if w.rng.IntN(2) == 0 {
		return -d
	}
	return d
}

// faults plans which clocks are set, and which processes are killed.
func (w *clockWorld) faults() {
	for range 8 {
		n, by := w.nodes[w.rng.IntN(clockNodes)], w.size()
		var name string
		var clocks []*setclock.Clock
		switch w.rng.IntN(6) {
		case 0, 1:
			name, clocks = n.name, []*setclock.Clock{&n.clock, &n.stamp}
		case 2:
			name, clocks = "the agent of "+n.name, []*setclock.Clock{&n.clock}
		case 3:
			name, clocks = "the log of "+n.name, []*setclock.Clock{&n.stamp}
		default:
			k := w.rng.IntN(2)
			name, clocks = fmt.Sprint("aggregator ", k), []*setclock.Clock{&w.clocks[k]}
		}
		set := func(by time.Duration) func() {
			return func() {
				w.tell("%s is set by %v", name, by)
				for _, c := range clocks {
					c.Set(by)
				}
			}
		}
		at := w.during()
		w.at(at, set(by))
		if w.rng.IntN(2) == 0 {
			w.at(at+w.seconds(1, 300), set(-by)) // the clock is put right
		}
	}
	for range w.rng.IntN(3) {
		n, k := w.nodes[w.rng.IntN(clockNodes)], w.rng.IntN(2)
		w.at(w.during(), [](func()){
			func() { w.tell("the leader is killed, aggregator %d leads", k); w.kill(k) },
			func() {
				w.tell("the agent of %s is killed", n.name)
				n.agent.end()
				time.Sleep(w.seconds(1, 5))
				w.startAgent(n)
			},
		}[w.rng.IntN(2)])
	}
}

func (w *clockWorld) tell(format string, args ...any) {
	w.story += fmt.Sprintf("%v ", time.Since(w.began).Round(time.Millisecond)) + fmt.Sprintf(format, args...) + "\n"
}

func (w *clockWorld) play() {
	w.began = time.Now()
	w.startAggregator(0)
	for i := range w.nodes {
		w.nodes[i] = &clockNode{name: fmt.Sprint("n", i)}
		w.startAgent(w.nodes[i])
	}
	w.failures()
	w.faults()
	slices.SortStableFunc(w.happens, func(a, b clockEvent) int { return int(a.at - b.at) })
	for _, e := range w.happens {
		time.Sleep(max(0, e.at-time.Since(w.began)))
		e.do()
	}
	time.Sleep(max(0, clockWarmUp+clockSpan+clockSettling-time.Since(w.began)))
	w.judge()
	w.leader.Load().end()
	for _, n := range w.nodes {
		n.agent.end()
	}
}

// judge requires that the Alertmanager notified people of every failure and of its end once, and of nothing else.
func (w *clockWorld) judge() {
	got := map[string][]string{}
	until := map[string]time.Time{}
	for name, words := range w.am.All() {
		if name != "Once" && name != "Lasting" && name != "Often" && name != "Quiet" && name != "Silent" {
			continue
		}
		for _, word := range words {
			key := word.Alert.Labels["key"]
			states := got[key]
			was := len(states)%2 == 1
			if was && until[key].Before(word.Time) {
				got[key] = append(got[key], fmt.Sprintf("ended by itself %v", until[key].Sub(w.began)))
				was = false
			}
			if until[key] = word.Alert.EndsAt; was == word.Resolved {
				got[key] = append(got[key], fmt.Sprintf("%v %v", map[bool]string{true: "resolved", false: "firing"}[word.Resolved], word.Time.Sub(w.began)))
			}
		}
	}
	wrong := ""
	for _, key := range slices.Sorted(maps.Keys(w.want)) {
		states := got[key]
		n := 0
		if w.want[key] {
			n = 2
		}
		if len(states) != n {
			wrong += fmt.Sprintf("%s: %q, want %d\n", key, states, n)
		}
	}
	if wrong != "" {
		w.t.Errorf("%s\n%s", wrong, w.story)
	}
}
