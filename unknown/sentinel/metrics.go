package sentinel

import "crowsnest/internal/metric"

// Metrics returns the collector for the metrics of a Sentinel. concludes is false on an agent,
// which has no alerts.
func (s *Sentinel) Metrics(concludes bool) metric.Collector {
	families := []metric.Families[Stats]{
		metric.Gauge("unknown_patterns", "Remembered patterns of error lines that no rule matches.", func(st Stats) int { return st.Patterns }),
		metric.Gauge("unknown_components", "Components (a container, unit or app in a namespace) whose error lines are watched.", func(st Stats) int { return st.Components }),
		metric.Counter("unknown_lines_total", "Error lines that no rule matches.", func(st Stats) int64 { return st.Lines }),
		metric.Counter("unknown_skipped_lines_total", "Error lines that were only counted, because many equal ones came before or their namespace writes too many.", func(st Stats) int64 { return st.Skipped }),
		metric.Counter("unknown_evictions_total", "Patterns that were forgotten for lack of room.", func(st Stats) int64 { return st.Evicted }),
	}
	if concludes {
		families = append(families,
			metric.Gauge("unknown_alerts", "Open alerts about failures that no rule describes.", func(st Stats) int { return st.Open }),
			metric.Counter("unknown_alerts_total", "Alerts about failures that no rule describes.", func(st Stats) int64 { return st.Fired }),
			metric.Gauge("unknown_held", "Failures that no rule describes and that are not notified, because sentinel.alerts_per_day is reached.", func(st Stats) int { return st.Held }),
		)
	}
	return metric.New(s.Stats, families...)
}
