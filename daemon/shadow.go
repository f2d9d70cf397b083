package daemon

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"crowsnest/artifact"
	"crowsnest/daemon/config"
	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
	"crowsnest/web"
)

const (
	// shadowGrace is how long a difference must last until it counts: the two engines do
	// not conclude at the same moment.
	shadowGrace = 30 * time.Second
	// maxShadowAlerts bounds the alerts that are compared.
	maxShadowAlerts = 10_000
	// maxShadowStreams bounds the streams that are remembered. Beyond that, all are
	// forgotten, with their incomplete lines.
	maxShadowStreams = 65_536
)

// shadow evaluates the rules of a new version that differ from those in force: on the same
// lines, with an engine of its own, and without notifications. It counts the alerts that
// only one of the two versions fires.
type shadow struct {
	artifact *config.Artifact
	next     *artifact.Artifact
	base     *ruleset // in force; a reload starts the shadow again
	began    time.Time
	rules    *ruleset
	engine   *episodes.Engine
	guard    *costGuard
	grace    time.Duration   // until a difference counts
	judged   map[string]bool // names of the rules that differ
	buffers  sync.Pool       // of *matcher.Buffer

	mu      sync.Mutex
	streams map[*matcher.Stream]*matcher.Stream
	alerts  map[episodes.Fingerprint]*compared
	// open are the alerts that were open when the shadow began, until they end: the new
	// version has not seen the lines that opened them.
	open    map[episodes.Fingerprint]bool
	refused string // why the version must not be promoted; "": it may be
}

// compared counts how often each version fired an alert.
type compared struct {
	rule           string
	now, next      int       // firings of the version in force and of the new one
	lastNow, lastN time.Time // start of the newest one
	since          time.Time // when the numbers became different
}

// newShadow returns a shadow of the candidate, nil if no rule fires differently with
// it.
func newShadow(a *config.Artifact, next *artifact.Artifact, candidate *rules.Set, d *Daemon) (*shadow, error) {
	base, now := d.pipe.rules.Load(), d.now()
	judged := differing(base.set, candidate)
	if len(judged) == 0 {
		return nil, nil
	}
	set := &rules.Set{Namespaces: candidate.Namespaces}
	for _, r := range candidate.Rules {
		if judged[r.Alert] {
			set.Rules = append(set.Rules, r)
		}
	}
	rs, err := newRuleset(set)
	if err != nil {
		return nil, fmt.Errorf("compile rules: %w", err)
	}
	cfg := d.engineCfg
	cfg.UpdateEvery = time.Hour // nobody reads the texts
	s := &shadow{
		guard: newCostGuard(d.cfg.Load().Limits.RuleCPU), grace: cmp.Or(d.opt.grace, shadowGrace), artifact: a, next: next, base: base, began: now, rules: rs, engine: episodes.New(cfg), judged: judged,
		buffers: sync.Pool{New: func() any { return new(matcher.Buffer) }},
		streams: map[*matcher.Stream]*matcher.Stream{}, alerts: map[episodes.Fingerprint]*compared{}, open: map[episodes.Fingerprint]bool{},
	}
	s.engine.Swap(set, now)
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

// take matches what a stream is about to scan. The caller holds the checkpoint lock.
func (s *shadow) take(of *matcher.Stream, match matchFunc, now time.Time) {
	s.mu.Lock()
	if len(s.streams) >= maxShadowStreams {
		clear(s.streams)
	}
	own := of.Beside(s.streams[of])
	s.streams[of] = own
	s.mu.Unlock()
	buf := s.buffers.Get().(*matcher.Buffer)
	defer s.buffers.Put(buf)
	if hits := match(s.rules.program, buf, own, now); len(hits) > 0 {
		s.engine.Take(hits, now)
	}
}

// evaluate concludes, and counts what the new version fires.
func (s *shadow) evaluate(now time.Time) {
	s.count(s.engine.Evaluate(now), true, now)
}

// count counts the alerts that a version fires.
func (s *shadow) count(changes []episodes.Episode, next bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ep := range changes {
		if !s.judged[ep.Alert] || ep.Rule == nil || ep.Silent {
			continue
		}
		if s.open[ep.Fingerprint] {
			if !next && ep.State == episodes.StateResolved {
				delete(s.open, ep.Fingerprint)
			}
			continue
		}
		if ep.State != episodes.StateFiring {
			continue
		}
		c := s.alerts[ep.Fingerprint]
		if c == nil {
			if len(s.alerts) >= maxShadowAlerts {
				s.refused = fmt.Sprintf("more than %d alerts would have to be compared", maxShadowAlerts)
				return
			}
			c = &compared{rule: ep.Alert}
			s.alerts[ep.Fingerprint] = c
		}
		c.fired(ep.StartsAt, next, now)
	}
}

// fired counts an alert unless it merely continues.
func (c *compared) fired(starts time.Time, next bool, now time.Time) {
	n, last := &c.now, &c.lastNow
	if next {
		n, last = &c.next, &c.lastN
	}
	if *n > 0 && last.Equal(starts) {
		return
	}
	was := c.now - c.next
	*n, *last = *n+1, starts
	if was == 0 || c.since.IsZero() {
		c.since = now
	}
}

// difference is how many alerts only one of the versions has fired.
type difference struct{ onlyNow, onlyNext int }

// differences returns the differences that have lasted: by rule, with an entry for
// every rule that differs, and their sum. fresh counts the differences that have not
// lasted long enough yet.
func (s *shadow) differences(now time.Time) (byRule map[string]difference, sum, fresh int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	byRule = map[string]difference{}
	for name := range s.judged {
		byRule[name] = difference{}
	}
	for _, c := range s.alerts {
		if now.Sub(c.since) < s.grace {
			fresh += max(c.now-c.next, c.next-c.now)
			continue
		}
		d := byRule[c.rule]
		d.onlyNow += max(0, c.now-c.next)
		d.onlyNext += max(0, c.next-c.now)
		byRule[c.rule] = d
		sum += max(c.now-c.next, c.next-c.now)
	}
	return byRule, sum, fresh
}

// judge returns why the version is refused, "" if it is not, and whether its time is over.
func (s *shadow) judge(now time.Time) (refused string, over bool) {
	byRule, sum, fresh := s.differences(now)
	budget := s.artifact.Shadow.Budget
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused == "" && sum > budget {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(byRule)) {
			if d := byRule[name]; d != (difference{}) {
				parts = append(parts, fmt.Sprintf("%s (%d only in the new version, %d only in the one in force)", name, d.onlyNext, d.onlyNow))
			}
		}
		s.refused = fmt.Sprintf("%d alerts differ, more than the budget of %d: %s", sum, budget, strings.Join(parts, ", "))
	}
	if s.refused == "" {
		s.refused = s.tooCostly(now)
	}
	return s.refused, now.Sub(s.began) >= s.artifact.ShadowFor() && sum+fresh <= budget
}

// tooCostly names a rule of the new version that would be quarantined; "" if there is none.
func (s *shadow) tooCostly(now time.Time) string {
	program := s.rules.program
	if cpu, ok := processCPU(); ok && s.guard.due(now) {
		for _, c := range s.guard.judge(now, cpu, program.Costs()) {
			return fmt.Sprintf("rule %s takes %.2f of a CPU", c.rule.Alert, c.share)
		}
	}
	for _, r := range s.engine.Quarantined() {
		return "rule " + r.Alert + " failed because of a bug in crowsnest"
	}
	for _, q := range program.Quarantined() {
		return "rule " + q.Rule.Alert + " failed because of a bug in crowsnest"
	}
	return ""
}

// shadowing starts a shadow, or ends it with nil.
func (p *pipeline) shadowing(s *shadow) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if s == nil {
		p.shadow.Store(nil)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, src := range p.sources {
		names := []string{src.Name()}
		if multi, ok := src.(sources.MultiSource); ok {
			names = multi.Members()
		}
		for _, name := range names {
			s.engine.AddSource(name, lateness(src), src.Serves)
			if t, known := p.watermarks[name]; known {
				s.engine.AdvanceWatermark(name, t)
			}
		}
	}
	for _, ep := range p.engine.Episodes(s.began) {
		if s.judged[ep.Alert] && (ep.State == episodes.StateFiring || ep.State == episodes.StatePending) {
			s.open[ep.Fingerprint] = true
		}
	}
	p.shadow.Store(s)
}

// view returns the shadow for the pages.
func (s *shadow) view(now time.Time) web.Shadow {
	byRule, sum, _ := s.differences(now)
	out := web.Shadow{
		Artifact: s.artifact.Ref().Repository(), Version: s.next.Version, Digest: s.next.Digest, Began: s.began,
		Until: s.began.Add(s.artifact.ShadowFor()), Differences: sum, Budget: s.artifact.Shadow.Budget,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out.Refused = s.refused
	for _, name := range slices.Sorted(maps.Keys(byRule)) {
		out.Rules = append(out.Rules, web.ShadowRule{Rule: name, OnlyNew: byRule[name].onlyNext, OnlyInForce: byRule[name].onlyNow})
	}
	return out
}
