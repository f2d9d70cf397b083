package daemon

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"

	"crowsnest/daemon/configmaps"
	"crowsnest/episodes"
	"crowsnest/internal/metric"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sinks"
	"crowsnest/sources"
	"crowsnest/web"
)

// minAgentCost is the minimum total cost of a rule for which an agent exposes series. It keeps the number of series
// small, because there may be hundreds of agents.
const minAgentCost = 100 * time.Millisecond

type metered interface{ Metrics() metric.Collector }

// registerMetrics registers all metrics. Except for sparse metrics, the series of a source, an endpoint or a rule exist
// as soon as the source, endpoint or rule is loaded. An agent omits metrics that only its aggregator can compute.
func (d *Daemon) registerMetrics(reg *prometheus.Registry) error {
	agent := d.pipe.concluder.aggregatorState().remote
	all := []prometheus.Collector{
		versioncollector.NewCollector("crowsnest"),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		d.ownMetrics(agent),
		ruleMetrics(func() loadedRules { return loadedRules{d.rulesView(), d.stats().Rules, agent} }),
		sources.Metrics(d.sourceStatus, agent),
		sinks.Metrics(d.endpointStatus, agent), sinks.DiscoveryMetrics(d.discoveryStatus),
	}
	if d.pair != nil {
		all = append(all, d.pair.metrics())
	}
	if d.configMaps != nil {
		all = append(all, metric.New(d.configMaps.Stats,
			metric.Gauge("config_maps_up", "Whether the ConfigMaps with rules can be read. If not, the rules that were read before stay active.", func(s configmaps.Stats) bool { return s.Up }),
			metric.Gauge("config_maps", "ConfigMaps with rules. crowsnest_pack_broken shows the refused packs.", func(s configmaps.Stats) int { return s.ConfigMaps }),
			metric.CounterBy("config_map_events_total", "Events that were written on ConfigMaps, because rules were refused or accepted.", "reason", func(s configmaps.Stats) map[string]int64 { return s.Events }),
		))
	}
	costs := func() []matcher.Cost { return d.pipe.rules.Load().Program.Costs() }
	if agent {
		all = append(all, matcher.Metrics(costs, minAgentCost))
	} else {
		all = append(all, episodes.Metrics(d.stats), web.Metrics(d.view(), d.now), matcher.Metrics(costs, 0))
	}
	if d.endedHistory != nil {
		all = append(all, d.endedHistory.Metrics())
	}
	if d.sentinel != nil {
		all = append(all, d.sentinel.Metrics(!agent))
	}
	for _, s := range d.sources {
		if m, ok := s.(metered); ok {
			all = append(all, m.Metrics())
		}
	}
	for _, s := range d.receivers {
		if m, ok := s.(metered); ok {
			all = append(all, m.Metrics())
		}
	}
	for _, c := range all {
		if err := reg.Register(c); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}

func (d *Daemon) stats() episodes.Stats { return d.engine.Stats(d.now()) }

func (d *Daemon) endpointStatus() []sinks.EndpointStatus {
	var out []sinks.EndpointStatus
	if d.pair.standsBy() {
		return nil
	}
	for _, s := range d.receivers {
		out = append(out, s.Status()...)
	}
	return out
}

func (d *Daemon) discoveryStatus() []sinks.DiscoveryStatus {
	var out []sinks.DiscoveryStatus
	if d.pair.standsBy() {
		return nil
	}
	for _, am := range d.alertmanagers() {
		out = append(out, am.Discoveries()...)
	}
	return out
}

// ownMetrics returns the metrics of reloads, the saved state, outages, kinds of sources, and alerts about crowsnest
// itself. If sparse is set, only open alerts have a series.
func (d *Daemon) ownMetrics(sparse bool) metric.Collector {
	away := func(d *Daemon) map[string]time.Time {
		since, out := d.self.Outages(), map[string]time.Time{}
		for _, s := range d.sources {
			out[s.Name()] = since[s.Name()]
		}
		return out
	}
	return metric.New(func() *Daemon { return d },
		metric.Gauge("config_last_reload_successful", "Whether the last load of rules and configuration succeeded.",
			func(d *Daemon) bool { return d.outcome.Load().status.OK }),
		metric.Gauge("config_last_reload_success_timestamp_seconds", "When rules and configuration were last loaded successfully.",
			func(d *Daemon) time.Time { return d.outcome.Load().status.Success }),
		metric.Gauge("state_last_save_timestamp_seconds", "When the state was last saved; 0: never.",
			func(d *Daemon) time.Time { saved, _ := d.saver.status(); return saved }),
		metric.Counter("state_save_errors_total", "Failed attempts to save the state.",
			func(d *Daemon) int64 { _, errs := d.saver.status(); return errs }),
		metric.GaugeBy("source_not_seen_since_timestamp_seconds", "Start of the current outage of the source, kept across restarts; 0: no outage.", "source", away),
		metric.ForEach((*Daemon).sourceKinds, []string{"source", "kind"}, func(s sourceKind) []string { return []string{s.source, s.kind} },
			metric.Gauge("source_info", "A configured source and its kind.", func(sourceKind) bool { return true })),
		metric.GaugeBy("self_alerts", "Open alerts about crowsnest itself. CrowsnestHeartbeat is open as long as logs are read.", "alert",
			func(d *Daemon) map[string]int64 { return metric.NonZero(d.self.Counts(), sparse || d.pair.standsBy()) }),
	)
}

type sourceKind struct{ source, kind string }

func (d *Daemon) sourceKinds() []sourceKind {
	var out []sourceKind
	for i, s := range d.sources {
		out = append(out, sourceKind{s.Name(), d.kinds[i].Key})
	}
	return out
}

type loadedRules struct {
	web.Rules
	status []episodes.RuleStatus
	agent  bool // whether this is an agent, which exposes only broken packs and quarantined rules
}

func ruleMetrics(read func() loadedRules) metric.Collector {
	packs := func(l loadedRules) []*rules.Pack { return l.Set.Packs }
	return metric.New(read,
		metric.Gauge("rules_loaded", "Rules that are evaluated.", func(l loadedRules) int { return len(l.status) }),
		metric.ForEach(packs, []string{"pack", "version", "sha256"}, func(p *rules.Pack) []string { return []string{p.Name, p.Version, p.SHA256} },
			metric.Gauge("pack_info", "A loaded rule pack.", func(*rules.Pack) bool { return true })),
		metric.GaugeBy("pack_broken", "Whether the newest version of a rule pack is not active; the last valid version stays active.", "pack", loadedRules.brokenFiles),
		metric.OmitZeros(metric.GaugeBy("rule_last_seen_line_timestamp_seconds", "When a stream that the rule applies to was last read. A rule for which none was has no series.", "rule", loadedRules.lastSeen)),
		metric.ForEach(loadedRules.inactiveRules, []string{"rule", "reason"}, func(i inactive) []string { return []string{i.rule, i.reason} },
			metric.Gauge("rule_inactive", "1 for each reason why the rule cannot fire here. Rules that can have no series.", func(inactive) bool { return true })),
	)
}

func (l loadedRules) brokenFiles() map[string]bool {
	out := map[string]bool{}
	for _, p := range l.Set.Packs {
		if !l.agent {
			out[p.Name] = false
		}
	}
	for _, b := range l.Broken {
		out[b.Pack] = true
	}
	return out
}

func (l loadedRules) lastSeen() map[string]time.Time {
	out := map[string]time.Time{}
	for _, r := range l.status {
		if !l.agent {
			out[r.Rule.Alert] = l.LastLines[r.Rule.Alert]
		}
	}
	return out
}

type inactive struct{ rule, reason string }

func (l loadedRules) inactiveRules() []inactive {
	var out []inactive
	if l.agent {
		for rule := range l.Quarantined {
			out = append(out, inactive{rule, "given_up"})
		}
		return out
	}
	for _, r := range l.status {
		if r.Inactive {
			out = append(out, inactive{r.Rule.Alert, "source"})
		}
		if l.Quarantined[r.Rule.Alert] != "" {
			out = append(out, inactive{r.Rule.Alert, "given_up"})
		}
	}
	for _, r := range l.Set.Rules {
		switch {
		case l.OutOfScope[r.Alert]:
			out = append(out, inactive{r.Alert, "scope"})
		case r.Mode == rules.ModeOff:
			out = append(out, inactive{r.Alert, "disabled"})
		}
	}
	return out
}
