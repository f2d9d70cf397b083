package monitor

import (
	"fmt"
	"maps"
	"net"
	"slices"
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

// Only an agent knows its own problems, and it often has no Alertmanager. It reports its alerts
// to the aggregator, which fires one alert for all nodes.

// Alerts of agents and about agents.
const (
	alertUpstreamAway = "CrowsnestUpstreamAway"
	alertAgentRefused = "CrowsnestAgentRefused"
	// alertAgentsRefused is about messages from unknown senders.
	alertAgentsRefused = "CrowsnestAgentsRefused"
	// An agent detects alertTwoAggregators, and the aggregators fire it.
	alertTwoAggregators = "CrowsnestTwoAggregators"
	alertRulesDiffer    = "CrowsnestRulesDiffer"
	alertReportMore     = "CrowsnestAgentsReportMore"
)

const (
	maxNodes    = 5
	maxReported = 100
	// twinShown is how long the alert about a second agent of a node stays open.
	twinShown = time.Minute
	// refusedShown is how long the alert about a refused message stays open. Agents repeat it every few seconds.
	refusedShown = 5 * time.Minute
	// differFor is how long a rollout may take before there is an alert.
	differFor = 15 * time.Minute
)

// agentAlerts returns an aggregator's alerts about its agents.
func agentAlerts(now time.Time, st State) []episodes.Episode {
	var out []episodes.Episode
	for _, s := range st.Sources {
		for _, name := range slices.Sorted(maps.Keys(s.Members)) {
			if m := s.Members[name]; m.Refused.IsZero() || now.Sub(m.Refused) >= twinShown {
				continue
			}
			out = append(out, newAlert(alertAgentRefused, "warning", map[string]string{"source": name}, now, texts{
				"Two agents use the name " + name,
				"The second one is refused as long as the first one is connected: the logs that it reads are not watched.",
				"Give each agent a unique name (sinks.upstream.node, or NODE_NAME from spec.nodeName), and run one agent per node.",
			}))
		}
	}
	out = append(out, reportedAlerts(now, st.Sources, st.Losses)...)
	out = append(out, differAlert(now, st.Behind)...)
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
			continue // the aggregator detects these itself
		}
		c := wire.Condition{Alert: e.Alert, Severity: e.Labels["severity"], Labels: maps.Clone(e.Labels), Detail: e.Annotations["description"], Since: e.StartsAt}
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
				return append(out, newAlert(alertReportMore, "warning", map[string]string{"source": s.Name}, now, texts{
					fmt.Sprintf("Agents report %s; only the first have their own alert", text.Plural(len(s.Conditions)-i, "more condition")),
					"The Sources page lists the conditions that each agent reports.",
					"Resolve the other alerts about agents first.",
				}))
			}
			out = append(out, reportedAlert(c, losses))
		}
	}
	return out
}

func reportedAlert(c sources.Condition, losses component.Losses) episodes.Episode {
	labels := map[string]string{}
	maps.Copy(labels, c.Labels)
	labels["component"] = "agent" // alerts of the aggregator about itself do not have this label
	what, fix := reportAdvice(c, losses)
	on := "On " + nodesText(c.Members)
	if c.Count > 0 {
		on = fmt.Sprintf("%s, %s in all, newest at %s", on, text.Plural(c.Count, "time"), formatTime(c.Last))
	}
	return newAlert(c.Alert, c.Severity, labels, c.Since, texts{
		what + " on " + nodesText(c.Members), fmt.Sprintf("%s. Reported by an agent: %s", on, c.Detail), fix,
	})
}

// reportAdvice returns what a reported condition means and what to do. It uses no text from a node.
func reportAdvice(c sources.Condition, losses component.Losses) (what, fix string) {
	switch c.Alert {
	case alertLinesLost:
		fix = "Check the log of the agent."
		if text, known := losses[c.Labels["reason"]]; known {
			fix = text.Fix
		}
		return "Log lines were lost before crowsnest read them", fix
	case alertPackBroken:
		return "The newest version of a rule pack was refused", "Run `crowsnest check rules` and `crowsnest test rules` on the pack and correct it. Its last valid version stays active."
	case alertQuarantined:
		return "A rule is quarantined and no longer evaluated", "Add a `contains` text that occurs in few lines, or narrow `from`. A changed version of the rule or a restart of the agent tries it again."
	case alertIdle:
		fix = "Check the status page and the log of the agent on one of these nodes."
		if text, known := idleFixes[sources.IdleReason(c.Labels["reason"])]; known {
			fix = text
		}
		return "A source has nothing to read that a rule can match", fix
	case alertLogsUnread:
		return "Some logs are not read", "Check the files, their permissions and their disks on these nodes. Lines that are still there are read as soon as the log can be read."
	case alertTwoAggregators:
		return "Two aggregators answer the agents", adviceTwoAggregators
	case alertStateNotSaved:
		return "The state of an agent is not saved", "Check whether the folder of storage.path is full or read-only on these nodes. After a restart the agent reads older lines again."
	}
	return "An agent reports " + c.Alert, "Check the status page and the log of the agent on one of these nodes."
}

const adviceTwoAggregators = "Stop all aggregators but one. Each of them receives only some of the lines, so failures are missed, or raised and resolved wrongly. Check for more than one replica, a strategy other than Recreate, and a second Deployment that the Service selects."

// refusedAlerts returns an alert for each reason for which messages of agents were refused.
func refusedAlerts(now time.Time, source string, st server.Stats) []episodes.Episode {
	var out []episodes.Episode
	for _, reason := range server.Outsiders() {
		last, ok := st.Newest[reason]
		if !ok || now.Sub(last.At) >= refusedShown {
			continue
		}
		from, _, err := net.SplitHostPort(last.From)
		if err != nil {
			from = last.From
		}
		out = append(out, newAlert(alertAgentsRefused, "warning", map[string]string{"source": source, "reason": reason}, last.At, texts{
			"Messages from agents are refused: the logs of their nodes are not watched",
			fmt.Sprintf("%s refused in total, the newest from %s: %s.", text.Plural(st.Refused[reason], "message"), from, last.Why),
			"Find the pod with this address. If it is an agent, correct its sinks.upstream; otherwise find out why it connects to this port.",
		}))
	}
	return out
}

// differAlert returns the alert about rules whose version has differed on agents for too long.
func differAlert(now time.Time, behind map[string]sources.Behind) []episodes.Episode {
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
	return []episodes.Episode{newAlert(alertRulesDiffer, "warning", nil, since, texts{
		fmt.Sprintf("The aggregator has another version of %s than %s", text.Plural(len(late), "rule"), nodesText(nodes)),
		fmt.Sprintf("Since %s, these rules do not conclude anything from missing lines: %s.", formatTime(since), strings.Join(late, ", ")),
		"Look whether the agents of these nodes have the same version of crowsnest, the same rules and the same overrides as the aggregator, and whether one of them refused a pack.",
	})}
}

// BehindText explains to people why the absence-based conclusions of a rule are on hold.
func BehindText(b sources.Behind) string {
	return fmt.Sprintf("%s has another version of it since %s", nodesText(b.Members), formatTime(b.Since))
}

// UpstreamAlerts returns an agent's alerts about its aggregator.
func (a *Alerts) UpstreamAlerts(now time.Time, st client.Stats) []episodes.Episode {
	var out []episodes.Episode
	since := a.NoteAnswer(st.LastAnswer)
	if st.Refused || st.LastError != "" && a.longSince(now, since) {
		out = append(out, newAlert(alertUpstreamAway, "critical", nil, since, texts{
			"The aggregator does not accept the hits of this agent",
			fmt.Sprintf("Since %s: %s. The agent keeps up to %d bytes, then stops reading; no line is lost while the logs are on the node.",
				formatTime(since), st.LastError, client.DefaultMaxUnacked),
			"Check the aggregator, and sinks.upstream of this agent.",
		}))
	}
	if !st.Twofold.IsZero() {
		out = append(out, newAlert(alertTwoAggregators, "critical", nil, st.Twofold, texts{
			"Two aggregators answer the agents",
			"Two processes answer at " + st.Endpoint + " at the same time.",
			adviceTwoAggregators,
		}))
	}
	return out
}

// nodesText names the first nodes and the number of the others.
func nodesText(nodes []string) string {
	if len(nodes) == 1 {
		return "node " + nodes[0]
	}
	if n := len(nodes) - maxNodes; n > 0 {
		return fmt.Sprintf("%d nodes: %s and %d more", len(nodes), strings.Join(nodes[:maxNodes], ", "), n)
	}
	return fmt.Sprintf("%d nodes: %s", len(nodes), strings.Join(nodes, ", "))
}
