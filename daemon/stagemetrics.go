package daemon

import (
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"crowsnest/sinks/upstream"
	"crowsnest/sources/agents"
)

// registerStages registers the metrics of an agent and of an aggregator. Series
// per node exist as long as the aggregator waits for the node.
func (d *Daemon) registerStages(reg *prometheus.Registry) error {
	var all []prometheus.Collector
	if d.pipe.up != nil {
		all = append(all, upstreamMetrics(d.pipe.up.Stats)...)
	}
	for _, s := range d.sources {
		if a, ok := s.(*agents.Source); ok {
			all = append(all, newAgentsCollector(a))
		}
	}
	for _, c := range all {
		if err := reg.Register(c); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}

// upstreamMetrics are those of an agent.
func upstreamMetrics(stats func() upstream.Stats) []prometheus.Collector {
	gauge := func(name, help string, f func(upstream.Stats) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "crowsnest_upstream_" + name, Help: help}, func() float64 { return f(stats()) })
	}
	counter := func(name, help string, f func(upstream.Stats) float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "crowsnest_upstream_" + name, Help: help}, func() float64 { return f(stats()) })
	}
	yes := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	since := func(t time.Time) float64 {
		if t.IsZero() {
			return 0
		}
		return float64(t.UnixNano()) / float64(time.Second)
	}
	return []prometheus.Collector{
		gauge("unacked_bytes", "Bytes that are kept until the aggregator has them on its disk.", func(s upstream.Stats) float64 { return float64(s.Unacked) }),
		gauge("unacked_batches", "Batches that the aggregator does not have on its disk.", func(s upstream.Stats) float64 { return float64(s.Batches) }),
		gauge("last_answer_timestamp_seconds", "When the aggregator last answered; 0: never.", func(s upstream.Stats) float64 { return since(s.LastAnswer) }),
		gauge("last_ack_timestamp_seconds", "When the aggregator last had more on its disk; 0: never.", func(s upstream.Stats) float64 { return since(s.LastAck) }),
		gauge("refused", "Whether the aggregator refuses this agent because another one has its name.", func(s upstream.Stats) float64 { return yes(s.Refused) }),
		gauge("blocked", "Whether reading waits because too much is kept for the aggregator.", func(s upstream.Stats) float64 { return yes(s.Blocked) }),
		counter("blocked_seconds_total", "Time for which reading waited.", func(s upstream.Stats) float64 { return s.BlockedFor.Seconds() }),
		counter("hits_total", "Hits that the aggregator has taken.", func(s upstream.Stats) float64 { return float64(s.Taken) }),
		counter("resent_batches_total", "Batches that were sent once more.", func(s upstream.Stats) float64 { return float64(s.Resent) }),
		counter("lost_hits_total", "Hits of batches that the aggregator could not read.", func(s upstream.Stats) float64 { return float64(s.Lost) }),
	}
}

// agentsCollector turns the state of an aggregator's agents into metrics.
type agentsCollector struct {
	src *agents.Source

	up, skew, proved, heard        *prometheus.Desc
	hits, other, batches, repeats  *prometheus.Desc
	dropped, refused, gaps, forgot *prometheus.Desc
	reporting, losses, held        *prometheus.Desc
}

func newAgentsCollector(src *agents.Source) *agentsCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("crowsnest_"+name, help, labels, prometheus.Labels{"source": src.Name()})
	}
	return &agentsCollector{
		src:       src,
		up:        desc("agent_up", "Whether the agent of a node is there.", "node"),
		skew:      desc("agent_clock_skew_seconds", "How far the clock of a node is ahead, the way of a message included.", "node"),
		proved:    desc("agent_proved_timestamp_seconds", "Up to when the logs of a node are proved to be read; 0: nothing is.", "node"),
		heard:     desc("agent_last_heard_timestamp_seconds", "When the agent of a node was last heard of.", "node"),
		hits:      desc("agents_hits_total", "Hits of agents that were taken."),
		other:     desc("agents_other_version_hits_total", "Hits that were taken though the agent has another version of their rule."),
		batches:   desc("agents_batches_total", "Batches of agents that were taken."),
		repeats:   desc("agents_repeated_batches_total", "Batches that came again and were not taken again."),
		dropped:   desc("agents_dropped_hits_total", "Hits that no rule in force takes.", "reason"),
		refused:   desc("agents_refused_messages_total", "Messages that were refused.", "reason"),
		gaps:      desc("agents_gaps_total", "How often an agent did not have any more what the state does not hold."),
		reporting: desc("agents_reporting", "Nodes whose agent reports this alert about itself.", "alert"),
		held:      desc("agents_held_hits", "Hits that wait until their rule is loaded here."),
		losses:    desc("agents_losses_total", "Times that agents reported to have lost lines before they were read."),
		forgot:    desc("agents_forgotten_total", "Nodes that were away for too long, or said that they do not come back."),
	}
}

// Describe sends the descriptions of all metrics.
func (c *agentsCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.up, c.skew, c.proved, c.heard, c.hits, c.other, c.batches, c.repeats, c.dropped, c.refused, c.gaps, c.forgot, c.reporting, c.losses, c.held} {
		ch <- d
	}
}

// Collect reads the state and sends it.
func (c *agentsCollector) Collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	unix := func(t time.Time) float64 {
		if t.Unix() <= 0 {
			return 0
		}
		return float64(t.UnixNano()) / float64(time.Second)
	}
	status, st := c.src.Status(), c.src.Stats()
	for part, p := range status.Members {
		node := strings.TrimPrefix(part, c.src.Name()+"/")
		up := 0.0
		if p.Up {
			up = 1
		}
		send(c.up, prometheus.GaugeValue, up, node)
		send(c.skew, prometheus.GaugeValue, p.Skew.Seconds(), node)
		send(c.proved, prometheus.GaugeValue, unix(p.Watermark), node)
		send(c.heard, prometheus.GaugeValue, unix(p.Since), node)
	}
	count := func(d *prometheus.Desc, v int64, labels ...string) {
		send(d, prometheus.CounterValue, float64(v), labels...)
	}
	count(c.hits, st.Hits)
	count(c.other, st.Other)
	count(c.batches, st.Batches)
	count(c.repeats, st.Repeats)
	count(c.forgot, st.Forgotten)
	count(c.losses, st.Losses)
	send(c.held, prometheus.GaugeValue, float64(st.Held))
	reporting := map[string]int{}
	for _, x := range status.Conditions {
		reporting[x.Alert] += len(x.Members)
	}
	for alert, n := range reporting {
		send(c.reporting, prometheus.GaugeValue, float64(n), alert)
	}
	gaps := int64(0)
	for _, l := range status.Losses {
		gaps += l.Count
	}
	count(c.gaps, gaps)
	for reason, n := range st.Dropped {
		count(c.dropped, n, reason)
	}
	for reason, n := range st.Refused {
		count(c.refused, n, reason)
	}
}
