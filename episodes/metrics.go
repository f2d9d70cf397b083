package episodes

import (
	"slices"
	"time"

	"crowsnest/internal/metric"
)

// Metrics returns the metrics of an engine. A rule has the series that dashboards and alerts need as soon as it is
// loaded. It has other series only if their value is not 0.
func Metrics(stats func() Stats) metric.Collector {
	perRule := func(s Stats) []RuleStatus { return s.Rules }
	return metric.New(stats,
		metric.ForEach(perRule, []string{"rule", "pack", "severity"},
			func(r RuleStatus) []string { return []string{r.Rule.Alert, r.Rule.Pack, string(r.Rule.Severity)} },
			metric.Counter("rule_matches_total", "Lines that matched the rule's match or one of its steps.", func(r RuleStatus) int64 { return r.Matches })),
		metric.ForEach(perRule, []string{"rule"}, func(r RuleStatus) []string { return []string{r.Rule.Alert} },
			metric.Gauge("rule_held", "Whether absence-based conclusions of the rule are on hold because a source makes no progress.", func(r RuleStatus) bool { return r.OnHold }),
			metric.GaugeBy("episodes", "Open episodes.", "state", func(r RuleStatus) map[string]int {
				return map[string]int{string(StatePending): r.Pending, string(StateFiring): r.Firing}
			}),
			metric.OmitZeros(
				metric.Gauge("rule_last_match_timestamp_seconds", "Event time of the newest matching line. A rule without one has no series.", func(r RuleStatus) time.Time { return r.LastMatch }),
				metric.Counter("episode_overflow_total", "Triggers beyond the rule's limit of episodes. Rules without one have no series.", func(r RuleStatus) int64 { return r.Refused }),
				metric.Counter("dedup_suppressed_total", "Matching lines that were ignored because they had been read before. Rules without one have no series.", func(r RuleStatus) int64 { return r.Repeats }),
				metric.CounterBy("rule_missing_values_total", "Matching lines that lack a value for by or same. Rules without one have no series.", "part", func(r RuleStatus) map[string]int64 {
					return map[string]int64{"by": r.MissingBy, "same": r.MissingSame}
				}),
				metric.Counter("rule_windows_evicted_total", "Windows of the rule that were evicted to stay within memory limits. Rules without one have no series.", func(r RuleStatus) int64 { return r.Evicted }))),
		metric.ForEach(silentRules, []string{"rule"}, func(r RuleStatus) []string { return []string{r.Rule.Alert} },
			metric.Gauge("rule_armed_keys", "Keys of a rule with `silent` that were seen, so that their silence raises an alert.", func(r RuleStatus) int { return r.Armed })),
		metric.ForEach(func(s Stats) []Eviction { return s.Evictions }, []string{"namespace", "rule", "kind"},
			func(v Eviction) []string { return []string{v.Namespace, v.Rule, string(v.Kind)} },
			metric.Counter("evictions_total", "Evictions that may have changed a conclusion, by kind: windows, clear lines, mutes, armed keys of rules with `silent`, open alerts. Most namespaces have no series.",
				func(v Eviction) int64 { return v.Count })),
		metric.Gauge("dedup_entries", "Fingerprints of lines kept for deduplication.", func(s Stats) int { return s.Seen }),
		metric.Counter("dedup_evictions_total", "Fingerprints of lines evicted to stay within memory limits.", func(s Stats) int64 { return s.SeenEvicted }),
		metric.Counter("late_lines_total", "Lines with a time before the watermark.", func(s Stats) int64 { return s.Late }),
		metric.Counter("future_lines_total", "Lines with a time too far ahead of the clock.", func(s Stats) int64 { return s.Future }),
		metric.Counter("template_errors_total", "Failed renderings of templates.", func(s Stats) int64 { return s.BadTemplate }),
	)
}

func silentRules(s Stats) []RuleStatus {
	return slices.DeleteFunc(slices.Clone(s.Rules), func(r RuleStatus) bool { return r.Rule.Silent == 0 })
}
