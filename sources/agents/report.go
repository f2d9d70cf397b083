package agents

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	"crowsnest/hits"
	"crowsnest/internal/times"
	"crowsnest/rules"
	"crowsnest/sources"
)

// overShown is how long a condition that was over when it was reported is shown.
const overShown = 15 * time.Minute

// detailed is the number of nodes whose details a condition shows.
const detailed = 3

// alertBlind is the condition that explains why a node makes no progress; it is
// part of that node's state and not of Conditions.
const alertBlind = "CrowsnestBlind"

// condition is a condition of a node, and when it was last reported.
type condition struct {
	hits.Condition
	Reported time.Time `json:"reported"`
}

func (h *handler) report(_ context.Context, body []byte, who *caller) (any, *refusal) {
	rep, err := hits.ReadReport(body)
	if err != nil {
		return nil, &refusal{http.StatusBadRequest, refusedMalformed, err}
	}
	if why := who.mayBe(rep.Node); why != nil {
		return nil, why
	}
	if why := h.state(&rep); why != nil {
		return nil, why
	}
	if take := h.s.onComplaints.Load(); take != nil {
		if err := (*take)(h.s.member(rep.Node), rep.Complaints); err != nil {
			return nil, &refusal{http.StatusBadRequest, refusedMalformed, err}
		}
	}
	answer, why := h.s.acceptReport(&rep, hits.Digest(body), h.p.Rules())
	if why == nil {
		h.p.Ingest(nothing, nil) // so that it is saved
	}
	return answer, why
}

// state records which streams an agent has. It precedes acceptReport: from then on the
// agent's watermark counts.
func (h *handler) state(rep *hits.Report) *refusal {
	s := h.s
	s.mu.Lock()
	n := s.nodes[rep.Node]
	s.mu.Unlock()
	if n == nil {
		return noAgent(rep.Node)
	}
	n.busy.Lock() // the node is not removed meanwhile
	defer n.busy.Unlock()
	s.mu.Lock()
	another, changed := n.removed || n.instance != rep.Instance, !slices.Equal(n.unread, rep.Unread)
	if !another {
		n.unread = slices.Sorted(slices.Values(rep.Unread))
	}
	s.mu.Unlock()
	if another {
		return noAgent(rep.Node)
	}
	if changed {
		h.p.AddMember(n.member)
	}
	return nil
}

func noAgent(node string) *refusal {
	return &refusal{http.StatusConflict, refusedConflict, fmt.Errorf("another agent sends for node %s, or none has sent yet", node)}
}

func (s *Source) acceptReport(rep *hits.Report, digest string, set *rules.Set) (hits.ReportAnswer, *refusal) {
	now := s.cfg.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[rep.Node]
	if n == nil || n.instance != rep.Instance {
		return hits.ReportAnswer{}, noAgent(rep.Node)
	}
	before := n.conditions
	n.conditions = make(map[string]condition, len(rep.Conditions))
	for _, c := range rep.Conditions {
		c.Last = times.Earlier(c.Last, now) // a clock that is ahead must not make it the newest for years
		n.conditions[c.Key()] = condition{c, now}
	}
	for k, c := range n.conditions {
		s.st.Losses += min(max(0, c.Count-before[k].Count), math.MaxInt64-s.st.Losses)
	}
	for k, c := range before {
		if _, again := n.conditions[k]; !again && c.Over && now.Sub(c.Reported) < overShown {
			n.conditions[k] = c
		}
	}
	n.digest, n.clockSet, n.idle = digest, rep.ClockSet, rep.Idle
	if !maps.Equal(n.rules, rep.Rules) {
		n.rules, s.force.stale = rep.Rules, true
	}
	s.use(set)
	return hits.ReportAnswer{Report: s.tokenOf(n), Behind: s.behindOf(n)}, nil
}

// condensed returns the conditions of all nodes, each once, with the nodes that
// have it. The caller holds mu.
func (s *Source) condensed(now time.Time) []sources.Condition {
	all := map[string]*sources.Condition{}
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		for key, c := range s.nodes[name].conditions {
			if c.Alert == alertBlind || c.Over && now.Sub(c.Reported) >= overShown {
				continue
			}
			x := all[key]
			if x == nil {
				x = &sources.Condition{Alert: c.Alert, Severity: c.Severity, Labels: c.Labels, Detail: c.Detail, Since: c.Since, Last: c.Last}
				all[key] = x
			}
			x.Count += c.Count
			x.Since = times.Earlier(x.Since, times.Earlier(c.Since, now))
			if c.Last.After(x.Last) {
				x.Last, x.Detail = c.Last, c.Detail
			}
			if n := len(x.Members); c.Count == 0 && 0 < n && n < detailed && c.Detail != "" {
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

// blindness returns the agent's reason for not reading; "" if it reads.
func (n *node) blindness() string {
	for _, c := range n.conditions {
		if c.Alert == alertBlind {
			return c.Detail
		}
	}
	return ""
}

// reported reports whether the watermark of a node can be used: an agent that sends
// reports must first have reported its rules.
func (s *Source) reported(n *node, m *hits.Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !m.Reports || n.digest != ""
}

// reports returns the names of the alerts that the agent reports, each once.
func (n *node) reports() []string {
	var out []string
	for _, c := range n.conditions {
		if !c.Over {
			out = append(out, c.Alert)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
