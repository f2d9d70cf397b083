package sinks

import "crowsnest/internal/metric"

// Metrics returns the metrics of receivers. sparse omits reasons that have not occurred, which
// limits the number of series in clusters with hundreds of agents.
func Metrics(status func() []EndpointStatus, sparse bool) metric.Collector {
	name := func(s EndpointStatus) []string { return []string{s.Sink, s.Endpoint} }
	return metric.NewEach(status, []string{"sink", "endpoint"}, name,
		metric.Counter("notifications_total", "Alerts that the receiver accepted.", func(s EndpointStatus) int64 { return s.Sent }),
		metric.CounterBy("notifications_failed_total", "Alerts that were not delivered: the receiver refused them or could not be reached.", "reason",
			func(s EndpointStatus) map[string]int64 { return metric.NonZero(s.Failed, sparse) }),
		metric.Gauge("endpoint_clock_skew_seconds", "How many seconds the clock of the receiver is ahead of the local clock, according to its answers; 0 if unknown.",
			func(s EndpointStatus) float64 { return s.ClockSkew }),
		metric.Gauge("notification_queue_length", "Alerts with an update that the receiver has not accepted yet.",
			func(s EndpointStatus) int { return s.Pending }),
		metric.Gauge("notification_endpoint_up", "Whether the last delivery to the receiver succeeded.", func(s EndpointStatus) bool { return s.Up }),
	)
}

// DiscoveryMetrics returns the metrics of lookups that find receivers.
func DiscoveryMetrics(status func() []DiscoveryStatus) metric.Collector {
	name := func(s DiscoveryStatus) []string { return []string{s.Sink, s.Discovery} }
	return metric.NewEach(status, []string{"sink", "discovery"}, name,
		metric.Gauge("notification_discovery_up", "Whether the last lookup found receivers; after a failure those that were found last stay.",
			func(s DiscoveryStatus) bool { return s.Up }),
		metric.Counter("notification_discovery_failures_total", "Lookups of receivers that failed or found none.", func(s DiscoveryStatus) int64 { return s.Failures }),
		metric.Gauge("notification_discovery_targets", "Receivers that the last successful lookup found.", func(s DiscoveryStatus) int { return s.Targets }),
	)
}
