package upstream

import (
	"time"

	"crowsnest/internal/metric"
)

// Metrics returns the metrics of an agent's connection to its aggregator.
func (s *Sink) Metrics() metric.Collector {
	return metric.New(s.Stats,
		metric.Gauge("upstream_unacked_bytes", "Bytes that are kept until the aggregator has them on its disk.", func(s Stats) int { return s.Unacked }),
		metric.Gauge("upstream_unacked_batches", "Batches that the aggregator does not have on its disk.", func(s Stats) int { return s.Batches }),
		metric.Gauge("upstream_last_answer_timestamp_seconds", "When the aggregator last answered; 0: never.", func(s Stats) time.Time { return s.LastAnswer }),
		metric.Gauge("upstream_last_ack_timestamp_seconds", "When the aggregator last had more on its disk; 0: never.", func(s Stats) time.Time { return s.LastAck }),
		metric.Gauge("upstream_refused", "Whether the aggregator refuses this agent because another one has its name.", func(s Stats) bool { return s.Refused }),
		metric.Gauge("upstream_blocked", "Whether reading waits because too much is kept for the aggregator.", func(s Stats) bool { return s.Blocked }),
		metric.Counter("upstream_blocked_seconds_total", "Time for which reading waited.", func(s Stats) time.Duration { return s.BlockedFor }),
		metric.Counter("upstream_hits_total", "Hits that the aggregator has taken.", func(s Stats) int64 { return s.Taken }),
		metric.Counter("upstream_resent_batches_total", "Batches that were sent once more.", func(s Stats) int64 { return s.Resent }),
		metric.Counter("upstream_lost_hits_total", "Hits of batches that the aggregator could not read.", func(s Stats) int64 { return s.Lost }),
	)
}
