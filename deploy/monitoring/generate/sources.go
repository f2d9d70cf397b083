package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"crowsnest/daemon/component"
)

const chosen = `source=~"$source"`

// ofKind is the dashboard of a kind of source.
func ofKind(k component.Kind) dashboard {
	s := func(name string) string { return series(name, chosen) }
	rated := func(name string) string { return sumBy("source", rate(name, chosen)) }
	grown := func(name, labels string) string { return sumBy(labels, "increase("+s(name)+"[$__rate_interval])") }
	rows := []panel{
		row("Health", false,
			stat("Down", "Sources that cannot be read.", "", "count("+s("source_up")+" == 0)", alarm{1, "red"}),
			stat("In an outage", "Sources that are down, make no progress, or are too far behind.", "", "count("+s("source_not_seen_since_timestamp_seconds")+" > 0)", alarm{1, "red"}),
			stat("Idle", "Sources that work and have nothing to read that a rule can match.", "", "sum("+s("source_idle")+")", alarm{1, "orange"}),
			stat("Logs not read", "", "", "sum("+s("source_unread_logs")+")", alarm{1, "orange"}),
			stat("Lag", "Age of the oldest unread data.", "s", "max("+s("source_lag_seconds")+")", alarm{60, "orange"}),
			stat("Streams", "Logs that are followed.", "", "sum("+s("source_streams")+")", alarm{1, "green"}),
		),
		row("Reading", false,
			graph("Lag", "Age of the oldest unread data.", "s", false, query{"max by (source) (" + s("source_lag_seconds") + ")", "{{source}}"}),
			graph(lineTitle(k), k.Help, "short", true, query{rated("source_lines_total"), "{{source}} read"}, query{rated("source_evaluated_lines_total"), "{{source}} evaluated"}),
			graph("Bytes", "", "Bps", true, query{rated("source_bytes_total"), "{{source}}"}),
			graph("Errors", "", "short", true, query{grown("source_errors_total", "source, reason"), "{{source}} {{reason}}"}),
		),
	}
	lost := []panel{graph("Lines not evaluated, or not whole", "", "short", true,
		query{grown("source_dropped_lines_total", "source, reason"), "{{source}} dropped: {{reason}}"},
		query{grown("source_truncated_lines_total", "source"), "{{source}} truncated"},
		query{grown("source_unparsed_lines_total", "source"), "{{source}} without envelope"})}
	if len(k.Losses) > 0 {
		lost = append(lost,
			graph("Losses", sinceStart, "short", true, query{sumBy("source, reason", s("source_losses_total")), "{{source}} {{reason}}"}),
			text("Reasons", reasons(k.Losses), 24, 8))
	}
	rows = append(rows, row("Lost lines", false, lost...))
	if k.Key == "agents" {
		rows = append(rows, agents(s, rated, grown))
	}
	return newDashboard("source-"+k.Key, "source "+k.Key, k.Help, []variable{{
		Type: "query", Name: "source", Label: "Source", Datasource: &source, IncludeAll: true, Multi: true, Refresh: 2, Sort: 1, Current: current{"All", "$__all"},
		Query: fmt.Sprintf("label_values(crowsnest_source_info{%s, kind=%q}, source)", cluster, k.Key),
	}}, rows...)
}

func lineTitle(k component.Kind) string {
	if k.Filtered {
		return "Lines that a rule may match"
	}
	return "Lines"
}

// agents has what only an aggregator exposes.
func agents(s, rated func(string) string, grown func(name, labels string) string) panel {
	oldest := func(name string) string { return "topk(10, time() - (" + s(name) + " > 0))" }
	return row("Agents", false,
		table("Agents that are down", "", "", sumBy("cluster, source, node", s("agent_up")+" == bool 0")+" > 0", "Down"),
		table("What agents report about themselves", "The number of nodes.", "", sumBy("cluster, alert", s("agents_reporting"))+" > 0", "Nodes"),
		graph("Time since the last message", "The ten agents with the longest.", "s", false, query{oldest("agent_last_heard_timestamp_seconds"), "{{node}}"}),
		graph("Age of the watermark", "All lines of a node that are older were read. The ten oldest.", "s", false, query{oldest("agent_proved_timestamp_seconds"), "{{node}}"}),
		graph("Clocks of nodes", "How far the clock of a node is ahead or behind. The ten largest.", "s", false, query{"topk(10, abs(" + s("agent_clock_skew_seconds") + "))", "{{node}}"}),
		graph("Hits and batches", "", "short", false, query{rated("agents_hits_total"), "hits"}, query{rated("agents_batches_total"), "batches"}, query{rated("agents_repeated_batches_total"), "repeated batches"}),
		graph("Hits that were not applied", "", "short", true, query{grown("agents_dropped_hits_total", "reason"), "dropped: {{reason}}"}, query{sumBy("source", s("agents_held_hits")), "wait for their rule"}),
		graph("Messages that were refused", "", "short", true, query{grown("agents_refused_messages_total", "reason"), "{{reason}}"}),
		graph("Lost hits, and losses that agents reported", "", "short", true, query{grown("agents_gaps_total", "source"), "hits that agents no longer had"}, query{grown("agents_losses_total", "source"), "losses of lines that agents reported"}),
		graph("Nodes that are no longer waited for", "", "short", true, query{grown("agents_forgotten_total", "source"), "forgotten"}),
	)
}

// reasons explains why a source loses lines.
func reasons(l component.Losses) string {
	var b strings.Builder
	b.WriteString("| Reason | Meaning | What to do |\n|---|---|---|\n")
	for _, reason := range slices.Sorted(maps.Keys(l)) {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", reason, l[reason].What, l[reason].Fix)
	}
	return b.String()
}
