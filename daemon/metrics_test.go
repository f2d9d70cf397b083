package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sinks"
	"crowsnest/sources"
	"crowsnest/web"
)

// scraped returns the metrics of the parts of a daemon with one rule in force and one that
// is off.
func scraped(t *testing.T, agent bool) string {
	lost := &rules.Rule{Alert: "LeaseLost", Pack: "demo", Severity: rules.SeverityCritical}
	off := &rules.Rule{Alert: "Off", Pack: "demo", Mode: rules.ModeOff}
	loaded := web.Rules{
		Set:    &rules.Set{Packs: []*rules.Pack{{Name: "demo", Version: "1.2.3"}, {Name: "good"}}, Rules: []*rules.Rule{lost, off}},
		Broken: []web.BrokenPack{{Pack: "demo"}, {Pack: "gone.yaml"}}, Quarantined: map[string]string{"Slow": "it took too much"},
	}
	stats := episodes.Stats{
		Evictions: []episodes.Eviction{{Namespace: "a", Rule: "LeaseLost", Kind: episodes.EvictedClears, Count: 7}},
		Rules:     []episodes.RuleStatus{{Rule: lost, Firing: 1, RuleStats: episodes.RuleStats{Matches: 1234, LastMatch: time.Unix(100, 0)}}},
	}
	costs := []matcher.Cost{{Rule: lost, Spent: 1250 * time.Millisecond, Evaluations: 4321}, {Rule: &rules.Rule{Alert: "Cheap"}, Spent: time.Millisecond}}
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(
		ruleMetrics(func() loadedRules { return loadedRules{loaded, stats.Rules, agent} }),
		episodes.Metrics(func() episodes.Stats { return stats }),
		matcher.Metrics(func() []matcher.Cost { return costs }, map[bool]time.Duration{true: minAgentCost}[agent]),
		sources.Metrics(func() []sources.Status {
			return []sources.Status{{
				Name: "kubelet", Up: true, Lag: 1500 * time.Millisecond, LostBytes: map[string]int64{"rotated": 0, "deleted": 3},
				Losses: map[string]sources.Loss{"deleted": {Count: 2}},
			}}
		}, agent),
		sinks.Metrics(func() []sinks.EndpointStatus {
			return []sinks.EndpointStatus{{Sink: "alertmanager", Endpoint: "http://am:9093", Failed: map[string]int64{"timeout": 2, "auth": 0}}}
		}, agent),
	)
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	require.Empty(t, problems)
	families, err := reg.Gather()
	require.NoError(t, err)
	var text strings.Builder
	for _, f := range families {
		_, err := expfmt.MetricFamilyToText(&text, f)
		require.NoError(t, err)
	}
	return text.String()
}

func TestMetrics(t *testing.T) {
	everywhere := []string{
		`crowsnest_pack_info{pack="demo",sha256="",version="1.2.3"} 1`,
		`crowsnest_pack_broken{pack="demo"} 1`,
		`crowsnest_pack_broken{pack="gone.yaml"} 1`,
		`crowsnest_rules_loaded 1`,
		`crowsnest_rule_seconds_total{rule="LeaseLost"} 1.25`,
		`crowsnest_rule_tries_total{rule="LeaseLost"} 4321`,
		`crowsnest_source_up{source="kubelet"} 1`,
		`crowsnest_source_lag_seconds{source="kubelet"} 1.5`,
		`crowsnest_source_lost_bytes_total{reason="deleted",source="kubelet"} 3`,
		`crowsnest_source_losses_total{reason="deleted",source="kubelet"} 2`,
		`crowsnest_notifications_failed_total{endpoint="http://am:9093",reason="timeout",sink="alertmanager"} 2`,
		`crowsnest_notification_queue_length{endpoint="http://am:9093",sink="alertmanager"} 0`,
	}
	notOnAgents := []string{
		`crowsnest_pack_broken{pack="good"} 0`,
		`crowsnest_rule_inactive{reason="disabled",rule="Off"} 1`,
		`crowsnest_rule_seconds_total{rule="Cheap"} 0.001`,
		`crowsnest_source_lost_bytes_total{reason="rotated",source="kubelet"} 0`,
		`crowsnest_notifications_failed_total{endpoint="http://am:9093",reason="auth",sink="alertmanager"} 0`,
	}
	daemon, agent := scraped(t, false), scraped(t, true)
	for _, want := range everywhere {
		require.Contains(t, daemon, want)
		require.Contains(t, agent, want)
	}
	for _, want := range notOnAgents {
		require.Contains(t, daemon, want)
		require.NotContains(t, agent, want)
	}
	for _, want := range []string{
		`crowsnest_rule_matches_total{pack="demo",rule="LeaseLost",severity="critical"} 1234`,
		`crowsnest_rule_last_match_timestamp_seconds{rule="LeaseLost"} 100`,
		`crowsnest_episodes{rule="LeaseLost",state="firing"} 1`,
		`crowsnest_episodes{rule="LeaseLost",state="pending"} 0`,
		`crowsnest_rule_held{rule="LeaseLost"} 0`,
		`crowsnest_evictions_total{kind="clears",namespace="a",rule="LeaseLost"} 7`,
	} {
		require.Contains(t, daemon, want)
	}
	require.Contains(t, agent, `crowsnest_rule_inactive{reason="given_up",rule="Slow"} 1`)
	for _, zero := range []string{
		`crowsnest_rule_last_seen_line_timestamp_seconds{rule="LeaseLost"}`, `crowsnest_rule_inactive{reason="given_up",rule="LeaseLost"}`,
		`crowsnest_episode_overflow_total{rule="LeaseLost"}`, `crowsnest_rule_missing_values_total{`, `crowsnest_dedup_suppressed_total{`,
	} {
		require.NotContains(t, daemon, zero)
	}
}
