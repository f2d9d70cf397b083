package server

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"crowsnest/agent/wire"
	"crowsnest/internal/times"
	"crowsnest/rules"
	"crowsnest/sources"
)

// endedFor is the time for which a condition is shown that had already ended when the agent reported it.
const endedFor = 15 * time.Minute

// maxDetailed is the number of nodes whose details are shown for a condition.
const maxDetailed = 3

// alertBlind is the name of the condition that says why an agent does not read its logs. It is
// shown in the state of the node, and not in Conditions.
const alertBlind = "CrowsnestBlind"

// condition is a condition of a node, with the time at which it was last reported.
type condition struct {
	wire.Condition
	Reported time.Time `json:"reported"`
}

func (h *handler) handleReport(_ context.Context, body []byte, who *caller) (any, *refusal) {
	r, err := wire.ReadReport(body)
	if err != nil {
		return nil, &refusal{http.StatusBadRequest, refusedMalformed, err}
	}
	if why := who.checkNode(r.Node); why != nil {
		return nil, why
	}
	if why := h.setUnread(&r); why != nil {
		return nil, why
	}
	if ingest := h.s.onComplaints.Load(); ingest != nil {
		if err := (*ingest)(h.s.memberName(r.Node), r.Complaints); err != nil {
			return nil, &refusal{http.StatusBadRequest, refusedMalformed, err}
		}
	}
	answer, why := h.s.acceptReport(&r, wire.Digest(body), h.p.Rules())
	if why == nil {
		h.saveSource(func() {})
	}
	return answer, why
}

func (s *Source) reportingNode(r *wire.Report) (*node, *refusal) {
	n := s.nodes[r.Node]
	if n == nil || n.instance != r.Instance {
		return nil, &refusal{http.StatusConflict, refusedConflict, fmt.Errorf("another agent sends for node %s, or none has sent yet", r.Node)}
	}
	return n, nil
}

// setUnread records the selectors for which an agent has no streams. It must be called before
// acceptReport, because acceptReport makes decisions depend on the agent's watermark.
func (h *handler) setUnread(r *wire.Report) *refusal {
	s := h.s
	s.mu.Lock()
	n, why := s.reportingNode(r)
	s.mu.Unlock()
	if why != nil {
		return why
	}
	n.busy.Lock() // prevents the removal of the node during the call
	defer n.busy.Unlock()
	changed := false
	s.withLock(func() {
		if n, why = s.reportingNode(r); why == nil {
			unread := slices.Sorted(slices.Values(r.UnservedSelectors))
			changed = !slices.Equal(n.unread, unread)
			n.unread = unread
		}
	})
	if changed {
		h.p.AddMember(s.memberName(r.Node))
	}
	return why
}

func (s *Source) acceptReport(r *wire.Report, digest string, set *rules.Set) (wire.ReportAnswer, *refusal) {
	now := s.cfg.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	n, why := s.reportingNode(r)
	if why != nil {
		return wire.ReportAnswer{}, why
	}
	before := n.conditions
	n.conditions = make(map[string]condition, len(r.Conditions))
	for _, c := range r.Conditions {
		// A time in the future would make the condition the newest one for a long time.
		c.LastSeen = times.Min(c.LastSeen, now)
		n.conditions[c.Key()] = condition{c, now}
	}
	for key, c := range n.conditions {
		addCapped(&s.stats.Losses, c.Count-before[key].Count)
	}
	for key, c := range before {
		if _, again := n.conditions[key]; !again && c.Ended && now.Sub(c.Reported) < endedFor {
			n.conditions[key] = c
		}
	}
	n.digest, n.clockSetAhead, n.idle = digest, r.ClockSet, r.Idle
	if !maps.Equal(n.rules, r.Rules) {
		n.rules, s.rollout.stale = r.Rules, true
	}
	s.compareRules(set)
	return wire.ReportAnswer{Report: s.reportToken(n), MismatchedRules: s.rulesBehind(n)}, nil
}

// conditions returns the conditions of all nodes. Equal conditions are merged, with the names
// of their nodes. The caller holds mu.
func (s *Source) conditions(now time.Time) []sources.Condition {
	all := map[string]*sources.Condition{}
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		for key, c := range s.nodes[name].conditions {
			if c.Alert == alertBlind || c.Ended && now.Sub(c.Reported) >= endedFor {
				continue
			}
			x := all[key]
			if x == nil {
				x = &sources.Condition{Alert: c.Alert, Severity: c.Severity, Labels: c.Labels, Detail: c.Detail, Since: c.Since, LastSeen: c.LastSeen}
				all[key] = x
			}
			x.Count += c.Count
			x.Since = times.Min(x.Since, times.Min(c.Since, now))
			if c.LastSeen.After(x.LastSeen) {
				x.LastSeen, x.Detail = c.LastSeen, c.Detail
			}
			if n := len(x.Members); c.Count == 0 && 0 < n && n < maxDetailed && c.Detail != "" {
				if n == 1 {
					x.Detail = x.Members[0] + ": " + x.Detail
				}
				x.Detail += " " + name + ": " + c.Detail
			}
			x.Members = append(x.Members, name)
		}
	}
	out := make([]sources.Condition, 0, len(all))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		out = append(out, *all[key])
	}
	return out
}

// whyBlind returns the agent's reason for not reading its logs. It returns "" if the agent reads its logs.
func (n *node) whyBlind() string {
	for _, c := range n.conditions {
		if c.Alert == alertBlind {
			return c.Detail
		}
	}
	return ""
}

func (n *node) openAlerts() []string {
	var out []string
	for _, c := range n.conditions {
		if !c.Ended {
			out = append(out, c.Alert)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
