package agents

import (
	"strings"
	"time"

	"crowsnest/internal/metric"
	"crowsnest/sources"
)

// scraped is what the metrics are read from.
type scraped struct {
	Stats
	status sources.Status
}

// scrapedNode is one member of the source.
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
			metric.Gauge("agent_up", "Whether the agent of a node is there.", func(n scrapedNode) bool { return n.Up }),
			metric.Gauge("agent_clock_skew_seconds", "How far the clock of a node is ahead, the way of a message included.", func(n scrapedNode) time.Duration { return n.Skew }),
			metric.Gauge("agent_proved_timestamp_seconds", "Up to when the logs of a node are proved to be read; 0: nothing is.", func(n scrapedNode) time.Time { return n.Watermark }),
			metric.Gauge("agent_last_heard_timestamp_seconds", "When the agent of a node was last heard of.", func(n scrapedNode) time.Time { return n.Since }),
		),
		metric.Counter("agents_hits_total", "Hits of agents that were taken.", func(x scraped) int64 { return x.Hits }),
		metric.Counter("agents_other_version_hits_total", "Hits that were taken though the agent has another version of their rule.", func(x scraped) int64 { return x.Other }),
		metric.Counter("agents_batches_total", "Batches of agents that were taken.", func(x scraped) int64 { return x.Batches }),
		metric.Counter("agents_repeated_batches_total", "Batches that came again and were not taken again.", func(x scraped) int64 { return x.Repeats }),
		metric.CounterBy("agents_dropped_hits_total", "Hits that no rule in force takes.", "reason", func(x scraped) map[string]int64 { return x.Dropped }),
		metric.CounterBy("agents_refused_messages_total", "Messages that were refused.", "reason", func(x scraped) map[string]int64 { return x.Refused }),
		metric.Counter("agents_gaps_total", "How often an agent did not have any more what the state does not hold.",
			func(x scraped) int64 { return x.status.Losses[lossGap].Count }),
		metric.GaugeBy("agents_reporting", "Nodes whose agent reports this alert about itself.", "alert", func(x scraped) map[string]int {
			out := map[string]int{}
			for _, c := range x.status.Conditions {
				out[c.Alert] += len(c.Members)
			}
			return out
		}),
		metric.Gauge("agents_held_hits", "Hits that wait until their rule is loaded here.", func(x scraped) int { return x.Held }),
		metric.Counter("agents_losses_total", "Times that agents reported to have lost lines before they were read.", func(x scraped) int64 { return x.Losses }),
		metric.Counter("agents_forgotten_total", "Nodes that were away for too long, or said that they do not come back.", func(x scraped) int64 { return x.Forgotten }),
	))
}
