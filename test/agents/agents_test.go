// Package agents holds the two stages of crowsnest together, one process each in
// life and all of them in one here: sinks/upstream on the nodes, sources/agents
// and the engine behind the network.
package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sinks/upstream"
	"crowsnest/sources"
	"crowsnest/sources/agents"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is what a plan is played in. Everything in it runs in one bubble of
// virtual time.
type world struct {
	set   *rules.Set
	rng   *rand.Rand // of who does something when
	agg   *aggregator
	nodes []*machine

	mu    sync.Mutex
	net   *rand.Rand
	quiet bool // the network is good
}

// entry is one thing that reached the engine, as an engine without a network
// would be given it.
type entry struct {
	now  time.Time
	part string
	ids  []uint64  // hits that were taken, if any
	to   time.Time // proof, if not zero
	eval bool
	join bool // the part
	anew bool // all proofs are
}

// aggregator is one with the disk that its state is on.
type aggregator struct {
	w *world

	cut     sync.RWMutex
	mu      sync.Mutex
	engine  *episodes.Engine
	source  *agents.Source
	handler http.Handler
	down    bool
	history []entry            // of what is in the engine
	told    []episodes.Episode // by what is in the history

	disk struct {
		engine  []byte
		pos     json.RawMessage
		history int
		told    int
	}
}

func (w *world) newAggregator() *aggregator {
	a := &aggregator{w: w}
	a.boot(nil)
	return a
}

// boot starts a process from what is on the disk.
func (a *aggregator) boot(engine []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.engine = newEngine(a.w.set)
	a.source = agents.New(agents.Config{SilentAfter: 5 * time.Second})
	a.history, a.told = a.history[:a.disk.history:a.disk.history], a.told[:a.disk.told:a.disk.told]
	a.history = append(a.history, entry{anew: true})
	if engine != nil {
		if err := errors.Join(a.engine.Restore(engine, time.Now()), a.source.Restore(a.disk.pos)); err != nil {
			panic(err)
		}
		for _, part := range a.source.Parts() {
			a.engine.AddSource(part, rules.Lateness, nil)
			a.history = append(a.history, entry{part: part, join: true})
		}
		a.engine.Evaluate(time.Now()) // it tells once more what was told before the save
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

// dead tells that the process is gone: what is still running in it changes
// nothing any more. The caller holds mu.
func (p *inlet) dead() bool { return p.a.engine != p.engine || p.a.down }

func (p *inlet) Take(find func(*rules.Set) []matcher.Hit, commit func()) {
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

func (p *inlet) Advance(part string, t time.Time) {
	p.a.mu.Lock()
	defer p.a.mu.Unlock()
	if !p.dead() {
		p.engine.Advance(part, t)
		p.a.history = append(p.a.history, entry{now: time.Now(), part: part, to: t})
	}
}

func (p *inlet) Join(part string) {
	p.a.mu.Lock()
	defer p.a.mu.Unlock()
	p.engine.AddSource(part, rules.Lateness, nil)
	if !p.dead() {
		p.a.history = append(p.a.history, entry{part: part, join: true})
	}
}

func (p *inlet) Leave(string) {}

// evaluate draws what can be drawn.
func (a *aggregator) evaluate() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down {
		return
	}
	a.told = append(a.told, a.engine.Evaluate(time.Now())...)
	a.history = append(a.history, entry{now: time.Now(), eval: true})
}

// save puts everything on the disk, and tells the source later.
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
	a.disk.history, a.disk.told = len(a.history), len(a.told)
	source := a.source
	return func() { source.Saved() }
}

// machine is a node: its log is lines that are there for good, and what an agent
// saved.
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
	up    *upstream.Sink
	stop  context.CancelFunc
	done  chan struct{}
	cut   sync.RWMutex
	pos   int // of what was taken
	cuts  []struct{ pos, seq int }
	alive bool // guarded by machine.mu
}

// boot starts an agent from what is on the disk.
func (m *machine) boot() {
	up, err := upstream.New(upstream.Config{URL: "http://aggregator", Node: m.name, Timeout: 2 * time.Second}, upstream.Options{Transport: m.w})
	if err == nil && m.disk.state != nil {
		err = up.Import(m.disk.state)
	}
	if err == nil && m.disk.state != nil {
		m.disk.state, err = up.Export() // that this one follows the last
	}
	if err != nil {
		panic(err)
	}
	up.Join("files", rules.Lateness)
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

// read reads some lines, and proves it at the end of the log.
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
		a.up.Advance("files", now)
	}
}

// save saves what is safe.
func (a *agent) save() {
	a.cut.Lock()
	seq, ok := a.up.Cut()
	if ok {
		a.cuts = append(a.cuts, struct{ pos, seq int }{a.pos, int(seq)})
	}
	a.cut.Unlock()
	a.m.mu.Lock()
	defer a.m.mu.Unlock()
	for len(a.cuts) > 0 && a.cuts[0].seq <= int(a.up.Acked()) && a.alive {
		state, err := a.up.Export()
		if err != nil {
			panic(err)
		}
		a.m.disk.pos, a.m.disk.state = a.cuts[0].pos, state
		a.cuts = a.cuts[1:]
	}
}

// kill ends an agent at once: what it still does concerns nobody. A stop lets it
// send what it has and say goodbye.
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

// chance is what becomes of a request: 100 is nothing bad.
func (w *world) chance() (fate int, delay time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fate, delay = w.net.IntN(100), time.Duration(w.net.IntN(1500))*time.Millisecond
	if w.quiet {
		fate = 100
	}
	return fate, delay
}

// RoundTrip is the network: it delays, breaks before and after, and repeats.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
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

// plan is what happens: lines with their times, and what fails when.
type plan struct {
	seed  uint64
	rules []*rules.Rule
	lines []line
	steps []step
	nodes int
}

type line struct {
	at   time.Duration
	node int
	hits []matcher.Hit // their times are set when they are written
}

type step struct {
	at   time.Duration
	what string
	node int
}

// span is how long lines are written.
const span = 40 * time.Second

func drawPlan(t *rapid.T) plan {
	p := plan{seed: rapid.Uint64().Draw(t, "seed"), nodes: rapid.IntRange(1, 3).Draw(t, "nodes")}
	for i := range rapid.IntRange(1, 3).Draw(t, "rules") {
		p.rules = append(p.rules, anyRule(t, fmt.Sprintf("R%d", i)))
	}
	ms := func(label string) time.Duration {
		return time.Duration(rapid.IntRange(0, int(span/time.Millisecond)).Draw(t, label)) * time.Millisecond
	}
	for i := range rapid.IntRange(1, 60).Draw(t, "lines") {
		l := line{at: ms("at"), node: rapid.IntRange(0, p.nodes-1).Draw(t, "node")}
		for _, r := range p.rules {
			if rapid.Bool().Draw(t, "concerned") {
				l.hits = append(l.hits, matcher.Hit{
					Rule: r, Part: rapid.SampledFrom(partsOf(r)).Draw(t, "part"), Line: fmt.Sprint("line ", i), ID: uint64(i + 1),
					Values: []string{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "k"), rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "v")},
					Labels: matcher.Labels{"pod": "p", "namespace": "n"},
				})
			}
		}
		if len(l.hits) > 0 {
			p.lines = append(p.lines, l)
		}
	}
	for range rapid.IntRange(0, 8).Draw(t, "faults") {
		p.steps = append(p.steps, step{ms("when"), rapid.SampledFrom([]string{"kill aggregator", "kill agent", "stop agent"}).Draw(t, "what"), rapid.IntRange(0, p.nodes-1).Draw(t, "victim")})
	}
	slices.SortStableFunc(p.lines, func(a, b line) int { return int(a.at - b.at) })
	slices.SortStableFunc(p.steps, func(a, b step) int { return int(a.at - b.at) })
	return p
}

// anyRule draws a rule of any kind with the names k and v.
func anyRule(t *rapid.T, name string) *rules.Rule {
	seconds := func(label string, lo, hi int) time.Duration {
		return time.Duration(rapid.IntRange(lo, hi).Draw(t, label)) * time.Second
	}
	r := &rules.Rule{
		Alert: name, Severity: rules.SeverityWarning, Mode: rules.ModeOn, Count: 1, Limit: rapid.IntRange(1, 3).Draw(t, "limit"),
		Steps: make([]rules.Step, 1), KeepFiringFor: rules.DefaultKeepFiringFor, Hash: "1", By: []string{"k"}, Wants: []string{"k", "v"},
	}
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 1:
		r.Count, r.Within = rapid.IntRange(2, 4).Draw(t, "count"), seconds("within", 5, 30)
	case 2:
		r.Count, r.Within, r.Distinct = 2, seconds("within", 5, 30), "v"
	case 3:
		r.Sequence, r.Steps, r.Within = true, make([]rules.Step, 2), seconds("within", 5, 30)
	}
	if rapid.Bool().Draw(t, "has for") {
		r.For = seconds("for", 1, 10)
	}
	if rapid.Bool().Draw(t, "has clear") {
		r.Clear, r.Expire = &rules.Aside{Same: []string{"k"}}, seconds("expire", 11, 40)
	} else {
		r.KeepFiringFor = seconds("keep", 5, 30)
	}
	if rapid.Bool().Draw(t, "has unless") {
		r.Unless = &rules.Aside{Same: []string{"k"}, Within: seconds("unless", 1, 10)}
	}
	return r
}

func partsOf(r *rules.Rule) []matcher.Part {
	parts := []matcher.Part{0, 0, matcher.Part(len(r.Steps) - 1)}
	if r.Clear != nil {
		parts = append(parts, matcher.PartClear)
	}
	if r.Unless != nil {
		parts = append(parts, matcher.PartUnless)
	}
	return parts
}

// play plays a plan in virtual time and returns the world at its end.
func (p plan) play() *world {
	w := &world{set: &rules.Set{Rules: p.rules}, rng: rand.New(rand.NewPCG(p.seed, 1)), net: rand.New(rand.NewPCG(p.seed, 2))}
	w.agg = w.newAggregator()
	for i := range p.nodes {
		m := &machine{w: w, name: fmt.Sprintf("n%d", i)}
		w.nodes = append(w.nodes, m)
		m.boot()
	}
	began := time.Now()
	lines, steps := p.lines, p.steps
	var saved func()
	const tick = 50 * time.Millisecond
	for n := 0; ; n++ {
		timer := time.NewTimer(tick)
		<-timer.C
		synctest.Wait()
		now := time.Since(began)
		w.mu.Lock()
		w.quiet = now > span+5*time.Second
		w.mu.Unlock()
		for len(lines) > 0 && lines[0].at <= now {
			w.nodes[lines[0].node].write(lines[0])
			lines = lines[1:]
		}
		for len(steps) > 0 && steps[0].at <= now {
			w.fail(steps[0])
			steps = steps[1:]
		}
		for _, m := range w.nodes {
			if a := m.agent; a == nil && w.rng.IntN(20) == 0 {
				m.boot()
			} else if a != nil && w.rng.IntN(4) == 0 {
				a.read(1 + w.rng.IntN(8))
			}
			if a := m.agent; a != nil && n%14 == 0 {
				a.save()
			}
		}
		if w.agg.down && w.rng.IntN(20) == 0 {
			w.agg.boot(w.agg.disk.engine)
		}
		if n%4 == 0 {
			w.agg.evaluate()
		}
		if saved != nil && w.rng.IntN(3) == 0 {
			saved()
			saved = nil
		}
		if saved == nil && n%14 == 7 {
			saved = w.agg.save()
		}
		if now > span+80*time.Second {
			break
		}
	}
	w.agg.evaluate()
	for _, m := range w.nodes {
		m.kill(true)
	}
	return w
}

func (m *machine) write(l line) {
	m.mu.Lock()
	defer m.mu.Unlock()
	hits := slices.Clone(l.hits)
	for i := range hits {
		hits[i].Time = time.Now()
	}
	m.log = append(m.log, hits)
}

func (w *world) fail(s step) {
	m := w.nodes[s.node]
	switch {
	case s.what == "kill aggregator":
		w.agg.mu.Lock()
		w.agg.down = true
		w.agg.mu.Unlock()
		if w.agg.disk.engine == nil { // it never saved anything: that is another test
			w.agg.mu.Lock()
			w.agg.down = false
			w.agg.mu.Unlock()
		}
	case m.agent != nil:
		m.kill(s.what == "stop agent")
	}
}

// transitions are what people would hear of, in order: by fingerprint, each
// change once.
func transitions(told []episodes.Episode) []string {
	var out []string
	last := map[string]string{}
	for _, x := range told {
		if x.State == episodes.StatePending || x.State == episodes.StateDropped {
			continue
		}
		s := fmt.Sprint(x.Fingerprint, x.State, x.Reason, x.StartsAt, x.EndsAt, x.Overflow)
		if x.State == episodes.StateResolved {
			s += fmt.Sprint(" ", x.Count)
		}
		if k := x.Fingerprint.String(); last[k] != s {
			last[k] = s
			out = append(out, s)
		}
	}
	return out
}

// standalone gives an engine without a network, with one source per node, what
// reached the aggregator, each line once, and returns what it told. It goes on
// over the restarts, but for the proofs of reading, which start anew.
func standalone(w *world) []episodes.Episode {
	e := newEngine(w.set)
	byID := map[uint64][]matcher.Hit{}
	for _, m := range w.nodes {
		for _, hits := range m.log {
			byID[hits[0].ID] = hits
		}
	}
	var told []episodes.Episode
	seen := map[uint64]bool{}
	for _, x := range w.agg.history {
		switch {
		case x.join:
			e.AddSource(x.part, rules.Lateness, nil)
		case x.anew:
			for _, m := range w.nodes {
				e.RemoveSource("agents/" + m.name)
			}
		case x.eval:
			told = append(told, e.Evaluate(x.now)...)
		case !x.to.IsZero():
			e.Advance(x.part, x.to)
		}
		for _, id := range x.ids {
			if !seen[id] {
				seen[id] = true
				e.Take(byID[id], x.now)
			}
		}
	}
	return told
}

// requireTrueProofs looks whether all lines of a node were taken up to where it
// was said to be read.
func requireTrueProofs(t require.TestingT, w *world) {
	taken := map[uint64]bool{}
	for _, x := range w.agg.history {
		for _, id := range x.ids {
			taken[id] = true
		}
		for _, m := range w.nodes {
			if x.to.IsZero() || x.part != "agents/"+m.name {
				continue
			}
			for _, hits := range m.log {
				require.True(t, taken[hits[0].ID] || hits[0].Time.After(x.to), "line %d of %s was not taken when %s was proved to be read up to %v", hits[0].ID, hits[0].Time, m.name, x.to)
			}
		}
	}
}

// However lines travel, and whatever restarts: each line reaches the engine, in
// the order of its node, and the episodes are those of an engine that reads the
// logs itself.
func TestTwoStagesConcludeWhatOneDoes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan(rt)
		var w *world
		synctest.Test(t, func(*testing.T) { w = p.play() })
		if w == nil {
			rt.Fatal("the plan did not end")
		}
		at := map[uint64]int{}
		for _, x := range w.agg.history {
			for _, id := range x.ids {
				if _, again := at[id]; !again {
					at[id] = len(at)
				}
			}
		}
		lines := map[uint64]bool{}
		for _, m := range w.nodes {
			last := -1
			for _, hits := range m.log {
				id := hits[0].ID
				lines[id] = true
				n, there := at[id]
				require.True(rt, there, "line %d of %s is lost", id, m.name)
				require.Greater(rt, n, last, "line %d of %s came too late", id, m.name)
				last = n
			}
		}
		require.Len(rt, at, len(lines))
		requireTrueProofs(rt, w)
		require.Empty(rt, w.agg.source.Status().Losses)
		require.Equal(rt, transitions(standalone(w)), transitions(w.agg.told))
		require.Equal(rt, slices.Sorted(maps.Keys(at)), slices.Sorted(maps.Keys(lines)))
	})
}
