package daemon

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/rules"
	"crowsnest/sinks/upstream"
	"crowsnest/sources"
	"crowsnest/sources/agents"
	"crowsnest/web"
)

// Finding lines and concluding from them can be two processes. An agent runs on
// each node: it has sinks.upstream, reads what is there, and sends its hits on.
// The aggregator has sources.agents: every agent is a source of its own there.
//
//	node n:  sources ─▶ pipeline ─ hits ─▶ sinks/upstream
//	                                            │ batches; what is not on the
//	                                            ▼ aggregator's disk is kept
//	aggregator:               sources/agents ─▶ pipeline ─▶ engine ─▶ sinks
//
// The positions of an agent are saved when the aggregator has saved what was found
// before them (staged.go).

// The alerts of agents and about them.
const (
	alertUpstreamAway = "CrowsnestUpstreamAway"
	alertAgentRefused = "CrowsnestAgentRefused"
	// alertAgentsRefused is about messages of which nobody knows whose they are.
	alertAgentsRefused = "CrowsnestAgentsRefused"
	// alertTwoAggregators is that of an agent; the aggregators fire it.
	alertTwoAggregators = "CrowsnestTwoAggregators"
)

const (
	// refusedShown is how long it is told that another agent was refused.
	refusedShown = time.Minute
	// mostBlind is how many parts of a source have an alert of their own.
	mostBlind = 20
)

// makeAgent makes the way to the aggregator, if there is one.
func (d *Daemon) makeAgent() error {
	if p := d.opt.Cfg.Sources.Agents; p != nil && !p.Config.Guarded() {
		d.log.Warn().Msg("sources.agents asks nobody who they are: whoever reaches its address can forge failures and hide others; set bearer_token_file or web_config_file, or close the network")
	}
	p := d.opt.Cfg.Sinks.Upstream
	if p == nil {
		return nil
	}
	cfg := p.Config
	if cfg.Node == "" && d.opt.Getenv != nil {
		cfg.Node = d.opt.Getenv("NODE_NAME")
	}
	if cfg.Node == "" {
		cfg.Node, _ = os.Hostname() // an empty one is refused
	}
	up, err := upstream.New(cfg, upstream.Options{Now: d.now})
	if err != nil {
		return fmt.Errorf("sink upstream: %w", err)
	}
	d.pipe.up = up
	d.self.labels = map[string]string{"node": cfg.Node}
	return nil
}

// inScope returns the set with the rules off that cannot be concluded here.
func inScope(set *rules.Set, scope rules.Scope) *rules.Set {
	if scope != rules.ScopeNode {
		return set
	}
	out := *set
	here := map[*rules.Rule]*rules.Rule{}
	for _, r := range set.Rules {
		if here[r] = r; r.Scope == rules.ScopeCluster && r.Mode != rules.ModeOff {
			off := *r
			off.Mode, off.Disabled = rules.ModeOff, "it needs the logs of several nodes, and rules.scope is node"
			here[r] = &off
		}
	}
	replaced := func(all []*rules.Rule) []*rules.Rule {
		all = slices.Clone(all)
		for i, r := range all {
			all[i] = here[r]
		}
		return all
	}
	out.Rules, out.Packs = replaced(set.Rules), slices.Clone(set.Packs)
	for i, p := range out.Packs {
		pack := *p
		pack.Rules = replaced(p.Rules)
		out.Packs[i] = &pack
	}
	return &out
}

// outOfScope returns the names of the rules that cannot be concluded here.
func outOfScope(set *rules.Set, scope rules.Scope) map[string]bool {
	out := map[string]bool{}
	for _, r := range set.Rules {
		if scope == rules.ScopeNode && r.Scope == rules.ScopeCluster {
			out[r.Alert] = true
		}
	}
	return out
}

// isPart tells whether a name is that of a part of a source.
func isPart(name string) bool { return strings.Contains(name, "/") }

// withParts adds the parts of sources as sources of their own. A source that has
// parts proves nothing itself: it need only be up.
func withParts(status []sources.Status, now time.Time) []sources.Status {
	out := slices.Clone(status)
	for i, s := range status {
		if s.Members == nil {
			continue
		}
		if len(s.Members) == 0 && s.Up {
			out[i].Up, out[i].Error = false, "no agent has reported"
			continue
		}
		out[i].Watermark = now
		for _, name := range slices.Sorted(maps.Keys(s.Members)) {
			p := s.Members[name]
			out = append(out, sources.Status{Name: name, Up: p.Up, Opened: true, Error: p.Error, Watermark: p.Watermark})
		}
	}
	return out
}

// blind returns an alert for each source that is away, and each part of one; if
// many parts are, one for the others. The caller holds mu.
func (a *selfAlerts) blind(now time.Time, status []sources.Status) []episodes.Episode {
	var out []episodes.Episode
	var more []string
	var oldest time.Time
	known, parts := map[string]bool{}, 0
	for _, s := range status {
		known[s.Name] = true
		since, ok := a.awaySince(now, s)
		switch {
		case !ok:
		case !isPart(s.Name):
			out = append(out, blindAlert(s, since))
		case parts < mostBlind:
			parts++
			out = append(out, blindAlert(s, since))
		default:
			if more = append(more, s.Name); len(more) == 1 || since.Before(oldest) {
				oldest = since
			}
		}
	}
	if len(more) > 0 {
		source, _, _ := strings.Cut(more[0], "/")
		out = append(out, blindAlert(sources.Status{
			Name: source, Error: fmt.Sprintf("%d parts more are away: %s", len(more), cutText(strings.Join(more, ", "), 1000)),
		}, oldest))
	}
	gone := func(name string) bool { return !known[name] }
	maps.DeleteFunc(a.away, func(name string, _ time.Time) bool { return gone(name) })
	maps.DeleteFunc(a.idle, func(name string, _ time.Time) bool { return gone(name) })
	maps.DeleteFunc(a.moved, func(name string, _ progress) bool { return gone(name) })
	return out
}

// labelled returns an alert of the program with further labels.
func labelled(e episodes.Episode, labels map[string]string) episodes.Episode {
	if len(labels) == 0 {
		return e
	}
	all := maps.Clone(e.Labels)
	maps.Copy(all, labels)
	out := selfAlert(e.Alert, all["severity"], all, e.StartsAt, e.Annotations)
	out.Count, out.LastSeen, out.Heartbeat = e.Count, e.LastSeen, e.Heartbeat
	return out
}

// stageAlerts are the alerts of an agent about its aggregator, and of an
// aggregator about its agents.
func (d *Daemon) stageAlerts(now time.Time, status []sources.Status) []episodes.Episode {
	var out []episodes.Episode
	for _, s := range status {
		for _, name := range slices.Sorted(maps.Keys(s.Members)) {
			p := s.Members[name]
			if p.Refused.IsZero() || now.Sub(p.Refused) >= refusedShown {
				continue
			}
			out = append(out, selfAlert(alertAgentRefused, "warning", map[string]string{"source": name}, now, map[string]string{
				"summary":     "Two agents claim to be " + name,
				"description": "The second one is refused for as long as the first one lives: the logs that it reads are not looked at.",
				"remediation": "Give each agent a name of its own (sinks.upstream.node; NODE_NAME from spec.nodeName), and run one per node.",
			}))
		}
	}
	out = append(out, reportedAlerts(now, status)...)
	if e, ok := differAlert(now, d.behind()); ok {
		out = append(out, e)
	}
	for _, src := range d.sources {
		if a, ok := src.(*agents.Source); ok {
			out = append(out, refusedAlerts(now, a.Name(), a.Stats())...)
		}
	}
	if up := d.pipe.up; up != nil {
		st := up.Stats()
		if e, ok := d.upstreamAway(now, st); ok {
			out = append(out, e)
		}
		if !st.Twofold.IsZero() {
			out = append(out, selfAlert(alertTwoAggregators, "critical", nil, st.Twofold, map[string]string{
				"summary":     "Two aggregators answer the agents",
				"description": cutText("Two processes that run at the same time answer at "+st.Endpoint+".", 1500),
				"remediation": adviceTwoAggregators,
			}))
		}
	}
	return out
}

// upstreamAway is the alert of an agent whose aggregator does not take its hits.
func (d *Daemon) upstreamAway(now time.Time, st upstream.Stats) (episodes.Episode, bool) {
	since := d.self.answered(st.LastAnswer)
	if !st.Refused && (st.LastError == "" || !d.self.longSince(now, since)) {
		return episodes.Episode{}, false
	}
	return selfAlert(alertUpstreamAway, "critical", nil, since, map[string]string{
		"summary": "The aggregator does not take the hits of this agent",
		"description": cutText(fmt.Sprintf("Since %s: %s. Up to %d bytes are kept, then reading stops; nothing is lost as long as the logs are on the node.",
			since.UTC().Format(time.RFC3339), st.LastError, upstream.DefaultMaxUnacked), 1500),
		"remediation": "Look at the aggregator, and at sinks.upstream of this agent.",
	}), true
}

// waitsForUpstream tells that reading stands still because the aggregator takes
// nothing: a restart would not help.
func (d *Daemon) waitsForUpstream() bool { return d.pipe.up != nil && d.pipe.up.Stats().Blocked }

// membersView converts the members of a source for the pages.
func membersView(s sources.Status) []web.Member {
	out := make([]web.Member, 0, len(s.Members))
	for _, name := range slices.Sorted(maps.Keys(s.Members)) {
		p := s.Members[name]
		out = append(out, web.Member{Name: name, Up: p.Up, Error: p.Error, Since: p.Since, Watermark: p.Watermark, Skew: p.Skew, Reports: p.Reports})
	}
	return out
}

// logParts logs parts of sources that come, go and are forgotten.
func (t *transitions) logParts(status []sources.Status) {
	now := map[string]bool{}
	log := t.d.component("source")
	for _, s := range status {
		for _, name := range slices.Sorted(maps.Keys(s.Members)) {
			p := s.Members[name]
			was, known := t.parts[name]
			now[name] = p.Up
			switch {
			case p.Up && !was:
				log.Info().Str("part", name).Dur("clock_skew", p.Skew).Msg("part is up")
			case !p.Up && (was || !known):
				log.Warn().Str("part", name).Err(asError(p.Error)).Msg("part is away: what it could disprove is not concluded")
			}
		}
	}
	for name := range t.parts {
		if _, still := now[name]; !still {
			log.Warn().Str("part", name).Msg("part is forgotten: nothing waits for it any more")
		}
	}
	t.parts = now
}
