package main

import (
	"fmt"
	"slices"
	"strings"
)

const cluster = `cluster=~"$cluster"`

// sinceStart explains graphs of counters that appear with their first loss, which
// increase() does not show.
const sinceStart = "Lines that were lost before they were read, since the start of the process."

// series selects a metric of crowsnest in the chosen clusters.
func series(name string, matchers ...string) string {
	return "crowsnest_" + name + "{" + strings.Join(append([]string{cluster}, matchers...), ", ") + "}"
}

// counted selects firing episodes, with the severity and the pack of their rule.
func counted(severity string) string {
	return fmt.Sprintf("%s * on (cluster, job, instance, rule) group_left (severity, pack) (0 * %s + 1)",
		series("episodes", `state="firing"`), series("rule_matches_total", severity))
}

func rate(name string, matchers ...string) string {
	return "rate(" + series(name, matchers...) + "[$__rate_interval])"
}

func sumBy(labels, expr string) string { return "sum by (" + labels + ") (" + expr + ")" }

// onCall is what a person looks at who was paged.
func onCall() dashboard {
	own := series("self_alerts", `alert!="CrowsnestHeartbeat"`)
	open := sumBy("cluster, severity, pack, rule", counted(`severity!="info"`)) + " > 0"
	firing := func(severity string) string { return "sum(" + counted(`severity="`+severity+`"`) + ")" }
	return newDashboard("oncall", "on call", "Which failures are open, and whether anything is not watched.", nil,
		row("Now", false,
			stat("Critical", "Open alerts of severity critical.", "", firing("critical"), alarm{1, "red"}),
			stat("Warning", "Open alerts of severity warning.", "", firing("warning"), alarm{1, "orange"}),
			stat("Pending", "Failures that will fire unless they recover in time.", "", "sum("+series("episodes", `state="pending"`)+")", alarm{1, "blue"}),
			stat("Rules on hold", "Rules that draw no conclusions from silence, because a source makes no progress.", "", "count("+series("rule_held")+" == 1)", alarm{1, "orange"}),
			stat("Sources not read", "Sources in an outage: failures in their logs are not detected.", "",
				"count("+series("source_not_seen_since_timestamp_seconds")+" > 0)", alarm{1, "red"}),
			stat("Problems of crowsnest", "Open alerts about crowsnest itself.", "", "sum("+own+")", alarm{1, "orange"}),
		),
		row("Open alerts", false,
			table("Open by rule", "Alerts of severity info are in the row Noise.", "", open, "Open"),
			graph("Open by severity", "", "short", true, query{sumBy("severity", counted(`severity=~".+"`)), "{{severity}}"}),
			graph("Open by rule", "The ten rules with the most open alerts.", "short", true,
				query{"topk(10, " + sumBy("rule", series("episodes", `state="firing"`)) + " > 0)", "{{rule}}"}),
			graph("Open by cluster", "", "short", true, query{sumBy("cluster", series("episodes", `state="firing"`)), "{{cluster}}"}),
		),
		row("crowsnest itself", false,
			table("Problems of crowsnest", "docs/alerts.md has a section for each.", "", sumBy("cluster, alert", own)+" > 0", "Open"),
			table("Sources not read", "How long each source has been in an outage.", "s",
				"time() - ("+series("source_not_seen_since_timestamp_seconds")+" > 0)", "Since"),
		),
		row("Noise", true,
			table("Open alerts of severity info", "", "", sumBy("cluster, pack, rule", counted(`severity="info"`))+" > 0", "Open"),
			table("Pending", "Failures that will fire unless they recover in time.", "", sumBy("cluster, rule", series("episodes", `state="pending"`))+" > 0", "Pending"),
			graph("Lines that match, per minute", "The ten rules with the most matching lines. Many lines make one alert.", "short", false,
				query{"topk(10, 60 * " + sumBy("rule", rate("rule_matches_total")) + " > 0)", "{{rule}}"}),
			table("Rules that change most in a day", "How often the number of open alerts changed: candidates for a longer `for`.", "",
				"sort_desc("+sumBy("cluster, rule", "changes("+series("episodes", `state="firing"`)+"[1d])")+" > 0)", "Changes"),
			table("Lines without an alert in a day", "Rules that matched lines and opened nothing: their conditions prevented noise.", "",
				sumBy("cluster, rule", "increase("+series("rule_matches_total")+"[1d])")+" > 0 unless on (cluster, rule) "+
					sumBy("cluster, rule", "max_over_time("+series("episodes", `state="firing"`)+"[1d])")+" > 0", "Lines"),
		),
	)
}

// operation is for people who run crowsnest.
func operation() dashboard {
	return newDashboard("operation", "operation", "How crowsnest reads, decides and delivers.", []variable{{
		Type: "query", Name: "instance", Label: "Instance", Query: "label_values(crowsnest_build_info{" + cluster + "}, instance)", Datasource: &source,
		IncludeAll: true, AllValue: ".*", Multi: true, Refresh: 2, Sort: 1, Current: current{"All", "$__all"},
	}}, slices.Concat(inputRows(), resourceRows(), deliveryRows())...)
}

// instance selects the chosen instances of the operation dashboard.
const instance = `instance=~"$instance"`

// ofInstance and those below are queries for the chosen instances.
func ofInstance(name string, matchers ...string) string {
	return series(name, append(matchers, instance)...)
}

func rateOf(name string) string {
	return rate(name, instance)
}

func grown(name, labels string) string {
	return sumBy(labels, "increase("+ofInstance(name)+"[$__rate_interval])")
}

func processOf(name string) string {
	return name + "{" + cluster + ", " + instance + "} and on (cluster, job, instance) " + ofInstance("build_info")
}

func quantile(q string) query {
	return query{"histogram_quantile(" + q + ", sum by (le) (" + rateOf("detection_seconds_bucket") + "))", "quantile " + q}
}

// inputRows show what is read, and what is not.
func inputRows() []panel {
	return []panel{
		row("Health", false,
			stat("Instances", "Instances that Prometheus scrapes.", "", "count("+ofInstance("build_info")+")", alarm{1, "green"}),
			stat("Sources down", "Sources that cannot be read.", "", "count("+ofInstance("source_up")+" == 0)", alarm{1, "red"}),
			stat("Agents down", "Agents that the aggregator waits for.", "", "count("+ofInstance("agent_up")+" == 0)", alarm{1, "red"}),
			stat("Receivers down", "Receivers that do not accept alerts.", "", "count("+ofInstance("notification_endpoint_up")+" == 0)", alarm{1, "red"}),
			stat("Failed reloads", "Instances that refused their last configuration or rules.", "", "count("+ofInstance("config_last_reload_successful")+" == 0)", alarm{1, "orange"}),
			stat("Quarantined rules", "Rules that are no longer evaluated.", "", `count(max by (rule) (`+ofInstance("rule_inactive", `reason="given_up"`)+") == 1)", alarm{1, "orange"}),
			table("Instances", "", "", sumBy("cluster, instance, version", ofInstance("build_info")), "Instances"),
			table("Alerts about crowsnest itself", "docs/alerts.md has a section for each.", "", sumBy("cluster, instance, alert", ofInstance("self_alerts"))+" > 0", "Open"),
		),
		row("Reading", false,
			graph("Lag", "Age of the oldest unread data.", "s", false, query{"max by (source) (" + ofInstance("source_lag_seconds") + ")", "{{source}}"}),
			graph("Lines read", "", "short", true, query{sumBy("source", rateOf("source_lines_total")), "{{source}}"}),
			graph("Bytes read", "", "Bps", true, query{sumBy("source", rateOf("source_bytes_total")), "{{source}}"}),
			graph("Streams", "Logs that are followed.", "short", true, query{sumBy("source", ofInstance("source_streams")), "{{source}}"}),
		),
		row("Lost lines", false,
			graph("Losses", sinceStart, "short", true, query{sumBy("source, reason", ofInstance("source_losses_total")), "{{source}} {{reason}}"}),
			graph("Lost bytes", sinceStart, "bytes", true, query{sumBy("source, reason", ofInstance("source_lost_bytes_total")), "{{source}} {{reason}}"}),
			graph("Lines not evaluated, or not whole", "", "short", true,
				query{grown("source_dropped_lines_total", "source, reason"), "{{source}} dropped: {{reason}}"},
				query{grown("source_truncated_lines_total", "source"), "{{source}} truncated"},
				query{grown("source_unparsed_lines_total", "source"), "{{source}} without envelope"}),
			graph("Errors of sources", "", "short", true, query{grown("source_errors_total", "source, reason"), "{{source}} {{reason}}"}),
		),
		row("Blind", false,
			graph("Logs that are not read", "", "short", true, query{sumBy("source", ofInstance("source_unread_logs")), "{{source}}"}),
			graph("Outages", "How long each source has been in an outage.", "s", false,
				query{"max by (source) ((time() - " + ofInstance("source_not_seen_since_timestamp_seconds") + ") and " + ofInstance("source_not_seen_since_timestamp_seconds") + " > 0)", "{{source}}"}),
			graph("Rules by what keeps them from firing", "A rule without streams waits for logs that nobody writes here.", "short", false,
				query{"sum(" + ofInstance("rules_loaded") + ")", "loaded"},
				query{"sum(" + ofInstance("rule_blind") + ")", "without streams"},
				query{"sum(" + ofInstance("rule_held") + ")", "on hold"},
				query{sumBy("reason", ofInstance("rule_inactive")) + ` or label_replace(vector(0), "reason", "any", "", "")`, "inactive: {{reason}}"}),
			table("Packs", "", "", sumBy("cluster, pack, version", ofInstance("pack_info")), "Instances"),
		),
	}
}

// resourceRows show what it costs.
func resourceRows() []panel {
	return []panel{
		row("Cost", false,
			graph("Time per rule", "The ten most expensive rules. A rule above limits.rule_cpu for a minute is quarantined.", "percentunit", false,
				query{"topk(10, " + sumBy("rule", rateOf("rule_seconds_total")) + ")", "{{rule}}"}),
			graph("Lines tried per rule", "The ten rules with the most lines that pass the prefilter.", "short", false,
				query{"topk(10, " + sumBy("rule", rateOf("rule_tries_total")) + ")", "{{rule}}"}),
			graph("CPU", "", "percentunit", false, query{"rate(process_cpu_seconds_total{" + cluster + ", " + instance + "}[$__rate_interval]) and on (cluster, job, instance) " + ofInstance("build_info"), "{{instance}}"}),
			graph("Open files", "", "short", false, query{processOf("process_open_fds"), "{{instance}}"}),
		),
		row("Memory", false,
			graph("Memory of the limit", "What GOMEMLIMIT counts, as a part of it.", "percentunit", false, query{
				"(go_memstats_sys_bytes{" + cluster + ", " + instance + "} - go_memstats_heap_released_bytes) / go_gc_gomemlimit_bytes and on (cluster, job, instance) " + ofInstance("build_info"), "{{instance}}",
			}),
			graph("Resident memory", "", "bytes", false, query{processOf("process_resident_memory_bytes"), "{{instance}}"}),
			graph("Evictions", "State that was evicted to stay within limits, since the start of the process; alerts may be missing.", "short", true,
				query{sumBy("namespace, kind", ofInstance("evictions_total")), "{{namespace}} {{kind}}"},
				query{"sum(" + ofInstance("episode_overflow_total") + ") or vector(0)", "alerts beyond the limit of their rule"}),
			graph("Fingerprints of lines", "Kept to recognize lines that are read again.", "short", false, query{ofInstance("dedup_entries"), "{{instance}}"}),
		),
	}
}

// deliveryRows show what leaves an instance.
func deliveryRows() []panel {
	return []panel{
		row("Delivery", false,
			graph("Accepted alerts", "", "short", true, query{sumBy("sink, endpoint", rateOf("notifications_total")), "{{endpoint}}"}),
			graph("Alerts that were not delivered", "", "short", true, query{grown("notifications_failed_total", "endpoint, reason"), "{{endpoint}} {{reason}}"}),
			graph("Alerts that wait", "Alerts with an update that the receiver has not accepted yet.", "short", false, query{sumBy("endpoint", ofInstance("notification_queue_length")), "{{endpoint}}"}),
			graph("From line to alert", "Time from the writing of a line until the first Alertmanager accepted its alert.", "s", false, quantile("0.5"), quantile("0.99")),
			graph("Clocks of receivers", "How far the clock of a receiver is ahead.", "s", false, query{"max by (endpoint) (" + ofInstance("endpoint_clock_skew_seconds") + ")", "{{endpoint}}"}),
			graph("Age of the saved state", "It is saved only when something changed.", "s", false, query{"time() - (" + ofInstance("state_last_save_timestamp_seconds") + " > 0)", "{{instance}}"}),
		),
		row("Agents", true,
			graph("Agents up", "", "short", false, query{"sum(" + ofInstance("agent_up") + ")", "up"}, query{"count(" + ofInstance("agent_up") + ")", "known"}),
			graph("Bytes that the aggregator has not saved", "", "bytes", false, query{"topk(10, " + ofInstance("upstream_unacked_bytes") + ")", "{{instance}}"}),
			graph("Agents that have stopped reading", "The aggregator accepts no hits.", "short", false, query{"sum(" + ofInstance("upstream_blocked") + ")", "stopped"}),
			graph("Time without an answer", "The ten agents with the longest.", "s", false, query{"topk(10, time() - (" + ofInstance("upstream_last_answer_timestamp_seconds") + " > 0))", "{{instance}}"}),
		),
	}
}
