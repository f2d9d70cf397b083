package web

import (
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"

	"crowsnest/episodes"
	"crowsnest/rules"
)

const namespace = "crowsnest"

// registerMetrics registers the process' metrics and a collector that reads the
// daemon's own counters at each scrape: nothing is counted twice, and every
// series exists from load, because rules, sources and endpoints do.
func registerMetrics(reg *prometheus.Registry, view View, now func() time.Time) error {
	for _, c := range []prometheus.Collector{
		versioncollector.NewCollector(namespace),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newCollector(view, now),
	} {
		if err := reg.Register(c); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) routeMetrics(mux *http.ServeMux) {
	scrape := promhttp.InstrumentMetricHandler(s.opt.Registry,
		promhttp.HandlerFor(s.opt.Registry, promhttp.HandlerOpts{EnableOpenMetrics: true, Registry: s.opt.Registry}))
	guarded := s.gate.guarded(scrape.ServeHTTP, "Accept", "Accept-Encoding")
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		// There are many ways to ask for the few forms of the answer.
		r.Header.Set("Accept", string(expfmt.NegotiateAccept(r.Header, expfmt.DefaultOpenMetricsAcceptedFormats()...)))
		encoding := "identity"
		for name := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
			if strings.TrimSpace(name) == "gzip" {
				encoding = "gzip"
			}
		}
		r.Header.Set("Accept-Encoding", encoding)
		guarded(w, r)
	})
}

// metric is one family that the collector emits.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func counter(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc(namespace+"_"+name, help, labels, nil), prometheus.CounterValue}
}

func gauge(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc(namespace+"_"+name, help, labels, nil), prometheus.GaugeValue}
}

// collector turns the daemon's state into metrics. It holds no numbers.
type collector struct {
	view View
	now  func() time.Time

	reloadOK, reloadTime                metric
	packInfo, packBroken, rulesLoaded   metric
	matches, lastMatch, lastSeen        metric
	held, inactive, episodes            metric
	overflow, repeats, missing, evicted metric
	evictions                           metric
	cost, tries, ruleStreams, blind     metric
	seen, seenEvicted, late, future     metric
	badTemplates                        metric
	saved, saveErrors                   metric
	lines, bytes, lost, srcErrors       metric
	losses                              metric
	evaluated, dropped                  metric
	truncated, unparsed                 metric
	lag, up, streams                    metric
	idle, away, unread                  metric
	sent, sendFailed, queue, endpointUp metric
	skew                                metric
}

func newCollector(view View, now func() time.Time) *collector {
	return &collector{
		view:         view,
		now:          now,
		reloadOK:     gauge("config_last_reload_successful", "Whether the last load of rules and configuration succeeded."),
		reloadTime:   gauge("config_last_reload_success_timestamp_seconds", "When rules and configuration were last loaded."),
		packInfo:     gauge("pack_info", "A loaded rule pack.", "pack", "version", "sha256"),
		packBroken:   gauge("pack_broken", "Whether the newest version of a rule pack was refused; its last good version stays in force.", "pack"),
		rulesLoaded:  gauge("rules_loaded", "Rules in force."),
		matches:      counter("rule_matches_total", "Lines that matched a rule's match or one of its steps.", "rule", "pack", "severity"),
		lastMatch:    gauge("rule_last_match_timestamp_seconds", "Event time of the newest line that matched; 0: none.", "rule"),
		lastSeen:     gauge("rule_last_seen_line_timestamp_seconds", "When a stream that the rule applies to was last read; 0: never.", "rule"),
		cost:         counter("rule_seconds_total", "Time that the evaluation of a rule took, estimated from samples.", "rule"),
		tries:        counter("rule_tries_total", "Lines on which one of the rule's parts was tried, estimated from samples.", "rule"),
		ruleStreams:  gauge("rule_streams", "Streams that are followed and that the rule applies to.", "rule"),
		blind:        gauge("rule_blind", "Whether no stream that the rule applies to is followed, and none was read for an hour. Always 0 where a source hands on only lines that a rule may match.", "rule"),
		held:         gauge("rule_held", "Whether negative conclusions of the rule wait for a source that is away.", "rule"),
		inactive:     gauge("rule_inactive", "Whether the rule cannot conclude here.", "rule", "reason"),
		episodes:     gauge("episodes", "Open episodes.", "rule", "state"),
		overflow:     counter("episode_overflow_total", "Triggers beyond the rule's limit of episodes.", "rule"),
		repeats:      counter("dedup_suppressed_total", "Lines that were read before.", "rule"),
		missing:      counter("rule_missing_values_total", "Lines that lack a value of by or same.", "rule", "part"),
		evicted:      counter("rule_windows_evicted_total", "Windows that were dropped for room.", "rule"),
		evictions:    counter("evictions_total", "What was dropped for room and could have made a difference: windows, clear lines, mutes, open alerts. Most namespaces have no series.", "namespace", "rule", "kind"),
		seen:         gauge("dedup_entries", "Fingerprints of lines that are remembered."),
		seenEvicted:  counter("dedup_evictions_total", "Fingerprints that were dropped for room."),
		late:         counter("late_lines_total", "Lines behind the watermark."),
		future:       counter("future_lines_total", "Lines too far ahead of the clock."),
		badTemplates: counter("template_errors_total", "Templates that could not be rendered."),
		saved:        gauge("state_last_save_timestamp_seconds", "When the state was last written; 0: never."),
		saveErrors:   counter("state_save_errors_total", "Failed writes of the state."),
		lines:        counter("source_lines_total", "Lines read.", "source"),
		bytes:        counter("source_bytes_total", "Bytes read.", "source"),
		evaluated:    counter("source_evaluated_lines_total", "Lines read that were looked at; all but the dropped ones and those that are not complete yet.", "source"),
		dropped:      counter("source_dropped_lines_total", "Lines read that were not looked at.", "source", "reason"),
		truncated:    counter("source_truncated_lines_total", "Lines of which only the beginning was looked at.", "source"),
		unparsed:     counter("source_unparsed_lines_total", "Lines without the envelope of their stream, looked at as they are.", "source"),
		lost:         counter("source_lost_bytes_total", "Bytes that were never read.", "source", "reason"),
		losses:       counter("source_losses_total", "Times that lines were gone before they were read, or may have been.", "source", "reason"),
		srcErrors:    counter("source_errors_total", "Failures of a source.", "source", "reason"),
		lag:          gauge("source_lag_seconds", "Age of the oldest data that is not read yet.", "source"),
		up:           gauge("source_up", "Whether the source can be read.", "source"),
		idle:         gauge("source_idle", "Whether the source has nothing to watch.", "source"),
		away:         gauge("source_not_seen_since_timestamp_seconds", "Since when the source is not seen, kept over restarts; 0: it is seen.", "source"),
		unread:       gauge("source_unread_logs", "Logs that are there and are not read, counted up to 100.", "source"),
		streams:      gauge("source_streams", "Streams that are followed.", "source"),
		sent:         counter("notifications_total", "Alerts that a receiver accepted.", "sink", "endpoint"),
		sendFailed:   counter("notifications_failed_total", "Alerts that a receiver refused or did not get.", "sink", "endpoint", "reason"),
		skew:         gauge("endpoint_clock_skew_seconds", "How far the clock of a receiver is ahead of ours, as its answers say; 0 where they say nothing.", "sink", "endpoint"),
		queue:        gauge("notification_queue_length", "Alerts with news that a receiver has not accepted yet.", "sink", "endpoint"),
		endpointUp:   gauge("notification_endpoint_up", "Whether the last delivery to a receiver succeeded.", "sink", "endpoint"),
	}
}

// Describe sends the descriptions of all metrics.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range []metric{
		c.reloadOK, c.reloadTime, c.packInfo, c.packBroken, c.rulesLoaded, c.matches, c.lastMatch, c.lastSeen,
		c.cost, c.tries, c.ruleStreams, c.blind, c.held, c.inactive, c.episodes, c.overflow, c.repeats, c.missing, c.evicted, c.evictions, c.seen, c.seenEvicted, c.late,
		c.future, c.badTemplates, c.saved, c.saveErrors, c.lines, c.bytes, c.evaluated, c.dropped, c.truncated, c.unparsed, c.lost, c.losses, c.srcErrors, c.lag, c.up, c.idle, c.away, c.unread,
		c.streams, c.sent, c.sendFailed, c.queue, c.endpointUp, c.skew,
	} {
		ch <- m.desc
	}
}

// emit sends one sample.
type emit func(m metric, value float64, labels ...string)

// Collect reads the daemon's state and sends it as metrics.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	send := func(m metric, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
	}
	loaded, stats, status := c.view.Rules(), c.view.Stats(), c.view.Status()
	send(c.reloadOK, truth(status.Reload.OK))
	send(c.reloadTime, seconds(status.Reload.Success))
	send(c.saved, seconds(status.Saved))
	send(c.saveErrors, float64(status.SaveErrors))
	send(c.rulesLoaded, float64(len(stats.Rules)))
	if c.view.Agent {
		c.collectAgent(loaded, send)
	} else {
		c.collectPacks(loaded, send)
		c.collectRules(loaded, stats, send)
		c.collectTotals(stats, send)
	}
	c.collectSources(send)
	c.collectEndpoints(send)
}

// collectTotals sends what is counted over all rules.
func (c *collector) collectTotals(stats episodes.Stats, send emit) {
	send(c.seen, float64(stats.Seen))
	send(c.seenEvicted, float64(stats.SeenEvicted))
	for _, v := range stats.Evictions {
		send(c.evictions, float64(v.Count), v.Namespace, v.Rule, string(v.Kind))
	}
	send(c.late, float64(stats.Late))
	send(c.future, float64(stats.Future))
	send(c.badTemplates, float64(stats.BadTemplate))
}

// costShown is the CPU time from which an agent has series of a rule: with hundreds
// of agents, series that say nothing are most of what Prometheus would store.
const costShown = 100 * time.Millisecond

// collectAgent sends what only an agent knows about rules: broken packs, rules that
// are not evaluated, and rules that take time.
func (c *collector) collectAgent(loaded Rules, send emit) {
	for _, p := range loaded.Set.Packs {
		send(c.packInfo, 1, p.Name, p.Version, p.SHA256)
	}
	for _, b := range loaded.Broken {
		send(c.packBroken, 1, b.Pack)
	}
	for rule := range loaded.GivenUp {
		send(c.inactive, 1, rule, "given_up")
	}
	for rule, spent := range loaded.Cost {
		if spent >= costShown {
			send(c.cost, spent.Seconds(), rule)
			send(c.tries, float64(loaded.Tries[rule]), rule)
		}
	}
}

func (c *collector) collectPacks(loaded Rules, send emit) {
	broken := map[string]float64{}
	for _, p := range loaded.Set.Packs {
		send(c.packInfo, 1, p.Name, p.Version, p.SHA256)
		broken[p.Name] = 0
	}
	for _, b := range loaded.Broken {
		broken[b.Pack] = 1
	}
	for pack, v := range broken {
		send(c.packBroken, v, pack)
	}
}

func (c *collector) collectRules(loaded Rules, stats episodes.Stats, send emit) {
	sees := look(loaded.Set, c.view.Sources(), c.now())
	for _, r := range stats.Rules {
		name := r.Rule.Alert
		send(c.matches, float64(r.Matches), name, r.Rule.Pack, string(r.Rule.Severity))
		send(c.lastMatch, seconds(r.LastMatch), name)
		send(c.lastSeen, seconds(loaded.Seen[name]), name)
		send(c.held, truth(r.Held), name)
		send(c.cost, loaded.Cost[name].Seconds(), name)
		send(c.tries, float64(loaded.Tries[name]), name)
		send(c.ruleStreams, float64(sees.streams[name]), name)
		send(c.blind, truth(sees.of(r.Rule, loaded.Seen[name]) == isBlind), name)
		send(c.inactive, truth(r.Inactive), name, "source")
		send(c.inactive, truth(loaded.GivenUp[name] != ""), name, "given_up")
		send(c.inactive, 0, name, "scope")
		send(c.episodes, float64(r.Pending), name, string(episodes.StatePending))
		send(c.episodes, float64(r.Firing), name, string(episodes.StateFiring))
		send(c.overflow, float64(r.Refused), name)
		send(c.repeats, float64(r.Repeats), name)
		send(c.missing, float64(r.MissingBy), name, "by")
		send(c.missing, float64(r.MissingSame), name, "same")
		send(c.evicted, float64(r.Evicted), name)
	}
	for _, r := range loaded.Set.Rules {
		switch {
		case loaded.OutOfScope[r.Alert]:
			send(c.inactive, 1, r.Alert, "scope")
		case r.Mode == rules.ModeOff:
			send(c.inactive, 1, r.Alert, "disabled")
		}
	}
}

func (c *collector) collectSources(send emit) {
	for _, s := range c.view.Sources() {
		send(c.lines, float64(s.Lines), s.Name)
		send(c.bytes, float64(s.Bytes), s.Name)
		send(c.evaluated, float64(s.Evaluated), s.Name)
		send(c.dropped, float64(s.Dropped), s.Name, "merged_line_too_long")
		send(c.truncated, float64(s.Truncated), s.Name)
		send(c.unparsed, float64(s.Unparsed), s.Name)
		send(c.lag, s.Lag.Seconds(), s.Name)
		send(c.up, truth(s.Up), s.Name)
		send(c.idle, truth(s.Idle != ""), s.Name)
		send(c.away, seconds(s.Away), s.Name)
		send(c.streams, float64(len(s.Streams)), s.Name)
		send(c.unread, float64(len(s.Unread)), s.Name)
		for reason, n := range s.Lost {
			c.sparse(send, c.lost, n, s.Name, reason)
		}
		for reason, n := range s.Losses {
			c.sparse(send, c.losses, n, s.Name, reason)
		}
		for reason, n := range s.Errors {
			c.sparse(send, c.srcErrors, n, s.Name, reason)
		}
	}
}

func (c *collector) collectEndpoints(send emit) {
	for _, e := range c.view.Endpoints() {
		send(c.sent, float64(e.Sent), e.Sink, e.Endpoint)
		send(c.queue, float64(e.Pending), e.Sink, e.Endpoint)
		send(c.skew, e.ClockSkew, e.Sink, e.Endpoint)
		send(c.endpointUp, truth(e.Up), e.Sink, e.Endpoint)
		for reason, n := range e.Failed {
			c.sparse(send, c.sendFailed, n, e.Sink, e.Endpoint, reason)
		}
	}
}

// sparse sends a counter that has a series per reason; of an agent, only the
// reasons that occurred.
func (c *collector) sparse(send emit, m metric, n int64, labels ...string) {
	if n != 0 || !c.view.Agent {
		send(m, float64(n), labels...)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// seconds is a time as Prometheus has it; 0 for the zero time.
func seconds(t time.Time) float64 {
	if t.IsZero() || t.Unix() <= 0 {
		return 0
	}
	return float64(t.UnixNano()) / float64(time.Second)
}
