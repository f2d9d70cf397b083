package history

import "crowsnest/internal/metric"

// Metrics returns the collector for the metrics of a History.
func (h *History) Metrics() metric.Collector {
	return metric.New(h.Stats,
		metric.Gauge("history_episodes", "Ended episodes that are remembered.", func(st Stats) int { return st.Entries }),
		metric.Gauge("history_bytes", "Bytes of the records of ended episodes.", func(st Stats) int { return st.Bytes }),
		metric.Gauge("history_unsaved_episodes", "Ended episodes that are not in the file of the history yet.", func(st Stats) int { return st.Pending }),
		metric.Counter("history_evictions_total", "Ended episodes that were forgotten for lack of room.", func(st Stats) int64 { return st.Evicted }),
	)
}
