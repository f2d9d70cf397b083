package monitor

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"crowsnest/agent/client"
	"crowsnest/agent/server"
	"crowsnest/agent/wire"
	"crowsnest/daemon/component"
	"crowsnest/episodes"
	"crowsnest/internal/text"
	"crowsnest/sources"
)

// Only an agent knows its own problems, and it often has no Alertmanager. So the agent reports its alerts to the
// aggregator, which fires one alert for all nodes with the same problem.

// Names of the alerts of agents and about agents.
const (
	alertUpstreamAway = "CrowsnestUpstreamAway"
	alertAgentRefused = "CrowsnestAgentRefused"
	// alertAgentsRefused fires when messages from unknown senders are refused.
	alertAgentsRefused = "CrowsnestAgentsRefused"
	// alertTwoAggregators is detected by an agent and fired by the aggregators.
	alertTwoAggregators = "CrowsnestTwoAggregators"
	alertRulesDiffer    = "CrowsnestRulesDiffer"
	alertReportMore     = "CrowsnestAgentsReportMore"
)

const (
	maxNodes    = 5
	maxReported = 100
	// twinShown is how long the alert stays open after a second agent of the same node was last seen.
	twinShown = time.Minute
	// refusedShown is how long the alert about a refused message stays open. An agent repeats a refused message every
	// few seconds.
	refusedShown = 5 * time.Minute
	// differFor is how long agents may have another version of a rule, as during a rollout, before an alert fires.
	differFor = 15 * time.Minute
)

// agentAlerts returns an aggregator's alerts about its agents.
func agentAlerts(now time.Time, st State) []episodes.Episode {
	var out []episodes.Episode
	for _, s := range st.Sources {
		for _, name := range slices.Sorted(maps.Keys(s.Members)) {
			if m := s.Members[name]; m.RefusedAt.IsZero() || now.Sub(m.RefusedAt) >= twinShown {
				continue
			}
			out = append(out, newAlert(alertAgentRefused, map[string]string{"source": name}, now))
		}
	}
	out = append(out, reportedAlerts(now, st.Sources, st.Losses)...)
	out = append(out, differAlert(now, st.MismatchedRules)...)
	for source, stats := range st.Agents {
		out = append(out, refusedAlerts(now, source, stats)...)
	}
	return out
}

// Reportable returns the open alerts in the form in which an agent reports them.
func (a *Alerts) Reportable() []wire.Condition { return reportableConditions(a.All()) }

func reportableConditions(alerts []episodes.Episode) []wire.Condition {
	var out []wire.Condition
	for _, e := range alerts {
		if e.Alert == alertHeartbeat || e.Alert == alertUpstreamAway {
			continue // the aggregator detects these problems itself
		}
		c := wire.Condition{Alert: e.Alert, Severity: e.Labels["severity"], Labels: maps.Clone(e.Labels), Detail: e.Annotations["description"], Since: e.StartsAt}
		for _, name := range []string{"alertname", "severity", "node"} {
			delete(c.Labels, name)
		}
		if e.Alert == alertLinesLost {
			c.Count, c.LastSeen = e.Count, e.LastSeen
		}
		out = append(out, c)
	}
	return out
}

func reportedAlerts(now time.Time, status []sources.Status, losses component.Losses) []episodes.Episode {
	var out []episodes.Episode
	for _, s := range status {
		for i, c := range s.Conditions {
			if c.Alert == alertIdle {
				if !reportedIdle(s, c) {
					continue
				}
				if c.Severity == "info" {
					c.Severity = "critical"
				}
			}
			if len(out) == maxReported {
				more := text.Plural(len(s.Conditions)-i, "more condition")
				return append(out, newAlert(alertReportMore, map[string]string{"source": s.Name}, now, "{more}", more))
			}
			out = append(out, reportedAlert(c, losses))
		}
	}
	return out
}

func reportedAlert(c sources.Condition, losses component.Losses) episodes.Episode {
	labels := map[string]string{}
	maps.Copy(labels, c.Labels)
	labels["component"] = "agent" // distinguishes it from alerts of the aggregator about itself, which lack this label
	what, fix := reportAdvice(c, losses)
	on := "On " + nodesText(c.Members)
	if c.Count > 0 {
		on = fmt.Sprintf("%s, %s in all, newest at %s", on, text.Plural(c.Count, "time"), formatTime(c.LastSeen))
	}
	return newAnnotated(c.Alert, c.Severity, labels, c.Since, map[string]string{
		"summary": what + " on " + nodesText(c.Members), "remediation": fix,
		"description": text.Shorten(fmt.Sprintf("%s. Reported by an agent: %s", on, c.Detail), maxText),
	})
}

// reportAdvice returns the meaning of a condition that an agent reported, and the remedy. It contains no text that the
// agent sent.
func reportAdvice(c sources.Condition, losses component.Losses) (what, fix string) {
	t := alertTexts()[c.Alert]
	what = cmp.Or(t.Reported, "An agent reports "+c.Alert)
	switch c.Alert {
	case alertLinesLost:
		fix = losses[c.Labels["reason"]].Fix
	case alertIdle:
		fix = idleFixes[sources.IdleReason(c.Labels["reason"])]
	}
	return what, cmp.Or(fix, t.ReportedFix, "Check the status page and the log of the agent on one of these nodes.")
}

// refusedAlerts returns an alert for each reason for which messages of agents were refused.
func refusedAlerts(now time.Time, source string, st server.Stats) []episodes.Episode {
	var out []episodes.Episode
	for _, reason := range server.UnknownNodeReasons() {
		last, ok := st.NewestRefused[reason]
		if !ok || now.Sub(last.Time) >= refusedShown {
			continue
		}
		from, _, err := net.SplitHostPort(last.Sender)
		if err != nil {
			from = last.Sender
		}
		out = append(out, newAlert(alertAgentsRefused, map[string]string{"source": source, "reason": reason}, last.Time,
			"{messages}", text.Plural(st.RefusedMessages[reason], "message"), "{from}", from, "{why}", last.Reason))
	}
	return out
}

// differAlert returns the alert for rules that have had different versions on agents and aggregator for longer than
// differFor.
func differAlert(now time.Time, behind map[string]sources.RuleMismatch) []episodes.Episode {
	var late, nodes []string
	since := now
	for _, rule := range slices.Sorted(maps.Keys(behind)) {
		b := behind[rule]
		if now.Sub(b.Since) < differFor {
			continue
		}
		late, nodes = append(late, rule), append(nodes, b.Members...)
		if b.Since.Before(since) {
			since = b.Since
		}
	}
	if len(late) == 0 {
		return nil
	}
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	return []episodes.Episode{newAlert(alertRulesDiffer, nil, since, "{rules}", text.Plural(len(late), "rule"),
		"{nodes}", nodesText(nodes), "{since}", formatTime(since), "{names}", strings.Join(late, ", "))}
}

// BehindText explains to people why conclusions from the absence of a rule's lines are on hold.
func BehindText(b sources.RuleMismatch) string {
	return fmt.Sprintf("%s has another version of it since %s", nodesText(b.Members), formatTime(b.Since))
}

// UpstreamAlerts returns an agent's alerts about its aggregator.
func (a *Alerts) UpstreamAlerts(now time.Time, st client.Stats) []episodes.Episode {
	var out []episodes.Episode
	since := a.NoteAnswer(st.LastAnswer)
	if st.Refused || st.LastError != "" && a.longSince(now, since) {
		out = append(out, newAlert(alertUpstreamAway, nil, since, "{since}", formatTime(since), "{error}", st.LastError,
			"{bytes}", strconv.Itoa(client.DefaultMaxUnacked)))
	}
	if !st.TwoAggregatorsSince.IsZero() {
		out = append(out, newAlert(alertTwoAggregators, nil, st.TwoAggregatorsSince, "{endpoint}", st.Endpoint))
	}
	return out
}

// nodesText returns the names of the first nodes and the number of the remaining nodes.
func nodesText(nodes []string) string {
	if len(nodes) == 1 {
		return "node " + nodes[0]
	}
	if n := len(nodes) - maxNodes; n > 0 {
		return fmt.Sprintf("%d nodes: %s and %d more", len(nodes), strings.Join(nodes[:maxNodes], ", "), n)
	}
	return fmt.Sprintf("%d nodes: %s", len(nodes), strings.Join(nodes, ", "))
}
