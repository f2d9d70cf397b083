package monitor

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"crowsnest/episodes"
	"crowsnest/rules"
	"crowsnest/sources"
)

// alertIdle fires for a source that works but reads no logs that any rule applies to.
const alertIdle = "CrowsnestIdle"

// rulesEvery is the interval at which streams are compared with rules while no rule selects any of the streams.
const rulesEvery = 15 * time.Second

// Reading contains what the daemon knows about a source and the status of the source does not state.
type Reading struct {
	// Logs means that the source reads logs. Lines means that the source should deliver lines soon after the start.
	Logs, Lines bool
	// Serves reports whether a selector can select a stream of the source. A nil function means that every selector
	// can.
	Serves func(rules.Selector) bool
}

type idleState struct {
	reason sources.IdleReason
	why    string
}

// ruleCheck is the result of comparing the streams of a source with the active rules.
type ruleCheck struct {
	set       *rules.Set
	ok        bool
	compareAt time.Time // time of the next comparison; zero if only a change of the rules causes it
}

var idleFixes = map[sources.IdleReason]string{
	sources.IdleNotInstalled: "Install what the source watches, or remove the source from the configuration.",
	sources.IdleNoLogs:       "Correct what the source selects: folder, paths, include, exclude, namespaces, selector or tenant. `crowsnest get sources` shows what it reads.",
	sources.IdleUnreadable:   "Let the source read the files themselves. With cri-dockerd the logs in /var/log/pods are links, so read /var/lib/docker/containers/*/*-json.log with the source files.",
	sources.IdleNoLines:      "Check what the source selects, and that the programs write to these logs. If they are silent for a long time by design, silence this alert. The first line resolves it, and it does not fire again.",
	sources.IdleNoRules:      "Correct the selectors of the rules, rules.scope and rules.infrastructure_namespaces, enable rules, or remove the source from the configuration.",
}

// explainIdle finds and stores the reasons why sources have nothing to read. The caller must hold mu.
func (a *Alerts) explainIdle(now time.Time, st State, status []sources.Status) {
	a.idleStates, a.unsure = map[string]idleState{}, map[string]bool{}
	for i := range status {
		s := &status[i]
		switch {
		case !s.Up && s.Opened: // the source was opened and is down now, so another alert fires
			delete(a.idle, s.Name)
			continue
		case !s.Up:
			continue
		case a.isUnsure(now, st, *s):
			a.unsure[s.Name] = true
			continue
		}
		s.IdleReason = cmp.Or(s.IdleReason, sources.IdleNotInstalled)
		waiting := false
		if x := a.idleBecause(now, st, *s); x != (idleState{}) {
			s.Idle, s.IdleReason = x.why, x.reason
		} else if s.Idle == "" {
			waiting = st.Readings[s.Name].Lines && !a.hadLines(*s)
		}
		if s.Idle == "" && !waiting {
			if _, was := a.idle[s.Name]; was {
				delete(a.idle, s.Name)
				a.changed = true
			}
			continue
		}
		since, known := a.idle[s.Name]
		if !known {
			since = now
			a.idle[s.Name], a.changed = now, true
		}
		if waiting && a.longSince(now, since) {
			s.Idle, s.IdleReason = "it has never had a line", sources.IdleNoLines
			if n := len(s.Streams); n > 0 {
				s.Idle = fmt.Sprintf("none of its logs (%d) has ever had a line", n)
			}
		}
		if s.Idle != "" {
			a.idleStates[s.Name] = idleState{s.IdleReason, s.Idle}
		}
	}
}

// isUnsure reports whether this process began so recently that the logs of a source that is up are still being opened.
// Until they are open, the idle state that the previous process saved is used. The caller must hold mu.
func (a *Alerts) isUnsure(now time.Time, st State, s sources.Status) bool {
	return now.Sub(a.start) < settle && s.Idle == "" && !isMember(s.Name) && s.Members == nil &&
		(!s.Opened || st.Readings[s.Name].Logs && len(s.Streams) > 0 && !slices.ContainsFunc(s.Streams, isKnown))
}

// isKnown reports whether the log of a stream has been identified.
func isKnown(x sources.StreamStatus) bool { return len(x.Labels) > 0 || x.Path == "" }

// idleBecause returns why a source that is up has nothing to read. The result is empty if the source states the reason
// itself or is not idle.
func (a *Alerts) idleBecause(now time.Time, st State, s sources.Status) idleState {
	reading, known := st.Readings[s.Name]
	switch {
	case st.Rules == nil || !known:
		return idleState{}
	case !slices.ContainsFunc(st.Rules.Rules, func(r *rules.Rule) bool { return r.Mode != rules.ModeOff }):
		return idleState{sources.IdleNoRules, fmt.Sprintf("none of the %d rules is active", len(st.Rules.Rules))}
	case refusesAll(s):
		return idleState{sources.IdleUnreadable, fmt.Sprintf("all of its logs are refused, such as %s: %s", s.Unread[0].Path, s.Unread[0].Reason)}
	case s.Idle != "":
		return idleState{}
	case !a.hasRules(now, st.Rules, reading, s):
		if len(s.Streams) > 0 {
			return idleState{sources.IdleNoRules, fmt.Sprintf("no active rule selects any of its logs (%d)", len(s.Streams))}
		}
		return idleState{sources.IdleNoRules, "no active rule selects what it reads"}
	}
	return idleState{}
}

// refusesAll reports whether the source has logs but is not allowed to read any of them.
func refusesAll(s sources.Status) bool {
	return len(s.Unread) > 0 && s.Lines == 0 &&
		!slices.ContainsFunc(s.Unread, func(u sources.UnreadLog) bool { return u.Holds }) &&
		!slices.ContainsFunc(s.Streams, func(x sources.StreamStatus) bool { return x.Size > 0 || x.Offset > 0 })
}

// hasRules reports whether an active rule can match lines of the source. The caller must hold mu.
func (a *Alerts) hasRules(now time.Time, set *rules.Set, reading Reading, s sources.Status) bool {
	last := a.rules[s.Name]
	if last.set == set && (last.compareAt.IsZero() || now.Before(last.compareAt)) {
		return last.ok
	}
	streams := slices.DeleteFunc(slices.Clone(s.Streams), func(x sources.StreamStatus) bool { return !isKnown(x) })
	byStream := reading.Logs && len(streams) > 0
	ok := slices.ContainsFunc(set.Rules, func(r *rules.Rule) bool {
		if r.Mode == rules.ModeOff {
			return false
		}
		if byStream {
			return slices.ContainsFunc(streams, func(x sources.StreamStatus) bool { return set.Reads(r, x.Labels, false) })
		}
		for from := range r.Selectors() {
			if reading.Serves == nil || reading.Serves(from) {
				return true
			}
		}
		return false
	})
	last = ruleCheck{set: set, ok: ok}
	if !ok || reading.Logs && !byStream {
		last.compareAt = now.Add(rulesEvery)
	}
	a.rules[s.Name] = last
	return ok
}

// hadLines reports whether a source has ever had a line. The caller must hold mu.
func (a *Alerts) hadLines(s sources.Status) bool {
	if !a.lined[s.Name] && (s.Lines > 0 || slices.ContainsFunc(s.Streams, func(x sources.StreamStatus) bool { return x.Offset > 0 })) {
		a.lined[s.Name], a.changed = true, true
	}
	return a.lined[s.Name]
}

// WhyIdle returns why a source had nothing to read at the last Update, or "" if it had something.
func (a *Alerts) WhyIdle(source string) (why string, reason sources.IdleReason) {
	a.mu.Lock()
	defer a.mu.Unlock()
	x := a.idleStates[source]
	return x.why, x.reason
}

// idleAlerts returns an alert for each source that has had nothing to read for blindAfter. An agent returns no such
// alerts, because its node may have no log that a rule selects while other nodes have such logs. The aggregator decides
// about the sources of agents; see reportedIdle. The caller must hold mu.
func (a *Alerts) idleAlerts(now time.Time, status []sources.Status, agent bool) []episodes.Episode {
	var out []episodes.Episode
	seen := slices.ContainsFunc(status, func(s sources.Status) bool { return a.isSeeing(now, s) })
	for _, s := range status {
		since, known := a.idle[s.Name]
		if s.Idle == "" || !known || !a.longSince(now, since) {
			continue
		}
		severity := "critical"
		switch {
		case s.IdleReason == sources.IdleUnreadable:
		case agent && s.IdleReason != sources.IdleNotInstalled:
			severity = "info"
		case seen && (s.IdleReason == sources.IdleNotInstalled || s.IdleReason == sources.IdleNoRules):
			severity = "warning"
		}
		effect := "Nothing is detected."
		if seen {
			effect = "Failures in this source are not detected; the other sources work."
		}
		labels := map[string]string{"source": s.Name, "reason": string(s.IdleReason), "severity": severity}
		out = append(out, newAlert(alertIdle, labels, since, "{since}", formatTime(since), "{idle}", s.Idle,
			"{effect}", effect, "{fix}", idleFixes[s.IdleReason]))
	}
	return out
}

// IdleEverywhere returns why all sources had nothing to read at the last Update, or "" if one of them had something.
func (a *Alerts) IdleEverywhere() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.idleAll
}

// whyAllIdle returns why the first source is idle if all sources are idle, and "" otherwise.
func whyAllIdle(status []sources.Status) string {
	if len(status) == 0 || slices.ContainsFunc(status, func(s sources.Status) bool { return s.Idle == "" }) {
		return ""
	}
	return status[0].Name + ": " + status[0].Idle
}

// membersIdle returns why all members that are up have nothing to read, or "" if one has something.
func membersIdle(s sources.Status) string {
	up, why := 0, ""
	for _, m := range s.Members {
		if m.Up && m.Idle == "" {
			return ""
		}
		if m.Up {
			up, why = up+1, max(why, m.Idle)
		}
	}
	if up == 0 {
		return ""
	}
	return fmt.Sprintf("the agents of all %d nodes have nothing to read (%s)", up, why)
}

// idleOnAll returns the names of the sources that are idle in every agent that is up.
func idleOnAll(s sources.Status) []string {
	var out []string
	for _, c := range s.Conditions {
		name := s.Name + " " + c.Labels["source"] + " on every node"
		if c.Alert == alertIdle && reportedIdle(s, c) && !slices.Contains(out, name) && sources.IdleReason(c.Labels["reason"]) != sources.IdleNotInstalled {
			out = append(out, name)
		}
	}
	return out
}

func idleMembers(s sources.Status) int {
	n := 0
	for _, m := range s.Members {
		if m.Up && m.Idle != "" {
			n++
		}
	}
	return n
}

// reportedIdle reports whether an idle source that an agent reports is a failure. A node may have no log that a rule
// selects, as long as another node has such a log. Logs that the agent is not allowed to read are always a failure.
func reportedIdle(s sources.Status, c sources.Condition) bool {
	switch sources.IdleReason(c.Labels["reason"]) {
	case sources.IdleUnreadable, sources.IdleNotInstalled:
		return true
	}
	idle := map[string]bool{} // agents whose source of this name is idle
	for _, other := range s.Conditions {
		if other.Alert == alertIdle && other.Labels["source"] == c.Labels["source"] {
			for _, node := range other.Members {
				idle[node] = true
			}
		}
	}
	up := 0
	for _, m := range s.Members {
		if m.Up {
			up++
		}
	}
	return len(idle) >= up
}
