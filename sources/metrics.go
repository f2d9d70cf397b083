package sources

import (
	"time"

	"crowsnest/internal/metric"
)

// Metrics returns the metrics of sources. sparse omits reasons that have not occurred, which
// limits the number of series in clusters with hundreds of agents.
func Metrics(status func() []Status, sparse bool) metric.Collector {
	name := func(s Status) []string { return []string{s.Name} }
	return metric.NewEach(status, []string{"source"}, name,
		metric.Counter("source_lines_total", "Lines read.", func(s Status) int64 { return s.Lines }),
		metric.Counter("source_bytes_total", "Bytes read.", func(s Status) int64 { return s.Bytes }),
		metric.Counter("source_evaluated_lines_total", "Lines evaluated: all lines read except dropped and incomplete ones.",
			func(s Status) int64 { return s.Evaluated }),
		metric.CounterBy("source_dropped_lines_total", "Lines read but not evaluated.", "reason",
			func(s Status) map[string]int64 { return map[string]int64{"merged_line_too_long": s.Dropped} }),
		metric.Counter("source_truncated_lines_total", "Lines of which only the beginning was evaluated.",
			func(s Status) int64 { return s.Truncated }),
		metric.Counter("source_unparsed_lines_total", "Lines without the envelope that the other lines of their stream have, such as a CRI prefix. They are evaluated unchanged.",
			func(s Status) int64 { return s.Unparsed }),
		metric.CounterBy("source_lost_bytes_total", "Bytes that were lost before crowsnest read them.", "reason",
			func(s Status) map[string]int64 { return metric.NonZero(s.LostBytes, sparse) }),
		metric.CounterBy("source_losses_total", "How often lines were lost, or may have been lost, before they were read.", "reason",
			func(s Status) map[string]int64 { return metric.NonZero(s.LossCounts(), sparse) }),
		metric.CounterBy("source_errors_total", "Errors of the source.", "reason",
			func(s Status) map[string]int64 { return metric.NonZero(s.Errors, sparse) }),
		metric.GaugeBy("source_left_out_objects", "Objects that exist and are not watched because there are more than max_objects, for the namespaces with the most.", "namespace",
			func(s Status) map[string]int64 { return s.LeftOut }),
		metric.Gauge("source_lag_seconds", "Age of the oldest unread data.", func(s Status) time.Duration { return s.Lag }),
		metric.Gauge("source_up", "Whether the source can be read.", func(s Status) bool { return s.Up }),
		metric.Gauge("source_idle", "Whether the source has nothing to read that a rule can match.", func(s Status) bool { return s.Idle != "" }),
		metric.Gauge("source_unread_logs", "Existing logs that are not read, counted up to 100.", func(s Status) int { return len(s.Unread) }),
		metric.Gauge("source_streams", "Followed streams.", func(s Status) int { return len(s.Streams) }),
		metric.Gauge("source_members", "Known members of the source, such as the agents or the senders of OTLP.", func(s Status) int { return len(s.Members) }),
		metric.Gauge("source_members_with_problems", "Members of the source that are down or have a problem, such as that they are silent.", func(s Status) int {
			n := 0
			for _, m := range s.Members {
				if m.Error != "" {
					n++
				}
			}
			return n
		}),
	)
}
