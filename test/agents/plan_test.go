package agents

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// plan contains the lines with their times, and the faults.
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

// span is the time in which lines are written.
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

// anyRule draws a random rule with the names k and v.
func anyRule(t *rapid.T, name string) *rules.Rule {
	seconds := func(label string, lo, hi int) time.Duration {
		return time.Duration(rapid.IntRange(lo, hi).Draw(t, label)) * time.Second
	}
	r := &rules.Rule{
		Alert: name, Severity: rules.SeverityWarning, Mode: rules.ModeOn, Count: 1, Limit: rapid.IntRange(1, 3).Draw(t, "limit"),
		Steps: make([]rules.Step, 1), KeepFiringFor: rules.DefaultKeepFiringFor, Hash: "1", By: []string{"k"}, CapturedNames: []string{"k", "v"},
	}
	kind := rapid.IntRange(0, 4).Draw(t, "kind")
	switch kind {
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
		r.Clear, r.Expire = &rules.ClearOrUnless{Same: []string{"k"}}, seconds("expire", 11, 40)
	} else {
		r.KeepFiringFor = seconds("keep", 5, 30)
	}
	if rapid.Bool().Draw(t, "has unless") {
		r.Unless = &rules.ClearOrUnless{Same: []string{"k"}, Within: seconds("unless", 1, 10)}
	}
	if kind == 4 {
		r.Silent, r.Expire = seconds("silent", 1, 20), seconds("expire after silence", 5, 40)
		r.For, r.KeepFiringFor, r.Clear = 0, 0, nil
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

// play executes a plan in virtual time and returns the world at its end.
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
		if w.agg.disk.engine == nil { // it never saved anything, which another test covers
			w.agg.mu.Lock()
			w.agg.down = false
			w.agg.mu.Unlock()
		}
	case m.agent != nil:
		m.kill(s.what == "stop agent")
	}
}
