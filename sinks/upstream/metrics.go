package upstream

import (
	"time"

	"crowsnest/internal/metric"
)

// Metrics returns the metrics of an agent's connection to its aggregator.
func (s *Sink) Metrics() metric.Collector {
	return metric.New(s.Stats,
		metric.Gauge("upstream_unacked_bytes", "Bytes kept in memory until the aggregator has saved them.", func(s Stats) int { return s.Unacked }),
		metric.Gauge("upstream_unacked_batches", "Batches that the aggregator has not saved yet.", func(s Stats) int { return s.Batches }),
		metric.Gauge("upstream_last_answer_timestamp_seconds", "When the aggregator last answered; 0: never.", func(s Stats) time.Time { return s.LastAnswer }),
		metric.Gauge("upstream_last_ack_timestamp_seconds", "When the aggregator last saved more batches; 0: never.", func(s Stats) time.Time { return s.LastAck }),
		metric.Gauge("upstream_refused", "Whether the aggregator refuses this agent because another one has its name.", func(s Stats) bool { return s.Refused }),
		metric.Gauge("upstream_blocked", "Whether reading is paused because the aggregator has not saved enough batches.", func(s Stats) bool { return s.Blocked }),
		metric.Counter("upstream_blocked_seconds_total", "Time for which reading was paused.", func(s Stats) time.Duration { return s.BlockedFor }),
		metric.Counter("upstream_hits_total", "Hits that the aggregator accepted.", func(s Stats) int64 { return s.Taken }),
		metric.Counter("upstream_resent_batches_total", "Batches that were sent again.", func(s Stats) int64 { return s.Resent }),
		metric.Counter("upstream_lost_hits_total", "Hits of batches that the aggregator could not read.", func(s Stats) int64 { return s.Lost }),
	)
}
