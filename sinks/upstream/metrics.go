package upstream

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// families are the metrics of the connection to the aggregator.
var families = []struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(Stats) float64
}{
	{desc("unacked_bytes", "Bytes that are kept until the aggregator has them on its disk."), prometheus.GaugeValue, func(s Stats) float64 { return float64(s.Unacked) }},
	{desc("unacked_batches", "Batches that the aggregator does not have on its disk."), prometheus.GaugeValue, func(s Stats) float64 { return float64(s.Batches) }},
	{desc("last_answer_timestamp_seconds", "When the aggregator last answered; 0: never."), prometheus.GaugeValue, func(s Stats) float64 { return seconds(s.LastAnswer) }},
	{desc("last_ack_timestamp_seconds", "When the aggregator last had more on its disk; 0: never."), prometheus.GaugeValue, func(s Stats) float64 { return seconds(s.LastAck) }},
	{desc("refused", "Whether the aggregator refuses this agent because another one has its name."), prometheus.GaugeValue, func(s Stats) float64 { return truth(s.Refused) }},
	{desc("blocked", "Whether reading waits because too much is kept for the aggregator."), prometheus.GaugeValue, func(s Stats) float64 { return truth(s.Blocked) }},
	{desc("blocked_seconds_total", "Time for which reading waited."), prometheus.CounterValue, func(s Stats) float64 { return s.BlockedFor.Seconds() }},
	{desc("hits_total", "Hits that the aggregator has taken."), prometheus.CounterValue, func(s Stats) float64 { return float64(s.Taken) }},
	{desc("resent_batches_total", "Batches that were sent once more."), prometheus.CounterValue, func(s Stats) float64 { return float64(s.Resent) }},
	{desc("lost_hits_total", "Hits of batches that the aggregator could not read."), prometheus.CounterValue, func(s Stats) float64 { return float64(s.Lost) }},
}

func desc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("crowsnest_upstream_"+name, help, nil, nil)
}

// Describe sends the descriptions of all metrics.
func (s *Sink) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range families {
		ch <- f.desc
	}
}

// Collect sends the state as metrics.
func (s *Sink) Collect(ch chan<- prometheus.Metric) {
	st := s.Stats()
	for _, f := range families {
		ch <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(st))
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
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixNano()) / float64(time.Second)
}
