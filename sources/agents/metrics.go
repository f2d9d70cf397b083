package agents

import (
	"strings"
	"time"

	"crowsnest/internal/metric"
	"crowsnest/sources"
)

type scraped struct {
	Stats
	status sources.Status
}

type scrapedNode struct {
	name string
	sources.MemberStatus
}

// Metrics returns the metrics of the source. Series per node exist as long as the
// source waits for the node.
func (s *Source) Metrics() metric.Collector {
	one := func(x scraped) []scraped { return []scraped{x} }
	name := func(scraped) []string { return []string{s.Name()} }
	nodes := func(x scraped) []scrapedNode {
		var out []scrapedNode
		for member, status := range x.status.Members {
			out = append(out, scrapedNode{strings.TrimPrefix(member, s.Name()+"/"), status})
		}
		return out
	}
	return metric.New(func() scraped { return scraped{s.Stats(), s.Status()} }, metric.Each(one, []string{"source"}, name,
		metric.Each(nodes, []string{"node"}, func(n scrapedNode) []string { return []string{n.name} },
			metric.Gauge("agent_up", "Whether the agent of a node is up.", func(n scrapedNode) bool { return n.Up }),
			metric.Gauge("agent_clock_skew_seconds", "How far the clock of a node is ahead, network delay included.", func(n scrapedNode) time.Duration { return n.Skew }),
			metric.Gauge("agent_proved_timestamp_seconds", "Watermark of a node: all its lines up to this time were read; 0: none.", func(n scrapedNode) time.Time { return n.Watermark }),
			metric.Gauge("agent_last_heard_timestamp_seconds", "When the agent of a node last sent a message.", func(n scrapedNode) time.Time { return n.Since }),
		),
		metric.Counter("agents_hits_total", "Hits accepted from agents.", func(x scraped) int64 { return x.Hits }),
		metric.Counter("agents_other_version_hits_total", "Hits accepted although the agent has another version of their rule.", func(x scraped) int64 { return x.Other }),
		metric.Counter("agents_batches_total", "Batches accepted from agents.", func(x scraped) int64 { return x.Batches }),
		metric.Counter("agents_repeated_batches_total", "Batches that were sent again and ignored.", func(x scraped) int64 { return x.Repeats }),
		metric.CounterBy("agents_dropped_hits_total", "Hits that no active rule accepts.", "reason", func(x scraped) map[string]int64 { return x.Dropped }),
		metric.CounterBy("agents_refused_messages_total", "Messages that were refused.", "reason", func(x scraped) map[string]int64 { return x.Refused }),
		metric.Counter("agents_gaps_total", "How often an agent no longer had hits that the saved state lacks.",
			func(x scraped) int64 { return x.status.Losses[lossGap].Count }),
		metric.GaugeBy("agents_reporting", "Nodes whose agent reports this alert about itself.", "alert", func(x scraped) map[string]int {
			out := map[string]int{}
			for _, c := range x.status.Conditions {
				out[c.Alert] += len(c.Members)
			}
			return out
		}),
		metric.Gauge("agents_held_hits", "Hits that wait for their rule to be loaded here.", func(x scraped) int { return x.Held }),
		metric.Counter("agents_losses_total", "Losses of lines that agents reported.", func(x scraped) int64 { return x.Losses }),
		metric.Counter("agents_forgotten_total", "Nodes that are no longer waited for: silent for too long, or gone for good.", func(x scraped) int64 { return x.Forgotten }),
	))
}
