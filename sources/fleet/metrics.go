package fleet

import (
	"time"

	"crowsnest/internal/metric"
)

// stats is what the metrics show.
type stats struct {
	clusters []Cluster
	polls    Polls
	failing  map[string]bool // discoveries
}

func (s *Source) stats() stats {
	out := stats{clusters: s.Clusters(), failing: map[string]bool{}}
	if s.cfg.FileSD != nil {
		out.failing["file_sd"] = false
	}
	if s.cfg.HTTPSD != nil {
		out.failing["http_sd"] = false
	}
	for _, d := range s.Failing() {
		out.failing[d.Kind] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out.polls = s.polls
	return out
}

// Metrics returns the collector of the clusters.
func (s *Source) Metrics() metric.Collector {
	clusters := func(st stats) []Cluster { return st.clusters }
	return metric.New(s.stats,
		metric.GaugeBy("fleet_clusters", "Clusters by state: up, unknown (its daemon does not answer), conflict (its name is in doubt).", "state",
			func(st stats) map[string]int {
				out := map[string]int{}
				for _, state := range States() {
					out[string(state)] = 0
				}
				for _, c := range st.clusters {
					out[string(c.State)]++
				}
				return out
			}),
		metric.Each(clusters, []string{"cluster_name"}, func(c Cluster) []string { return []string{c.Name} },
			metric.Gauge("fleet_cluster_up", "Whether the daemon of the cluster answers and its name is not in doubt.", func(c Cluster) bool { return c.State == Up }),
			metric.Gauge("fleet_cluster_last_answer_timestamp_seconds", "When the daemon of the cluster last answered; 0: never.", func(c Cluster) time.Time { return c.Answered }),
		),
		metric.Counter("fleet_polls_total", "Polls of daemons with an answer that was used.", func(st stats) int64 { return st.polls.Answered }),
		metric.Counter("fleet_unchanged_polls_total", "Those of them whose alerts had not changed, so they were not sent again.", func(st stats) int64 { return st.polls.Same }),
		metric.GaugeBy("fleet_discovery_failing", "Whether the service discovery of clusters fails; the clusters of before are polled meanwhile.", "kind", func(st stats) map[string]bool { return st.failing }),
	)
}
