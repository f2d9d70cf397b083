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

// Agent mode splits the daemon into two processes. An agent runs on each node, with
// sinks.upstream: it reads the logs there and sends hits to the aggregator. The
// aggregator has sources.agents, in which each agent is a member.
//
//	node n:  sources ─▶ pipeline ─ hits ─▶ sinks/upstream
//	                                            │ batches, kept until they are on
//	                                            ▼ the disk of the aggregator
//	aggregator:               sources/agents ─▶ pipeline ─▶ engine ─▶ sinks
//
// An agent saves a position once the aggregator has saved all hits before it
// (staged.go).

// Alerts of agents and about agents.
const (
	alertUpstreamAway = "CrowsnestUpstreamAway"
	alertAgentRefused = "CrowsnestAgentRefused"
	// alertAgentsRefused is about messages from unknown senders.
	alertAgentsRefused = "CrowsnestAgentsRefused"
	// alertTwoAggregators is detected by an agent and fired by the aggregators.
	alertTwoAggregators = "CrowsnestTwoAggregators"
)

const (
	// refusedShown is how long the alert about a second agent of a node stays open.
	refusedShown = time.Minute
	// maxBlind bounds the members of a source that have an alert of their own.
	maxBlind = 20
)

// makeAgent sets up agent mode if sinks.upstream is configured.
func (d *Daemon) makeAgent() error {
	if p := d.opt.Cfg.Sources.Agents; p != nil && !p.Config.Guarded() {
		d.log.Warn().Msg("sources.agents has no authentication: anyone who can connect to its address can forge and hide failures; set bearer_token_file or web_config_file, or restrict the network")
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

// inScope returns the set with the rules off that need the logs of several nodes.
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

// outOfScope returns the names of the rules that inScope turns off.
func outOfScope(set *rules.Set, scope rules.Scope) map[string]bool {
	out := map[string]bool{}
	for _, r := range set.Rules {
		if scope == rules.ScopeNode && r.Scope == rules.ScopeCluster {
			out[r.Alert] = true
		}
	}
	return out
}

// isPart reports whether a name is that of a member of a source.
func isPart(name string) bool { return strings.Contains(name, "/") }

// withParts adds the members of sources as sources of their own. A source with
// members has no watermark itself: it only has to be up.
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

// blind returns an alert for each source that is down and for each member that is
// down, and one alert for all members beyond maxBlind. The caller holds mu.
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
		case parts < maxBlind:
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
			Name: source, Error: fmt.Sprintf("%d more members are down: %s", len(more), truncate(strings.Join(more, ", "), 1000)),
		}, oldest))
	}
	maps.DeleteFunc(a.away, func(name string, _ time.Time) bool { return !known[name] })
	maps.DeleteFunc(a.idle, func(name string, _ time.Time) bool { return !known[name] })
	maps.DeleteFunc(a.moved, func(name string, _ progress) bool { return !known[name] })
	return out
}

// labelled returns an alert of the daemon with additional labels.
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

// stageAlerts returns the alerts of an agent about its aggregator, and of an
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
				"description": "The second one is refused as long as the first one is connected: the logs that it reads are not watched.",
				"remediation": "Give each agent a unique name (sinks.upstream.node, or NODE_NAME from spec.nodeName), and run one agent per node.",
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
				"description": truncate("Two processes answer at "+st.Endpoint+" at the same time.", 1500),
				"remediation": adviceTwoAggregators,
			}))
		}
	}
	return out
}

// upstreamAway returns the alert of an agent whose aggregator does not accept hits.
func (d *Daemon) upstreamAway(now time.Time, st upstream.Stats) (episodes.Episode, bool) {
	since := d.self.answered(st.LastAnswer)
	if !st.Refused && (st.LastError == "" || !d.self.longSince(now, since)) {
		return episodes.Episode{}, false
	}
	return selfAlert(alertUpstreamAway, "critical", nil, since, map[string]string{
		"summary": "The aggregator does not accept the hits of this agent",
		"description": truncate(fmt.Sprintf("Since %s: %s. The agent keeps up to %d bytes, then stops reading; no line is lost while the logs are on the node.",
			since.UTC().Format(time.RFC3339), st.LastError, upstream.DefaultMaxUnacked), 1500),
		"remediation": "Check the aggregator, and sinks.upstream of this agent.",
	}), true
}

// waitsForUpstream reports whether reading has stopped because the aggregator
// accepts no hits. A restart would not help.
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

// logParts logs members of sources that come up, go down and are forgotten.
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
				log.Info().Str("member", name).Dur("clock_skew", p.Skew).Msg("member is up")
			case !p.Up && (was || !known):
				log.Warn().Str("member", name).Err(asError(p.Error)).Msg("member is down: absence-based rules are on hold")
			}
		}
	}
	for name := range t.parts {
		if _, still := now[name]; !still {
			log.Warn().Str("member", name).Msg("member is forgotten: no rule waits for it")
		}
	}
	t.parts = now
}
