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

// registerMetrics registers the metrics of the process, and a collector that reads
// the daemon's own counters at each scrape. The series of a rule, source or endpoint
// exist as soon as it is loaded.
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
		// Normalize the headers so that equal responses share one key in the gate.
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

// collector turns the daemon's state into metrics. It keeps no counts itself.
type collector struct {
	view View
	now  func() time.Time
	all  []metric // for Describe

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
	c := &collector{view: view, now: now}
	c.reloadOK = c.gauge("config_last_reload_successful", "Whether the last load of rules and configuration succeeded.")
	c.reloadTime = c.gauge("config_last_reload_success_timestamp_seconds", "When rules and configuration were last loaded successfully.")
	c.packInfo = c.gauge("pack_info", "A loaded rule pack.", "pack", "version", "sha256")
	c.packBroken = c.gauge("pack_broken", "Whether the newest version of a rule pack was refused; its last good version stays in force.", "pack")
	c.rulesLoaded = c.gauge("rules_loaded", "Rules that are evaluated.")
	c.matches = c.counter("rule_matches_total", "Lines that matched the rule's match or one of its steps.", "rule", "pack", "severity")
	c.lastMatch = c.gauge("rule_last_match_timestamp_seconds", "Event time of the newest matching line; 0: none.", "rule")
	c.lastSeen = c.gauge("rule_last_seen_line_timestamp_seconds", "When a stream that the rule applies to was last read; 0: never.", "rule")
	c.cost = c.counter("rule_seconds_total", "Time spent evaluating the rule, estimated from samples.", "rule")
	c.tries = c.counter("rule_tries_total", "Lines on which at least one part of the rule was tried, estimated from samples.", "rule")
	c.ruleStreams = c.gauge("rule_streams", "Followed streams that the rule applies to.", "rule")
	c.blind = c.gauge("rule_blind", "Whether the rule applies to no followed stream and to none that was read within the last hour. Always 0 if a source delivers only lines that a rule may match.", "rule")
	c.held = c.gauge("rule_held", "Whether absence-based conclusions of the rule are on hold because a source makes no progress.", "rule")
	c.inactive = c.gauge("rule_inactive", "Whether the rule cannot fire here.", "rule", "reason")
	c.episodes = c.gauge("episodes", "Open episodes.", "rule", "state")
	c.overflow = c.counter("episode_overflow_total", "Triggers beyond the rule's limit of episodes.", "rule")
	c.repeats = c.counter("dedup_suppressed_total", "Matching lines that were ignored because they had been read before.", "rule")
	c.missing = c.counter("rule_missing_values_total", "Matching lines that lack a value for by or same.", "rule", "part")
	c.evicted = c.counter("rule_windows_evicted_total", "Windows of the rule that were evicted to stay within memory limits.", "rule")
	c.evictions = c.counter("evictions_total", "Evictions that may have changed a conclusion, by kind: windows, clear lines, mutes, open alerts. Most namespaces have no series.", "namespace", "rule", "kind")
	c.seen = c.gauge("dedup_entries", "Fingerprints of lines kept for deduplication.")
	c.seenEvicted = c.counter("dedup_evictions_total", "Fingerprints of lines evicted to stay within memory limits.")
	c.late = c.counter("late_lines_total", "Lines with a time before the watermark.")
	c.future = c.counter("future_lines_total", "Lines with a time too far ahead of the clock.")
	c.badTemplates = c.counter("template_errors_total", "Failed renderings of templates.")
	c.saved = c.gauge("state_last_save_timestamp_seconds", "When the state was last saved; 0: never.")
	c.saveErrors = c.counter("state_save_errors_total", "Failed attempts to save the state.")
	c.lines = c.counter("source_lines_total", "Lines read.", "source")
	c.bytes = c.counter("source_bytes_total", "Bytes read.", "source")
	c.evaluated = c.counter("source_evaluated_lines_total", "Lines evaluated: all lines read except dropped and incomplete ones.", "source")
	c.dropped = c.counter("source_dropped_lines_total", "Lines read but not evaluated.", "source", "reason")
	c.truncated = c.counter("source_truncated_lines_total", "Lines of which only the beginning was evaluated.", "source")
	c.unparsed = c.counter("source_unparsed_lines_total", "Lines without the envelope of their stream, evaluated as they are.", "source")
	c.lost = c.counter("source_lost_bytes_total", "Bytes that were lost before they were read.", "source", "reason")
	c.losses = c.counter("source_losses_total", "How often lines were lost, or may have been lost, before they were read.", "source", "reason")
	c.srcErrors = c.counter("source_errors_total", "Errors of the source.", "source", "reason")
	c.lag = c.gauge("source_lag_seconds", "Age of the oldest unread data.", "source")
	c.up = c.gauge("source_up", "Whether the source can be read.", "source")
	c.idle = c.gauge("source_idle", "Whether the source has nothing to watch.", "source")
	c.away = c.gauge("source_not_seen_since_timestamp_seconds", "Start of the current outage of the source, kept across restarts; 0: no outage.", "source")
	c.unread = c.gauge("source_unread_logs", "Existing logs that are not read, counted up to 100.", "source")
	c.streams = c.gauge("source_streams", "Followed streams.", "source")
	c.sent = c.counter("notifications_total", "Alerts that the receiver accepted.", "sink", "endpoint")
	c.sendFailed = c.counter("notifications_failed_total", "Alerts that were not delivered: the receiver refused them or could not be reached.", "sink", "endpoint", "reason")
	c.skew = c.gauge("endpoint_clock_skew_seconds", "How many seconds the clock of the receiver is ahead of the local clock, according to its answers; 0 if unknown.", "sink", "endpoint")
	c.queue = c.gauge("notification_queue_length", "Alerts with an update that the receiver has not accepted yet.", "sink", "endpoint")
	c.endpointUp = c.gauge("notification_endpoint_up", "Whether the last delivery to the receiver succeeded.", "sink", "endpoint")
	return c
}

func (c *collector) counter(name, help string, labels ...string) metric {
	return c.metric(prometheus.CounterValue, name, help, labels)
}

func (c *collector) gauge(name, help string, labels ...string) metric {
	return c.metric(prometheus.GaugeValue, name, help, labels)
}

func (c *collector) metric(kind prometheus.ValueType, name, help string, labels []string) metric {
	m := metric{prometheus.NewDesc(namespace+"_"+name, help, labels, nil), kind}
	c.all = append(c.all, m)
	return m
}

// Describe sends the descriptions of all metrics.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.all {
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

// collectTotals sends the counts over all rules.
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

// minAgentCost is the evaluation time from which an agent exposes the cost of a
// rule. It limits the number of series in clusters with hundreds of agents.
const minAgentCost = 100 * time.Millisecond

// collectAgent sends what only an agent knows about rules: broken packs,
// quarantined rules, and the cost of expensive ones.
func (c *collector) collectAgent(loaded Rules, send emit) {
	for _, p := range loaded.Set.Packs {
		send(c.packInfo, 1, p.Name, p.Version, p.SHA256)
	}
	for _, b := range loaded.Broken {
		send(c.packBroken, 1, b.Pack)
	}
	for rule := range loaded.Quarantined {
		send(c.inactive, 1, rule, "given_up")
	}
	for rule, spent := range loaded.Cost {
		if spent >= minAgentCost {
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
	covered := newCoverage(loaded.Set, c.view.Sources(), c.now())
	for _, r := range stats.Rules {
		name := r.Rule.Alert
		send(c.matches, float64(r.Matches), name, r.Rule.Pack, string(r.Rule.Severity))
		send(c.lastMatch, seconds(r.LastMatch), name)
		send(c.lastSeen, seconds(loaded.Seen[name]), name)
		send(c.held, truth(r.OnHold), name)
		send(c.cost, loaded.Cost[name].Seconds(), name)
		send(c.tries, float64(loaded.Tries[name]), name)
		send(c.ruleStreams, float64(covered.streams[name]), name)
		send(c.blind, truth(covered.health(r.Rule, loaded.Seen[name]) == healthBlind), name)
		send(c.inactive, truth(r.Inactive), name, "source")
		send(c.inactive, truth(loaded.Quarantined[name] != ""), name, "given_up")
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

// sparse sends a counter with a series per reason. An agent omits the reasons that
// have not occurred.
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

// seconds returns Unix seconds; 0 for the zero time.
func seconds(t time.Time) float64 {
	if t.IsZero() || t.Unix() <= 0 {
		return 0
	}
	return float64(t.UnixNano()) / float64(time.Second)
}
