package agents

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// family is a family of metrics. Series per node exist as long as the aggregator
// waits for the node.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func gauge(name, help string, labels ...string) family {
	return family{prometheus.NewDesc("crowsnest_"+name, help, append([]string{"source"}, labels...), nil), prometheus.GaugeValue}
}

func counter(name, help string, labels ...string) family {
	f := gauge(name, help, labels...)
	f.kind = prometheus.CounterValue
	return f
}

var (
	familyUp        = gauge("agent_up", "Whether the agent of a node is there.", "node")
	familySkew      = gauge("agent_clock_skew_seconds", "How far the clock of a node is ahead, the way of a message included.", "node")
	familyWatermark = gauge("agent_proved_timestamp_seconds", "Up to when the logs of a node are proved to be read; 0: nothing is.", "node")
	familyHeard     = gauge("agent_last_heard_timestamp_seconds", "When the agent of a node was last heard of.", "node")
	familyHits      = counter("agents_hits_total", "Hits of agents that were taken.")
	familyOther     = counter("agents_other_version_hits_total", "Hits that were taken though the agent has another version of their rule.")
	familyBatches   = counter("agents_batches_total", "Batches of agents that were taken.")
	familyRepeats   = counter("agents_repeated_batches_total", "Batches that came again and were not taken again.")
	familyDropped   = counter("agents_dropped_hits_total", "Hits that no rule in force takes.", "reason")
	familyRefused   = counter("agents_refused_messages_total", "Messages that were refused.", "reason")
	familyGaps      = counter("agents_gaps_total", "How often an agent did not have any more what the state does not hold.")
	familyReporting = gauge("agents_reporting", "Nodes whose agent reports this alert about itself.", "alert")
	familyHeld      = gauge("agents_held_hits", "Hits that wait until their rule is loaded here.")
	familyLosses    = counter("agents_losses_total", "Times that agents reported to have lost lines before they were read.")
	familyForgotten = counter("agents_forgotten_total", "Nodes that were away for too long, or said that they do not come back.")
)

// Describe sends the descriptions of all metrics.
func (s *Source) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range []family{
		familyUp, familySkew, familyWatermark, familyHeard, familyHits, familyOther, familyBatches, familyRepeats,
		familyDropped, familyRefused, familyGaps, familyReporting, familyHeld, familyLosses, familyForgotten,
	} {
		ch <- f.desc
	}
}

// Collect sends the state as metrics.
func (s *Source) Collect(ch chan<- prometheus.Metric) {
	send := func(f family, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(f.desc, f.kind, v, append([]string{s.Name()}, labels...)...)
	}
	status, st := s.Status(), s.Stats()
	for member, m := range status.Members {
		node, up := strings.TrimPrefix(member, s.Name()+"/"), 0.0
		if m.Up {
			up = 1
		}
		send(familyUp, up, node)
		send(familySkew, m.Skew.Seconds(), node)
		send(familyWatermark, seconds(m.Watermark), node)
		send(familyHeard, seconds(m.Since), node)
	}
	send(familyHits, float64(st.Hits))
	send(familyOther, float64(st.Other))
	send(familyBatches, float64(st.Batches))
	send(familyRepeats, float64(st.Repeats))
	send(familyForgotten, float64(st.Forgotten))
	send(familyLosses, float64(st.Losses))
	send(familyHeld, float64(st.Held))
	send(familyGaps, float64(status.Losses[lossGap].Count))
	reporting := map[string]int{}
	for _, x := range status.Conditions {
		reporting[x.Alert] += len(x.Members)
	}
	for alert, n := range reporting {
		send(familyReporting, float64(n), alert)
	}
	for reason, n := range st.Dropped {
		send(familyDropped, float64(n), reason)
	}
	for reason, n := range st.Refused {
		send(familyRefused, float64(n), reason)
	}
}

// seconds returns Unix seconds; 0 if there is no time.
func seconds(t time.Time) float64 {
	if t.Unix() <= 0 {
		return 0
	}
	return float64(t.UnixNano()) / float64(time.Second)
}
