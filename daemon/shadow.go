package daemon

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"crowsnest/artifact"
	"crowsnest/daemon/config"
	"crowsnest/episodes"
	"crowsnest/hits"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
	"crowsnest/web"
)

// maxShadowStreams bounds the streams that are remembered. Beyond that, all are
// forgotten, with their incomplete lines.
const maxShadowStreams = 65_536

// shadow evaluates the rules of a new version that differ from those in force: on the same
// lines, with an engine of its own, and without notifications. It counts the alerts that
// only one of the two versions fires.
//
// On an agent it only matches, and its hits go to the aggregator, which compares.
type shadow struct {
	artifact *config.Artifact
	next     *artifact.Artifact
	base     *ruleset // in force; a reload starts the shadow again
	began    time.Time
	rules    *ruleset
	digest   string          // hits.RulesDigest of rules
	judged   map[string]bool // names of the rules that differ
	guard    *costGuard
	buffers  sync.Pool // of *matcher.Buffer
	// forward sends hits to the aggregator; nil: this process concludes.
	forward func(found []matcher.Hit, now time.Time)

	// engine is replaced whenever the comparison begins again.
	engine    atomic.Pointer[episodes.Engine]
	newEngine func() *episodes.Engine

	reading sync.Mutex // guards streams
	streams map[*matcher.Stream]*matcher.Stream

	*comparison
}

// newShadow returns a shadow of the candidate, nil if no rule fires differently with
// it.
func newShadow(a *config.Artifact, next *artifact.Artifact, candidate *rules.Set, d *Daemon) (*shadow, error) {
	base, now := d.pipe.rules.Load(), d.now()
	judged := differing(base.set, candidate)
	if len(judged) == 0 {
		return nil, nil
	}
	set := &rules.Set{Namespaces: candidate.Namespaces, Shadow: next.Digest}
	for _, r := range candidate.Rules {
		if judged[r.Alert] {
			own := *r
			own.Hash = hits.ShadowHash(next.Digest, r.Hash)
			set.Rules = append(set.Rules, &own)
		}
	}
	rs, err := newRuleset(set)
	if err != nil {
		return nil, fmt.Errorf("compile rules: %w", err)
	}
	cfg := d.engineCfg
	cfg.UpdateEvery = time.Hour // nobody reads the texts
	s := &shadow{
		artifact: a, next: next, base: base, began: now, rules: rs, digest: hits.RulesDigest(rs.digests()), judged: judged, guard: newCostGuard(d.cfg.Load().Limits.RuleCPU),
		buffers: sync.Pool{New: func() any { return new(matcher.Buffer) }}, streams: map[*matcher.Stream]*matcher.Stream{},
		newEngine: func() *episodes.Engine {
			e := episodes.New(cfg)
			e.Swap(set, d.now())
			return e
		},
		comparison: newComparison(cmp.Or(d.opt.grace, shadowGrace)),
	}
	s.engine.Store(s.newEngine())
	if d.pipe.concluder.peer().remote {
		s.forward = d.pipe.concluder.Take
	}
	return s, nil
}

// differing returns the names of the rules that only one set has, or that may fire other
// alerts in the two sets.
func differing(a, b *rules.Set) map[string]bool {
	identity := func(set *rules.Set) map[string]string {
		out := map[string]string{}
		for _, r := range set.Rules {
			if r.Mode == rules.ModeOff {
				continue
			}
			text := fmt.Sprint(r.Hash, r.Severity, r.Infrastructure)
			for _, l := range r.Labels {
				text += "\x00" + l.Name + "\x00" + l.Template.Source()
			}
			out[r.Alert] = text
		}
		return out
	}
	inA, inB := identity(a), identity(b)
	out := map[string]bool{}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(inA)), slices.Collect(maps.Keys(inB))) {
		if inA[name] != inB[name] {
			out[name] = true
		}
	}
	return out
}

// state is what an agent reports about its shadow.
func (s *shadow) state() *hits.ShadowState {
	return &hits.ShadowState{Digest: s.next.Digest, Rules: s.digest}
}

// take matches what a stream is about to scan. The caller holds the checkpoint lock.
func (s *shadow) take(of *matcher.Stream, match matchFunc, now time.Time) {
	s.reading.Lock()
	if len(s.streams) >= maxShadowStreams {
		clear(s.streams)
	}
	own := of.Beside(s.streams[of])
	s.streams[of] = own
	s.reading.Unlock()
	buf := s.buffers.Get().(*matcher.Buffer)
	defer s.buffers.Put(buf)
	s.conclude(match(s.rules.program, buf, own, now), now)
}

// conclude accepts hits of the new version. The caller holds the checkpoint lock.
func (s *shadow) conclude(found []matcher.Hit, now time.Time) {
	switch {
	case len(found) == 0:
	case s.forward != nil:
		s.forward(found, now)
	default:
		s.engine.Load().Take(found, now)
	}
}

// evaluate concludes, and counts what the new version fires.
func (s *shadow) evaluate(now time.Time) {
	s.count(s.engine.Load().Evaluate(now), s.judged, true, now)
}

// judge returns why the version is refused, "" if it is not, and whether its time is over.
func (s *shadow) judge(now time.Time) (refused string, over bool) {
	p, budget := s.progress(s.judged, now), s.artifact.Shadow.Budget
	switch {
	case p.refused != "":
		refused = p.refused
	case p.sum > budget:
		refused = p.beyond(budget)
	default:
		refused = s.tooCostly(now)
	}
	if refused != "" {
		s.refuse(refused, now)
		return refused, false
	}
	return "", p.running && p.ran >= s.artifact.ShadowFor() && p.sum+p.fresh <= budget && len(p.unknown) == 0
}

// tooCostly names a rule of the new version that would be quarantined; "" if there is none.
func (s *shadow) tooCostly(now time.Time) string {
	program := s.rules.program
	if cpu, ok := processCPU(); ok && s.guard.due(now) {
		for _, c := range s.guard.judge(now, cpu, program.Costs()) {
			return fmt.Sprintf("rule %s takes %.2f of a CPU", c.rule.Alert, c.share)
		}
	}
	for _, r := range s.engine.Load().Quarantined() {
		return "rule " + r.Alert + " failed because of a bug in crowsnest"
	}
	for _, q := range program.Quarantined() {
		return "rule " + q.Rule.Alert + " failed because of a bug in crowsnest"
	}
	return ""
}

// view returns the shadow for the pages.
func (s *shadow) view(now time.Time) web.Shadow {
	p := s.progress(s.judged, now)
	out := web.Shadow{
		Artifact: s.artifact.Ref().Repository(), Version: s.next.Version, Digest: s.next.Digest, Began: s.began, Compared: p.ran.Truncate(time.Second),
		For: s.artifact.ShadowFor(), Waiting: p.waits(), Nodes: p.waiting, Uncompared: p.uncompared,
		Differences: p.sum, Budget: s.artifact.Shadow.Budget, Refused: p.refused, Forwarded: s.forward != nil,
	}
	switch {
	case p.refused != "":
		out.Waiting, out.Nodes = "", nil
	case p.running && p.ran >= out.For && len(p.unknown) > 0:
		out.Waiting = "no alert of these rules could be compared yet: " + strings.Join(p.unknown, ", ")
	case p.running:
		out.Until = now.Add(max(0, out.For-p.ran))
	}
	for _, name := range slices.Sorted(maps.Keys(p.byRule)) {
		out.Rules = append(out.Rules, web.ShadowRule{Rule: name, OnlyNew: p.byRule[name].onlyNext, OnlyInForce: p.byRule[name].onlyNow})
	}
	return out
}

// shadowing starts a shadow, or ends it with nil.
func (p *pipeline) shadowing(s *shadow) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.shadow.Store(s)
}

// compare begins the comparison of a shadow, or begins it again after lines that only
// the version in force has seen. The clock of a node may be ahead of this one's: lines that
// are stamped before now plus ahead are not compared.
func (p *pipeline) compare(s *shadow, ahead time.Duration) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	engine, now := s.newEngine(), p.now()
	for _, src := range p.sources {
		names := []string{src.Name()}
		if multi, ok := src.(sources.MultiSource); ok {
			names = multi.Members()
		}
		for _, name := range names {
			engine.AddSource(name, lateness(src), src.Serves)
			if t, known := p.watermarks[name]; known {
				engine.AdvanceWatermark(name, t)
			}
		}
	}
	open := map[episodes.Fingerprint]bool{}
	for _, ep := range p.engine.Episodes(now) {
		if s.judged[ep.Alert] && (ep.State == episodes.StateFiring || ep.State == episodes.StatePending) {
			open[ep.Fingerprint] = true
		}
	}
	s.engine.Store(engine)
	s.begin(open, now.Add(ahead), now)
}
