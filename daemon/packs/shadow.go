package packs

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
	"crowsnest/daemon/inforce"
	"crowsnest/episodes"
	"crowsnest/hits"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources/agents"
	"crowsnest/web"
)

// maxShadowStreams bounds the streams that are remembered. Beyond that, all are
// forgotten, with their incomplete lines.
const maxShadowStreams = 65_536

// Shadow evaluates the rules of a new version that differ from those in force: on the same
// lines, with an engine of its own, and without notifications. It counts the alerts that
// only one of the two versions fires.
//
// On an agent it only matches, and its hits go to the aggregator, which compares. Safe for concurrent use.
type Shadow struct {
	artifact *config.Artifact
	next     *artifact.Artifact
	base     *inforce.Rules // in force; a reload starts the shadow again
	began    time.Time
	rules    *inforce.Rules
	digest   string          // hits.RulesDigest of rules
	judged   map[string]bool // names of the rules that differ
	guard    *inforce.Guard
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
func (as *Artifacts) newShadow(a *config.Artifact, next *artifact.Artifact, candidate *rules.Set) (*Shadow, error) {
	base, now := as.host.InForce(), as.opt.Now()
	judged := differing(base.Set, candidate)
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
	rs, err := inforce.New(set)
	if err != nil {
		return nil, fmt.Errorf("compile rules: %w", err)
	}
	cfg := as.opt.Engine
	cfg.UpdateEvery = time.Hour // nobody reads the texts
	s := &Shadow{
		artifact: a, next: next, base: base, began: now, rules: rs, digest: hits.RulesDigest(rs.Digests()), judged: judged, guard: inforce.NewGuard(as.host.Config().Limits.RuleCPU),
		buffers: sync.Pool{New: func() any { return new(matcher.Buffer) }}, streams: map[*matcher.Stream]*matcher.Stream{},
		newEngine: func() *episodes.Engine {
			e := episodes.New(cfg)
			e.Swap(set, as.opt.Now())
			return e
		},
		comparison: newComparison(cmp.Or(as.opt.Grace, shadowGrace)),
	}
	s.engine.Store(s.newEngine())
	if as.host.Remote() {
		s.forward = as.host.Forward
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
func (s *Shadow) state() *hits.ShadowState {
	return &hits.ShadowState{Digest: s.next.Digest, Rules: s.digest}
}

// Concludes reports whether this process concludes, instead of an aggregator.
func (s *Shadow) Concludes() bool { return s.forward == nil }

// Engine returns the engine of the new version. It is replaced by Begin.
func (s *Shadow) Engine() *episodes.Engine { return s.engine.Load() }

// Rules returns the rules of the new version that differ from those in force.
func (s *Shadow) Rules() *rules.Set { return s.rules.Set }

// Wanted is what agents have to match for the comparison.
func (s *Shadow) Wanted() agents.Shadow {
	return agents.Shadow{Digest: s.next.Digest, Rules: s.digest, Judged: s.judged}
}

// Begin begins the comparison, or begins it again after lines that only the version in
// force has seen. join adds the sources to an engine. inForce are the alerts of the version
// in force, and from is the time of the first lines that both versions see. The caller
// holds the checkpoint lock for writing.
func (s *Shadow) Begin(join func(*episodes.Engine), inForce []episodes.Episode, from, now time.Time) {
	engine := s.newEngine()
	join(engine)
	open := map[episodes.Fingerprint]bool{}
	for _, ep := range inForce {
		if s.judged[ep.Alert] && (ep.State == episodes.StateFiring || ep.State == episodes.StatePending) {
			open[ep.Fingerprint] = true
		}
	}
	s.engine.Store(engine)
	s.begin(open, from, now)
}

// CountInForce counts the alerts that the version in force fires.
func (s *Shadow) CountInForce(changes []episodes.Episode, now time.Time) {
	s.count(changes, s.judged, false, now)
}

// Match matches the new lines of a stream. own is the stream as program has read it so
// far.
type Match func(program *matcher.Program, buf *matcher.Buffer, own *matcher.Stream, now time.Time) []matcher.Hit

// Take matches what a stream is about to scan. The caller holds the checkpoint lock.
func (s *Shadow) Take(of *matcher.Stream, match Match, now time.Time) {
	s.reading.Lock()
	if len(s.streams) >= maxShadowStreams {
		clear(s.streams)
	}
	own := of.Beside(s.streams[of])
	s.streams[of] = own
	s.reading.Unlock()
	buf := s.buffers.Get().(*matcher.Buffer)
	defer s.buffers.Put(buf)
	s.Conclude(match(s.rules.Program, buf, own, now), now)
}

// Conclude accepts hits of the new version. The caller holds the checkpoint lock.
func (s *Shadow) Conclude(found []matcher.Hit, now time.Time) {
	switch {
	case len(found) == 0:
	case s.forward != nil:
		s.forward(found, now)
	default:
		s.Engine().Take(found, now)
	}
}

// Evaluate concludes, and counts what the new version fires.
func (s *Shadow) Evaluate(now time.Time) {
	s.count(s.Engine().Evaluate(now), s.judged, true, now)
}

// judge returns why the version is refused, "" if it is not, and whether its time is over.
func (s *Shadow) judge(now time.Time) (refused string, over bool) {
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
func (s *Shadow) tooCostly(now time.Time) string {
	program := s.rules.Program
	if cpu, ok := inforce.ProcessCPU(); ok && s.guard.Due(now) {
		for _, c := range s.guard.Judge(now, cpu, program.Costs()) {
			return fmt.Sprintf("rule %s takes %.2f of a CPU", c.Rule.Alert, c.Share)
		}
	}
	for _, r := range s.Engine().Quarantined() {
		return "rule " + r.Alert + " failed because of a bug in crowsnest"
	}
	for _, q := range program.Quarantined() {
		return "rule " + q.Rule.Alert + " failed because of a bug in crowsnest"
	}
	return ""
}

// view returns the shadow for the pages.
func (s *Shadow) view(now time.Time) web.Shadow {
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
