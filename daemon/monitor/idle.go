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

// alertIdle fires for a source that works and in which nothing can be found.
const alertIdle = "CrowsnestIdle"

// rulesEvery is how often streams are compared with rules while no rule selects one.
const rulesEvery = 15 * time.Second

// Reading is what the daemon knows about a source besides its status.
type Reading struct {
	// Logs means that the source reads logs, and Lines that it has lines before long.
	Logs, Lines bool
	// Serves reports whether the source can have streams that a selector selects; nil means
	// any.
	Serves func(rules.Selector) bool
}

// idle is why a source has nothing to read.
type idle struct {
	reason sources.IdleReason
	why    string
}

// ruled remembers whether an active rule can match lines of a source.
type ruled struct {
	set   *rules.Set
	ok    bool
	again time.Time // when to compare again; the zero time means only with other rules
}

// idleFixes are the remedies of each reason.
var idleFixes = map[sources.IdleReason]string{
	sources.IdleNotInstalled: "Install what the source watches, or remove the source from the configuration.",
	sources.IdleNoLogs:       "Correct what the source selects: folder, paths, include, exclude, namespaces, selector or tenant. `crowsnest get sources` shows what it reads.",
	sources.IdleUnreadable:   "Let the source read the files themselves. With cri-dockerd the logs in /var/log/pods are links, so read /var/lib/docker/containers/*/*-json.log with the source files.",
	sources.IdleNoLines:      "Check what the source selects, and that the programs write to these logs. If they are silent for a long time by design, silence this alert. The first line resolves it, and it does not fire again.",
	sources.IdleNoRules:      "Correct the selectors of the rules, rules.scope and rules.infrastructure_namespaces, enable rules, or remove the source from the configuration.",
}

// explainIdle sets why sources have nothing to read, and remembers it. The caller holds mu.
func (a *Alerts) explainIdle(now time.Time, st State, status []sources.Status) {
	a.why, a.unsure = map[string]idle{}, map[string]bool{}
	for i := range status {
		s := &status[i]
		switch {
		case !s.Up && s.Opened: // the source is blind now
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
		if x := a.idleBecause(now, st, *s); x != (idle{}) {
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
			a.why[s.Name] = idle{s.IdleReason, s.Idle}
		}
	}
}

// isUnsure reports whether this process has begun so recently that it is not known what a
// source that is up can read: its logs are being opened. Until then it is what it was for the
// previous process. The caller holds mu.
func (a *Alerts) isUnsure(now time.Time, st State, s sources.Status) bool {
	return now.Sub(a.start) < settle && s.Idle == "" && !isMember(s.Name) && s.Members == nil &&
		(!s.Opened || st.Readings[s.Name].Logs && len(s.Streams) > 0 && !slices.ContainsFunc(s.Streams, isKnown))
}

// isKnown reports whether it is known what a log is.
func isKnown(x sources.StreamStatus) bool { return len(x.Labels) > 0 || x.Path == "" }

// idleBecause returns why a source that is up has nothing to read, beyond what the source
// itself reports. The caller holds mu.
func (a *Alerts) idleBecause(now time.Time, st State, s sources.Status) idle {
	reading, known := st.Readings[s.Name]
	switch {
	case st.Rules == nil || !known:
		return idle{}
	case !slices.ContainsFunc(st.Rules.Rules, func(r *rules.Rule) bool { return r.Mode != rules.ModeOff }):
		return idle{sources.IdleNoRules, fmt.Sprintf("none of the %d rules is active", len(st.Rules.Rules))}
	case refusesAll(s):
		return idle{sources.IdleUnreadable, fmt.Sprintf("all of its logs are refused, such as %s: %s", s.Unread[0].Path, s.Unread[0].Why)}
	case s.Idle != "":
		return idle{}
	case !a.ruled(now, st.Rules, reading, s):
		if len(s.Streams) > 0 {
			return idle{sources.IdleNoRules, fmt.Sprintf("no active rule selects any of its logs (%d)", len(s.Streams))}
		}
		return idle{sources.IdleNoRules, "no active rule selects what it reads"}
	}
	return idle{}
}

// refusesAll reports whether the source has logs and is not permitted to read any of them.
func refusesAll(s sources.Status) bool {
	return len(s.Unread) > 0 && s.Lines == 0 &&
		!slices.ContainsFunc(s.Unread, func(u sources.Unread) bool { return u.Holds }) &&
		!slices.ContainsFunc(s.Streams, func(x sources.StreamStatus) bool { return x.Size > 0 || x.Offset > 0 })
}

// ruled reports whether an active rule can match lines of the source. The caller holds mu.
func (a *Alerts) ruled(now time.Time, set *rules.Set, reading Reading, s sources.Status) bool {
	last := a.rules[s.Name]
	if last.set == set && (last.again.IsZero() || now.Before(last.again)) {
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
	last = ruled{set: set, ok: ok}
	if !ok || reading.Logs && !byStream {
		last.again = now.Add(rulesEvery)
	}
	a.rules[s.Name] = last
	return ok
}

// hadLines reports whether a source, or its predecessor in an earlier process, had a line.
// The caller holds mu.
func (a *Alerts) hadLines(s sources.Status) bool {
	if !a.lined[s.Name] && (s.Lines > 0 || slices.ContainsFunc(s.Streams, func(x sources.StreamStatus) bool { return x.Offset > 0 })) {
		a.lined[s.Name], a.changed = true, true
	}
	return a.lined[s.Name]
}

// Idle returns why a source has nothing to read, according to the last Update; "" if it has
// something.
func (a *Alerts) Idle(source string) (why string, reason sources.IdleReason) {
	a.mu.Lock()
	defer a.mu.Unlock()
	x := a.why[source]
	return x.why, x.reason
}

// idleAlerts returns an alert for each source that has had nothing to read for blindAfter.
// An agent cannot know whether that is normal: a node may have no log that a rule selects,
// while others have. The aggregator decides it, see reportedIdle. The caller holds mu.
func (a *Alerts) idleAlerts(now time.Time, status []sources.Status, agent bool) []episodes.Episode {
	var out []episodes.Episode
	seen := slices.ContainsFunc(status, func(s sources.Status) bool { return a.sees(now, s) })
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
		out = append(out, alert(alertIdle, severity, map[string]string{"source": s.Name, "reason": string(s.IdleReason)}, since, texts{
			"Source " + s.Name + " is idle: it has nothing to read that a rule can match",
			fmt.Sprintf("Since %s: %s. %s", stamp(since), s.Idle, effect),
			idleFixes[s.IdleReason],
		}))
	}
	return out
}

// IdleEverywhere explains why every source of this process has nothing to read, according to
// the last Update; "" if one has something.
func (a *Alerts) IdleEverywhere() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.idleAll
}

// whyAllIdle returns why the first source is idle if all are, else "".
func whyAllIdle(status []sources.Status) string {
	if len(status) == 0 || slices.ContainsFunc(status, func(s sources.Status) bool { return s.Idle == "" }) {
		return ""
	}
	return status[0].Name + ": " + status[0].Idle
}

// membersIdle returns why a source has nothing to read because none of its members that are
// up has; "" if one has something.
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

// idleOnAll names the sources of agents that are idle on every node that is up, once each.
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

// idleMembers counts the members that are up and have nothing to read.
func idleMembers(s sources.Status) int {
	n := 0
	for _, m := range s.Members {
		if m.Up && m.Idle != "" {
			n++
		}
	}
	return n
}

// reportedIdle reports whether a source that agents report as idle is a failure. A node
// without a log that a rule selects is normal as long as another node has one, but a node
// whose logs are all refused is not.
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
