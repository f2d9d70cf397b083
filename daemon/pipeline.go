package daemon

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"crowsnest/daemon/inforce"
	"crowsnest/episodes"
	"crowsnest/internal/times"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
	"crowsnest/unknown/sentinel"
)

// pipeline matches lines, passes the hits to the concluder, and moves the positions of the
// sources. inlet makes it a sources.Pipeline. It is safe for concurrent use.
type pipeline struct {
	// lock is the checkpoint lock. It is held for reading while a block is matched, its hits
	// are accepted and its position moves. It is held for writing while a snapshot is copied or
	// the rules change. So a snapshot contains a block completely or not at all, and no line is
	// matched against two sets of rules.
	lock      sync.RWMutex
	rules     atomic.Pointer[inforce.Rules]
	engine    *episodes.Engine
	concluder concluder
	now       func() time.Time
	sentinel  *sentinel.Sentinel // nil if it is off
	changed   atomic.Bool        // whether the state changed since the last copy
	buffers   sync.Pool          // *matcher.Buffer values
	// known is the newest time of the engine, guarded by lock. onSet is called after a set clock; it may be nil.
	known time.Time
	onSet func(d time.Duration, now time.Time)

	mu         sync.Mutex
	sources    map[string]sources.Source
	watermarks map[string]time.Time               // watermarks of sources and members, by name
	lagging    map[string][]matcher.LaggingStream // lagging streams of sources and members, by name
	set        time.Duration                      // total change of the clock since the start
	stamps     times.Stamps                       // timestamps of this clock
	images     []sources.Images
}

func newPipeline(engine *episodes.Engine, receiver concluder, now func() time.Time) *pipeline {
	return &pipeline{
		engine: engine, concluder: receiver, now: now, known: now(), buffers: sync.Pool{New: func() any { return new(matcher.Buffer) }},
		sources: map[string]sources.Source{}, watermarks: map[string]time.Time{}, lagging: map[string][]matcher.LaggingStream{},
	}
}

// attachSentinel passes complaints to the sentinel. It must be called before the first line.
func (p *pipeline) attachSentinel(s *sentinel.Sentinel) {
	if s != nil {
		p.sentinel = s
		p.buffers.New = func() any { return matcher.NewBuffer(searchedLines) }
	}
}

// addSource registers a source before its first lines. Only its members have watermarks, if it has any.
func (p *pipeline) addSource(src sources.Source) {
	p.mu.Lock()
	p.sources[src.Name()] = src
	if images := src.Info().Images; images != nil {
		p.images = append(p.images, images)
	}
	p.mu.Unlock()
	if src.Info().Members == nil {
		p.addToWatermark(src.Name(), src)
	}
}

// AddMember makes the watermark wait for a member of a source.
func (p *pipeline) AddMember(name string) {
	source, _, _ := strings.Cut(name, "/")
	p.mu.Lock()
	src := p.sources[source]
	p.mu.Unlock()
	if src != nil {
		p.addToWatermark(name, src)
	}
}

// addToWatermark makes the watermark wait for a source or for a member of it.
func (p *pipeline) addToWatermark(name string, src sources.Source) {
	p.concluder.AddSource(name, sourceLateness(src), selectorFilter(name, src))
}

// selectorFilter returns the selectors that a source, or its member of this name, serves.
func selectorFilter(name string, src sources.Source) func(rules.Selector) bool {
	if members := src.Info().Members; members != nil {
		return members.MemberServes(name)
	}
	return src.Serves
}

// sourceLateness returns how far the watermark of a source stays behind its progress.
func sourceLateness(src sources.Source) time.Duration {
	return cmp.Or(src.Info().Lateness, rules.Lateness)
}

// RemoveMember makes the watermark no longer wait for a member of a source.
func (p *pipeline) RemoveMember(name string) {
	p.concluder.RemoveSource(name)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.watermarks, name)
	delete(p.lagging, name)
}

// PodDeleted reports that a pod was deleted at t.
func (p *pipeline) PodDeleted(pod matcher.Labels, t time.Time) {
	p.enter()
	defer p.lock.RUnlock()
	p.engine.PodDeleted(pod, t)
	p.changed.Store(true)
}

// Rules returns the active rules.
func (p *pipeline) Rules() *rules.Set { return p.rules.Load().Set }

// Ingest accepts hits that another process found.
func (p *pipeline) Ingest(find func(*rules.Set) []matcher.Hit, commit func()) {
	p.concluder.Wait()
	now := p.enter()
	defer p.lock.RUnlock()
	rs := p.rules.Load()
	hits := find(rs.Set)
	p.nameImages(hits)
	p.concluder.Take(hits, now)
	for i := range hits {
		rs.SawRule(hits[i].Rule, now)
	}
	if commit != nil {
		commit()
	}
	p.changed.Store(true)
}

// matchBlock accepts the hits that match finds in the new lines of a stream.
func (in *sourcePipeline) matchBlock(
	s *matcher.Stream, commit func(), match func(*matcher.Program, *matcher.Buffer, time.Time) []matcher.Hit,
) {
	p := in.pipeline
	p.concluder.Wait() // without the lock, so that saving and reloading can continue
	buf := p.buffers.Get().(*matcher.Buffer)
	defer p.buffers.Put(buf) // safe, because the concluder copies the parts of hits that it keeps
	now := p.enter()
	defer p.lock.RUnlock()
	rs := p.rules.Load()
	if hits := in.adjustTimes(s, match(rs.Program, buf, now), now); len(hits) > 0 {
		p.nameImages(hits)
		p.concluder.Take(hits, now)
	}
	if p.sentinel != nil {
		p.sentinel.Take(s, buf.Complaints(), now)
	}
	if commit != nil {
		commit()
		rs.NoteLine(s, now)
	}
	p.changed.Store(true)
}

// nameImages adds the image to hits whose stream does not state it, such as those of agents.
// Rules that compare it with affected versions need it.
func (p *pipeline) nameImages(hits []matcher.Hit) {
	for i := range hits {
		h := &hits[i]
		at := slices.Index(h.Rule.CapturedNames, "image")
		if at < 0 || at >= len(h.Values) || h.Values[at] != "" || len(h.Rule.Remediation.Affects) == 0 || slices.Contains(h.Rule.By, "image") {
			continue
		}
		if image := p.findImage(h.Labels["namespace"], h.Labels["pod"], h.Labels["container"]); image != "" {
			h.Values = slices.Clone(h.Values) // hits of one line may share them
			h.Values[at] = image
		}
	}
}

// AdvanceWatermark reports that the source has read all lines up to t, except those of lagging
// streams. A time in the future was taken before the clock was set back, and counts as now.
func (p *pipeline) AdvanceWatermark(source string, t time.Time, lagging ...matcher.LaggingStream) {
	now := p.enter()
	defer p.lock.RUnlock()
	if t.Round(0).After(now) {
		t = now
	}
	p.concluder.AdvanceWatermark(source, t, lagging...)
	p.mu.Lock()
	defer p.mu.Unlock()
	if t = t.Round(0); !t.Before(p.watermarks[source]) {
		p.watermarks[source], p.lagging[source] = t, lagging
	}
}

// readUpTo reports whether all named watermarks have reached t, which is by the clock at the start.
func (p *pipeline) readUpTo(names []string, t time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range names {
		if p.watermarks[name].Before(t.Add(p.set)) {
			return false
		}
	}
	return true
}

// swapRules makes a set of rules active, between two blocks.
func (p *pipeline) swapRules(rs *inforce.Rules) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if old := p.rules.Load(); old != nil {
		rs.Program.CopyCounters(old.Program)
	}
	p.rules.Store(rs)
	p.engine.Swap(rs.Set, p.now())
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, src := range p.sources {
		if use := src.Info().UseRules; use != nil {
			use(rs.Set)
		}
	}
	p.changed.Store(true)
}

// withCopyLock calls f with the checkpoint lock, to copy a snapshot. f must not block.
func (p *pipeline) withCopyLock(f func()) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.changed.Store(false)
	f()
}

// evaluate sends new conclusions. A snapshot contains both them and what send did, or neither.
func (p *pipeline) evaluate(send func([]episodes.Episode)) {
	now := p.enter()
	defer p.lock.RUnlock()
	if changes := p.engine.Evaluate(now); len(changes) > 0 {
		p.changed.Store(true)
		send(changes)
	}
}
