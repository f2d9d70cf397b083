package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"crowsnest/agent/client"
	"crowsnest/agent/server"
	"crowsnest/agent/wire"
	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
)

// world executes a plan. Everything in it runs in one bubble of virtual time.
type world struct {
	set   *rules.Set
	rng   *rand.Rand // decides which machine acts when
	agg   *aggregator
	nodes []*machine

	mu    sync.Mutex
	net   *rand.Rand
	quiet bool // the network works
}

// entry is one input of the engine, as an engine without a network would
// receive it.
type entry struct {
	now   time.Time
	part  string
	ids   []uint64  // accepted hits, if any
	to    time.Time // watermark, if not zero
	eval  bool
	join  bool // of the member
	reset bool // all watermarks start again
}

// aggregator is an aggregator with the disk that has its state.
type aggregator struct {
	w *world

	cut      sync.RWMutex
	mu       sync.Mutex
	engine   *episodes.Engine
	source   *server.Source
	handler  http.Handler
	down     bool
	history  []entry            // of the content of the engine
	notified []episodes.Episode // because of the history

	disk struct {
		engine   []byte
		pos      json.RawMessage
		history  int
		notified int
	}
}

func (w *world) newAggregator() *aggregator {
	a := &aggregator{w: w}
	a.boot(nil)
	return a
}

// boot starts a process from the disk.
func (a *aggregator) boot(engine []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.engine = newEngine(a.w.set)
	a.source = server.New(server.Config{SilentAfter: 5 * time.Second})
	a.history, a.notified = a.history[:a.disk.history:a.disk.history], a.notified[:a.disk.notified:a.disk.notified]
	a.history = append(a.history, entry{reset: true})
	if engine != nil {
		if err := errors.Join(a.engine.Restore(engine, time.Now()), a.source.Restore(a.disk.pos)); err != nil {
			panic(err)
		}
		for _, part := range a.source.Members() {
			a.engine.AddSource(part, rules.Lateness, nil)
			a.history = append(a.history, entry{part: part, join: true})
		}
		a.engine.Evaluate(time.Now()) // repeats the notifications before the save
	}
	a.handler = a.source.Handler(&inlet{a: a, engine: a.engine})
	a.down = false
}

func newEngine(set *rules.Set) *episodes.Engine {
	e := episodes.New(episodes.Config{})
	e.Swap(set, time.Now())
	return e
}

// inlet is the pipeline of one process of the aggregator.
type inlet struct {
	sources.Pipeline
	a      *aggregator
	engine *episodes.Engine
}

// dead reports whether the process was killed; whatever still runs in it has no
// effect. The caller holds mu.
func (p *inlet) dead() bool { return p.a.engine != p.engine || p.a.down }

func (p *inlet) Ingest(find func(*rules.Set) []matcher.Hit, commit func()) {
	p.a.cut.RLock()
	defer p.a.cut.RUnlock()
	p.a.mu.Lock()
	defer p.a.mu.Unlock()
	found := find(p.a.w.set)
	if !p.dead() {
		p.engine.Take(found, time.Now())
		e := entry{now: time.Now()}
		for _, h := range found {
			e.ids = append(e.ids, h.ID)
		}
		p.a.history = append(p.a.history, e)
	}
	if commit != nil {
		commit()
	}
}

func (p *inlet) AdvanceWatermark(part string, t time.Time, _ ...matcher.LaggingStream) {
	p.a.mu.Lock()
	defer p.a.mu.Unlock()
	if !p.dead() {
		p.engine.AdvanceWatermark(part, t)
		p.a.history = append(p.a.history, entry{now: time.Now(), part: part, to: t})
	}
}

func (p *inlet) AddMember(part string) {
	p.a.mu.Lock()
	defer p.a.mu.Unlock()
	p.engine.AddSource(part, rules.Lateness, nil)
	if !p.dead() {
		p.a.history = append(p.a.history, entry{part: part, join: true})
	}
}

func (p *inlet) RemoveMember(string) {}

func (p *inlet) Rules() *rules.Set { return p.a.w.set }

// evaluate draws the conclusions that are possible.
func (a *aggregator) evaluate() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down {
		return
	}
	a.notified = append(a.notified, a.engine.Evaluate(time.Now())...)
	a.history = append(a.history, entry{now: time.Now(), eval: true})
}

// save writes everything to the disk, and notifies the source later.
func (a *aggregator) save() func() {
	a.evaluate()
	a.cut.Lock()
	defer a.cut.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down {
		return func() {}
	}
	var err error
	if a.disk.engine, err = a.engine.Snapshot(); err != nil {
		panic(err)
	}
	a.disk.pos = a.source.Positions()
	a.disk.history, a.disk.notified = len(a.history), len(a.notified)
	source := a.source
	return func() { source.ConfirmSaved() }
}

// machine is a node: its log, whose lines are permanent, and the saved state of
// its agent.
type machine struct {
	w    *world
	name string

	mu    sync.Mutex
	log   [][]matcher.Hit // by line
	agent *agent
	disk  struct {
		pos   int
		state []byte
	}
}

// agent is one process on a machine.
type agent struct {
	m     *machine
	up    *client.Sink
	stop  context.CancelFunc
	done  chan struct{}
	cut   sync.RWMutex
	pos   int // of the accepted lines
	cuts  []struct{ pos, seq int }
	alive bool // guarded by machine.mu
}

// boot starts an agent from the disk.
func (m *machine) boot() {
	up, err := client.New(client.Config{URL: "http://aggregator", Node: m.name, Timeout: 2 * time.Second}, client.Options{Transport: m.w})
	if err == nil && m.disk.state != nil {
		err = up.Import(m.disk.state)
	}
	if err == nil && m.disk.state != nil {
		m.disk.state, err = up.Export() // the state that this process follows
	}
	if err != nil {
		panic(err)
	}
	up.AddSource("files", rules.Lateness)
	up.Report(wire.Report{Conditions: []wire.Condition{{Alert: "CrowsnestTest", Severity: "info", Since: time.Now()}}, Rules: map[string]string{"A": "1"}})
	ctx, cancel := context.WithCancel(context.Background())
	a := &agent{m: m, up: up, stop: cancel, done: make(chan struct{}), pos: m.disk.pos, alive: true}
	m.mu.Lock()
	m.agent = a
	m.mu.Unlock()
	go func() {
		defer close(a.done)
		_ = up.Run(ctx)
	}()
}

// read reads some lines, and advances the watermark at the end of the log.
func (a *agent) read(most int) {
	a.m.mu.Lock()
	rest := a.m.log[a.pos:]
	now := time.Now()
	a.m.mu.Unlock()
	lines := rest[:min(most, len(rest))]
	a.cut.RLock()
	for _, hits := range lines {
		a.up.Take(hits)
	}
	a.pos += len(lines)
	a.cut.RUnlock()
	if len(lines) == len(rest) {
		a.up.AdvanceWatermark("files", now)
	}
}

// save saves the confirmed positions.
func (a *agent) save() {
	a.cut.Lock()
	seq, ok := a.up.Checkpoint()
	if ok {
		a.cuts = append(a.cuts, struct{ pos, seq int }{a.pos, int(seq)})
	}
	a.cut.Unlock()
	a.m.mu.Lock()
	defer a.m.mu.Unlock()
	for len(a.cuts) > 0 && a.cuts[0].seq <= int(a.up.AckedBatch()) && a.alive {
		state, err := a.up.Export()
		if err != nil {
			panic(err)
		}
		a.m.disk.pos, a.m.disk.state = a.cuts[0].pos, state
		a.cuts = a.cuts[1:]
	}
}

// kill ends an agent at once; whatever still runs in it is ignored. A stop lets
// it send what it has and say goodbye.
func (m *machine) kill(gently bool) {
	m.mu.Lock()
	a := m.agent
	m.agent = nil
	if !gently {
		a.alive = false
	}
	m.mu.Unlock()
	a.up.Release()
	if gently {
		a.save()
	}
	a.stop()
	<-a.done
	a.save()
}

// chance decides the fate of a request: 100 means no fault.
func (w *world) chance() (fate int, delay time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fate, delay = w.net.IntN(100), time.Duration(w.net.IntN(1500))*time.Millisecond
	if w.quiet {
		fate = 100
	}
	return fate, delay
}

// RoundTrip is the network: it delays requests, breaks them before or after the
// handler, and repeats them.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil { // a probe has no body
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	fate, delay := w.chance()
	if fate < 40 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if fate < 8 {
		return nil, errors.New("connection refused")
	}
	w.agg.mu.Lock()
	handler, down := w.agg.handler, w.agg.down
	w.agg.mu.Unlock()
	if down {
		return nil, errors.New("connection refused")
	}
	deliver := func() *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, httptest.NewRequest(r.Method, r.URL.Path, bytes.NewReader(body)))
		return rec
	}
	rec := deliver()
	if fate < 20 {
		rec = deliver() // twice
	}
	if fate >= 92 && fate < 100 {
		return nil, errors.New("connection reset by peer")
	}
	return rec.Result(), nil
}
