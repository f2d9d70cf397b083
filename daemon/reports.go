package daemon

import (
	"fmt"
	"maps"
	"net"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/hits"
	"crowsnest/rules"
	"crowsnest/sinks/upstream"
	"crowsnest/sources"
	"crowsnest/sources/agents"
)

// Only an agent knows its own problems, and it often has no Alertmanager. It reports
// its alerts to the aggregator, which fires each of them once for all nodes.

const (
	// nodesNamed bounds the nodes that an alert names.
	nodesNamed = 5
	// maxReported bounds the open alerts about agents.
	maxReported = 100
	// refusedFor is how long the alert about a refused message stays open. An agent
	// sends a message every few seconds.
	refusedFor = 5 * time.Minute
	// upstreamLogged is the interval at which a lasting failure is logged.
	upstreamLogged = time.Minute
)

// report sends the alerts of an agent about itself, and its rules, to the
// aggregator.
func (d *Daemon) report() {
	up := d.pipe.up
	if up == nil {
		return
	}
	up.Report(reportable(d.self.all()), d.looked.Load().finds())
}

// reportable converts alerts to the conditions that an agent reports.
func reportable(alerts []episodes.Episode) []hits.Condition {
	var out []hits.Condition
	for _, e := range alerts {
		if e.Alert == AlertHeartbeat || e.Alert == alertUpstreamAway {
			continue // the aggregator detects these itself
		}
		c := hits.Condition{Alert: e.Alert, Severity: e.Labels["severity"], Labels: maps.Clone(e.Labels), Detail: e.Annotations["description"], Since: e.StartsAt}
		for _, name := range []string{"alertname", "severity", "node"} {
			delete(c.Labels, name)
		}
		if e.Alert == alertLinesLost {
			c.Count, c.Last = e.Count, e.LastSeen
		}
		out = append(out, c)
	}
	return out
}

// finds returns a digest of each rule that is not off.
func (rs *ruleset) finds() map[string]string {
	rs.digests.Do(func() {
		rs.digest = make(map[string]string, len(rs.set.Rules))
		for _, r := range rs.set.Rules {
			if r.Mode != rules.ModeOff {
				rs.digest[r.Alert] = r.MatchHash()
			}
		}
	})
	return rs.digest
}

// reportedAlerts returns an alert for each condition that agents report.
func reportedAlerts(now time.Time, status []sources.Status) []episodes.Episode {
	var out []episodes.Episode
	for _, s := range status {
		for i, c := range s.Conditions {
			if len(out) == maxReported {
				return append(out, tooManyReported(now, s.Name, len(s.Conditions)-i))
			}
			out = append(out, reportedAlert(c))
		}
	}
	return out
}

func reportedAlert(c sources.Condition) episodes.Episode {
	labels := maps.Clone(c.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels["component"] = "agent" // an alert of the aggregator itself has none
	what, fix := reportAdvice(c)
	on := "On " + nodesText(c.Members)
	if c.Count > 0 {
		on = fmt.Sprintf("%s, %d times in all, newest at %s", on, c.Count, c.Last.UTC().Format(time.RFC3339))
	}
	return selfAlert(c.Alert, c.Severity, labels, c.Since, map[string]string{
		"summary":     what + " on " + nodesText(c.Members),
		"description": truncate(fmt.Sprintf("%s. Reported by an agent: %s", on, c.Detail), 1500),
		"remediation": fix,
	})
}

// reportAdvice returns the meaning of a condition and its remediation. It never uses
// text from a node as advice.
func reportAdvice(c sources.Condition) (what, fix string) {
	switch c.Alert {
	case alertLinesLost:
		fix = "Check the log of the agent."
		if text, known := lossTexts[c.Labels["reason"]]; known {
			fix = text.fix
		}
		return "Log lines were lost before they were read", fix
	case alertPackBroken:
		return "The newest version of a rule pack was refused", "Run `crowsnest check rules` and `crowsnest test rules` on the pack and correct it. Its last good version stays in force."
	case alertQuarantined:
		return "A rule is quarantined and no longer evaluated", "Add a `contains` text that occurs in few lines, or narrow `from`. A changed version of the rule or a restart of the agent tries it again."
	case alertTwoAggregators:
		return "Two aggregators answer the agents", adviceTwoAggregators
	case alertStateNotSaved:
		return "The state of an agent is not saved", "Check whether the folder of storage.path is full or read-only on these nodes. After a restart the agent reads older lines again."
	}
	return "An agent reports " + c.Alert, "Check the status page and the log of the agent on one of these nodes."
}

const adviceTwoAggregators = "Stop all aggregators but one. Each of them receives only some of the lines, so failures are missed, or raised and resolved wrongly. Check for more than one replica, a strategy other than Recreate, and a second Deployment that the Service selects."

func tooManyReported(now time.Time, source string, more int) episodes.Episode {
	return selfAlert("CrowsnestAgentsReportMore", "warning", map[string]string{"source": source}, now, map[string]string{
		"summary":     fmt.Sprintf("Agents report %d more conditions; only the first have their own alert", more),
		"description": "The Sources page lists the conditions that each agent reports.",
		"remediation": "Resolve the other alerts about agents first.",
	})
}

// refusedAlerts returns an alert for each reason for which messages of agents were
// refused. The nodes of these agents may be unknown.
func refusedAlerts(now time.Time, source string, st agents.Stats) []episodes.Episode {
	var out []episodes.Episode
	for _, reason := range agents.Outsiders() {
		last, ok := st.Newest[reason]
		if !ok || now.Sub(last.At) >= refusedFor {
			continue
		}
		from, _, err := net.SplitHostPort(last.From)
		if err != nil {
			from = last.From
		}
		out = append(out, selfAlert(alertAgentsRefused, "warning", map[string]string{"source": source, "reason": reason}, last.At, map[string]string{
			"summary":     "Messages of agents are refused: the logs of their nodes are not watched",
			"description": truncate(fmt.Sprintf("%d messages were refused in total, the newest from %s: %s.", st.Refused[reason], from, last.Why), 1500),
			"remediation": "Find the pod with this address. If it is an agent, correct its sinks.upstream; otherwise find out why it connects to this port.",
		}))
	}
	return out
}

// nodesText names the first nodes and counts the others.
func nodesText(nodes []string) string {
	if len(nodes) == 1 {
		return "node " + nodes[0]
	}
	if n := len(nodes) - nodesNamed; n > 0 {
		return fmt.Sprintf("%d nodes: %s and %d more", len(nodes), strings.Join(nodes[:nodesNamed], ", "), n)
	}
	return fmt.Sprintf("%d nodes: %s", len(nodes), strings.Join(nodes, ", "))
}

// upstreamLog is what was logged about the way to the aggregator.
type upstreamLog struct {
	reason, report string
	at, since      time.Time
}

// logUpstream logs that the aggregator does not take messages: at once when the
// reason changes, and then once a minute until it does.
func (t *transitions) logUpstream(now time.Time, st upstream.Stats) {
	log, last := t.d.component("upstream"), &t.upstream
	switch {
	case st.LastError == "" && last.reason != "":
		log.Info().Str("aggregator", st.Endpoint).Dur("after", now.Sub(last.since)).Msg("the aggregator takes the hits of this agent again")
		last.reason = ""
	case st.LastError != "" && (st.LastReason != last.reason || now.Sub(last.at) >= upstreamLogged || now.Before(last.at)):
		if last.reason == "" {
			last.since = now
		}
		log.Warn().Str("aggregator", st.Endpoint).Str("reason", st.LastReason).Str("error", st.LastError).
			Int("kept_batches", st.Batches).Bool("reading_waits", st.Blocked).Msg("the aggregator does not accept the hits of this agent")
		last.reason, last.at = st.LastReason, now
	}
	if st.ReportError != last.report {
		if last.report = st.ReportError; last.report != "" {
			log.Warn().Str("error", st.ReportError).Msg("the aggregator does not accept the reports of this agent")
		}
	}
}
