package daemon

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sinks/upstream"
	"crowsnest/sources"
)

// pipeline is where lines go: it matches, concludes, and moves the positions of
// the sources, all three within the same consistent cut. It implements
// sources.Pipeline and is safe for concurrent use.
type pipeline struct {
	// cut is held for reading while a block, its hits and its position are
	// taken, and for writing while all of that is copied or the rules change:
	// so a copy holds a block wholly or not at all, and no line sees two sets
	// of rules.
	cut     sync.RWMutex
	rules   atomic.Pointer[ruleset]
	engine  *episodes.Engine
	up      *upstream.Sink // where hits go instead; nil: they are concluded from here
	now     func() time.Time
	changed atomic.Bool // since the last copy
	// known is a time of the clock as the engine knows it, guarded by cut; onSet
	// is called when the clock was set, if it is not nil.
	known   time.Time
	buffers sync.Pool // of *matcher.Buffer
	onSet   func(d time.Duration, now time.Time)

	mu      sync.Mutex
	sources map[string]sources.Source
	proved  map[string]time.Time // per source or part, the newest proof
	set     time.Duration        // how far the clock was set since the start
	foreign bool                 // a source has lines that other clocks stamped
}

func newPipeline(engine *episodes.Engine, now func() time.Time) *pipeline {
	return &pipeline{
		engine: engine, now: now, known: now(), buffers: sync.Pool{New: func() any { return new(matcher.Buffer) }},
		sources: map[string]sources.Source{}, proved: map[string]time.Time{},
	}
}

// add registers a source before its first lines. One that consists of parts is
// none itself for whatever waits for a proof of reading.
func (p *pipeline) add(src sources.Source) {
	p.mu.Lock()
	p.sources[src.Name()] = src
	if _, here := src.(sources.Local); !here {
		p.foreign = true
	}
	p.mu.Unlock()
	if _, parted := src.(sources.MultiSource); !parted {
		p.join(src.Name(), src)
	}
}

// lateness is how far the watermark of a source stays behind its proof.
func lateness(src sources.Source) time.Duration {
	if late, ok := src.(sources.Late); ok {
		return late.Lateness()
	}
	return rules.Lateness
}

// AddMember makes a part of a source one of its own.
func (p *pipeline) AddMember(part string) {
	name, _, _ := strings.Cut(part, "/")
	p.mu.Lock()
	src := p.sources[name]
	p.mu.Unlock()
	if src != nil {
		p.join(part, src)
	}
}

// join lets whatever waits for a proof of reading wait for that of a source, or
// of a part of it.
func (p *pipeline) join(name string, src sources.Source) {
	p.engine.AddSource(name, lateness(src), src.Serves)
	if p.up != nil {
		p.up.AddSource(name, lateness(src))
	}
}

// RemoveMember forgets a part.
func (p *pipeline) RemoveMember(part string) {
	p.engine.RemoveSource(part)
	if p.up != nil {
		p.up.RemoveSource(part)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.proved, part)
}

// PodDeleted says that a pod was deleted.
func (p *pipeline) PodDeleted(pod matcher.Labels, t time.Time) {
	p.enter()
	defer p.cut.RUnlock()
	p.engine.PodDeleted(pod, t)
	p.changed.Store(true)
}

// Rules returns the rules in force.
func (p *pipeline) Rules() *rules.Set { return p.rules.Load().set }

// Ingest takes hits that were found elsewhere.
func (p *pipeline) Ingest(find func(*rules.Set) []matcher.Hit, commit func()) {
	p.room()
	now := p.enter()
	defer p.cut.RUnlock()
	rs := p.rules.Load()
	hits := find(rs.set)
	p.hand(hits, now)
	for i := range hits {
		rs.sawRule(hits[i].Rule, now)
	}
	if commit != nil {
		commit()
	}
	p.changed.Store(true)
}

// Scan matches a block of whole lines and takes the hits.
func (p *pipeline) Scan(s *matcher.Stream, block []byte, commit func()) {
	p.take(s, commit, func(rs *ruleset, buf *matcher.Buffer, now time.Time) []matcher.Hit {
		return rs.program.ScanInto(buf, s, block, now)
	})
}

// Match does the same for one record.
func (p *pipeline) Match(s *matcher.Stream, rec matcher.Record, commit func()) {
	p.take(s, commit, func(rs *ruleset, buf *matcher.Buffer, _ time.Time) []matcher.Hit {
		return rs.program.MatchInto(buf, s, rec)
	})
}

// Flush ends what the stream has unfinished.
func (p *pipeline) Flush(s *matcher.Stream) {
	p.take(s, nil, func(rs *ruleset, _ *matcher.Buffer, now time.Time) []matcher.Hit { return rs.program.Flush(s, now) })
}

func (p *pipeline) take(s *matcher.Stream, commit func(), match func(*ruleset, *matcher.Buffer, time.Time) []matcher.Hit) {
	p.room()
	buf := p.buffers.Get().(*matcher.Buffer)
	defer p.buffers.Put(buf) // the engine copies what it keeps of hits
	now := p.enter()
	defer p.cut.RUnlock()
	rs := p.rules.Load()
	if hits := match(rs, buf, now); len(hits) > 0 {
		p.hand(hits, now)
	}
	if commit != nil {
		commit()
		rs.saw(s, now)
	}
	p.changed.Store(true)
}

// hand hands hits to the engine, or to the aggregator. The caller holds the cut.
func (p *pipeline) hand(hits []matcher.Hit, now time.Time) {
	if p.up != nil {
		p.up.Take(hits)
		return
	}
	p.engine.Take(hits, now)
}

// room waits until an aggregator can be given more. It holds nothing meanwhile:
// saving and reloading go on.
func (p *pipeline) room() {
	if p.up != nil {
		p.up.Wait()
	}
}

// AdvanceWatermark proves that the source has read everything up to t. What is still to
// come by the clock is not proved: t was taken before the clock was set back.
func (p *pipeline) AdvanceWatermark(source string, t time.Time) {
	now := p.enter()
	defer p.cut.RUnlock()
	if t.Round(0).After(now) {
		t = now
	}
	p.engine.AdvanceWatermark(source, t)
	if p.up != nil {
		p.up.AdvanceWatermark(source, t)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if t = t.Round(0); t.After(p.proved[source]) {
		p.proved[source] = t
	}
}

// provedSince reports whether each of the sources has proved to be read up to t,
// by the clock as it was at the start.
func (p *pipeline) provedSince(names []string, t time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range names {
		if p.proved[name].Before(t.Add(p.set)) {
			return false
		}
	}
	return true
}

// swap puts a set of rules in force, between two blocks.
func (p *pipeline) swap(rs *ruleset) {
	p.cut.Lock()
	defer p.cut.Unlock()
	if old := p.rules.Load(); old != nil {
		rs.program.Inherit(old.program)
	}
	p.rules.Store(rs)
	p.engine.Swap(rs.set, p.now())
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, src := range p.sources {
		if user, ok := src.(sources.RuleUser); ok {
			user.UseRules(rs.set)
		}
	}
	p.changed.Store(true)
}

// copied runs f while nothing is taken. f must not block.
func (p *pipeline) copied(f func()) {
	p.cut.Lock()
	defer p.cut.Unlock()
	p.changed.Store(false)
	f()
}

// evaluate draws conclusions and hands them on, as one step for a copy.
func (p *pipeline) evaluate(send func([]episodes.Episode)) {
	now := p.enter()
	defer p.cut.RUnlock()
	if changes := p.engine.Evaluate(now); len(changes) > 0 {
		p.changed.Store(true)
		send(changes)
	}
}
