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

// pipeline matches lines, passes the hits to the concluder, and advances the positions of the sources. The method
// inletFor returns the sources.Pipeline for one source. pipeline is safe for concurrent use.
type pipeline struct {
	// lock is the checkpoint lock. It is held for reading while a block of lines is matched, its hits are accepted and
	// the position of its source advances. It is held for writing while a snapshot is copied or the rules change. So a
	// snapshot contains all effects of a block or none, and no line is matched against two sets of rules.
	lock      sync.RWMutex
	rules     atomic.Pointer[inforce.Rules]
	engine    *episodes.Engine
	concluder concluder
	now       func() time.Time
	sentinel  *sentinel.Sentinel // finds failures that no rule describes; nil if this detection is off
	changed   atomic.Bool        // whether the state changed since the last copy
	buffers   sync.Pool          // *matcher.Buffer values
	// known is the newest time that the engine has seen, guarded by lock. onSet is called after the clock was set; it
	// may be nil.
	known time.Time
	onSet func(d time.Duration, now time.Time)

	mu         sync.Mutex
	sources    map[string]sources.Source
	watermarks map[string]time.Time               // time up to which all lines are read; the key is a source or member
	lagging    map[string][]matcher.LaggingStream // streams read less far than the watermark; key as in watermarks
	set        time.Duration                      // sum of all changes of the clock since the start
	stamps     times.Stamps                       // corrects timestamps by the changes of the clock
	images     []sources.Images
}

func newPipeline(engine *episodes.Engine, receiver concluder, now func() time.Time) *pipeline {
	return &pipeline{
		engine: engine, concluder: receiver, now: now, known: now(), buffers: sync.Pool{New: func() any { return new(matcher.Buffer) }},
		sources: map[string]sources.Source{}, watermarks: map[string]time.Time{}, lagging: map[string][]matcher.LaggingStream{},
	}
}

// attachSentinel makes the pipeline pass unmatched errors to the sentinel. It must be called before the first line.
func (p *pipeline) attachSentinel(s *sentinel.Sentinel) {
	if s != nil {
		p.sentinel = s
		p.buffers.New = func() any { return matcher.NewBuffer(searchedLines) }
	}
}

// addSource registers a source before its first lines. If the source has members, only its members have watermarks.
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

// AddMember registers a member of a source, so that conclusions wait for the lines of the member.
func (p *pipeline) AddMember(name string) {
	source, _, _ := strings.Cut(name, "/")
	p.mu.Lock()
	src := p.sources[source]
	p.mu.Unlock()
	if src != nil {
		p.addToWatermark(name, src)
	}
}

// addToWatermark registers a source, or a member of src with this name, so that conclusions wait for its lines.
func (p *pipeline) addToWatermark(name string, src sources.Source) {
	p.concluder.AddSource(name, sourceLateness(src), selectorFilter(name, src))
}

// selectorFilter returns a function that reports whether the source, or its member of this name, serves a selector.
func selectorFilter(name string, src sources.Source) func(rules.Selector) bool {
	if members := src.Info().Members; members != nil {
		return members.MemberServes(name)
	}
	return src.Serves
}

// sourceLateness returns the time by which the watermark of a source stays behind the progress of the source, because
// lines may arrive late.
func sourceLateness(src sources.Source) time.Duration {
	return cmp.Or(src.Info().Lateness, rules.Lateness)
}

// RemoveMember unregisters a member of a source, so that conclusions no longer wait for the lines of the member.
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
	p.concluder.Wait() // before the lock is taken, so that saving and reloading can continue
	buf := p.buffers.Get().(*matcher.Buffer)
	defer p.buffers.Put(buf) // the concluder copies the parts of hits that it keeps, so the buffer can be reused
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

// nameImages adds the image of the container to hits whose stream lacks it, such as hits from agents. Rules that
// compare the image with affected versions need it.
func (p *pipeline) nameImages(hits []matcher.Hit) {
	for i := range hits {
		h := &hits[i]
		at := slices.Index(h.Rule.CapturedNames, "image")
		if at < 0 || at >= len(h.Values) || h.Values[at] != "" || len(h.Rule.Remediation.Affects) == 0 || slices.Contains(h.Rule.By, "image") {
			continue
		}
		if image := p.findImage(h.Labels["namespace"], h.Labels["pod"], h.Labels["container"]); image != "" {
			h.Values = slices.Clone(h.Values) // a copy, because hits of one line may share their values
			h.Values[at] = image
		}
	}
}

// AdvanceWatermark records that the source has read all lines up to t, except the lines of lagging streams. A time in
// the future was read before the clock was set back, and counts as now.
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

// readUpTo reports whether all named watermarks have reached t. t is a time of the clock before any change since the
// start.
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

// swapRules makes a set of rules active. No block of lines is being matched meanwhile.
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

// withCopyLock calls f with the checkpoint lock held for writing, so that f can copy a snapshot. f must not block.
func (p *pipeline) withCopyLock(f func()) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.changed.Store(false)
	f()
}

// evaluate passes new conclusions to send. A snapshot contains both the conclusions and the effects of send, or
// neither.
func (p *pipeline) evaluate(send func([]episodes.Episode)) {
	now := p.enter()
	defer p.lock.RUnlock()
	if changes := p.engine.Evaluate(now); len(changes) > 0 {
		p.changed.Store(true)
		send(changes)
	}
}
