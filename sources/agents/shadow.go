package agents

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"crowsnest/hits"
	"crowsnest/internal/times"
)

// UsePacks sets what the source states to agents about artifacts with rule packs, by
// repository. The map is read-only from now on.
func (s *Source) UsePacks(packs map[string]hits.Pack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if maps.Equal(s.packs, packs) {
		return
	}
	s.packs, s.packsID = packs, ""
	if len(packs) > 0 {
		text, _ := json.Marshal(packs) // strings and flags always marshal, in the order of the keys
		s.packsID = "-" + hits.Digest(text)
	}
}

// Shadow is a new version of packs that is evaluated beside the one in force.
type Shadow struct {
	Digest string
	// Rules is the hits.RulesDigest of the rules that agents match for it.
	Rules string
	// Judged are the names of the rules that are compared.
	Judged map[string]bool
}

// Coverage states which agents match a shadow.
type Coverage struct {
	// Waiting are the nodes whose lines the shadow lacks, and why; the empty name
	// stands for all nodes.
	Waiting map[string]string
	// Since is when the newest of the other nodes began to match it.
	Since time.Time
	// Ahead is how far the clock of one of them is ahead, less than ten seconds.
	Ahead time.Duration
	// Refused is why an agent says that the version must not be promoted; "": none does.
	Refused string
}

// And returns the coverage of two sources.
func (c Coverage) And(other Coverage) Coverage {
	out := Coverage{
		Waiting: map[string]string{}, Since: times.Later(c.Since, other.Since), Ahead: max(c.Ahead, other.Ahead), Refused: cmp.Or(c.Refused, other.Refused),
	}
	maps.Copy(out.Waiting, c.Waiting)
	maps.Copy(out.Waiting, other.Waiting)
	return out
}

// Coverage returns which of the live agents match a shadow. A silent agent sends no lines
// for either version, so it is not waited for.
func (s *Source) Coverage(of Shadow) Coverage {
	now := s.cfg.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Coverage{Waiting: map[string]string{}}
	other := s.otherVersions(of.Judged)
	live := false
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		n := s.nodes[name]
		if !n.spoke || n.left || now.Sub(n.heard) >= s.cfg.SilentAfter {
			continue
		}
		live = true
		if n.shadow != nil && n.shadow.Digest == of.Digest && n.shadow.Refused {
			out.Refused = fmt.Sprintf("node %s reports: %s", name, n.shadow.Error)
		}
		if why := n.shadowless(of, other[name], s.skew(n, now)); why != "" {
			out.Waiting[name] = why
			continue
		}
		out.Since, out.Ahead = times.Later(out.Since, n.shadowSince), max(out.Ahead, s.skew(n, now))
	}
	if !live {
		out.Waiting[""] = "no agent is connected"
	}
	return out
}

// otherVersions returns, by node, a judged rule in force that the node has in another
// version. The caller holds mu.
func (s *Source) otherVersions(judged map[string]bool) map[string]string {
	out := map[string]string{}
	for rule := range judged {
		for _, node := range s.force.behind[rule].Members {
			out[node] = rule
		}
	}
	return out
}

// shadowless returns why the lines of a node are not matched by both versions; "": they
// are. other is a rule in force that the node has in another version, if any.
func (n *node) shadowless(of Shadow, other string, skew time.Duration) string {
	switch sh := n.shadow; {
	case n.digest == "":
		return "its agent has not reported yet, or is too old to report"
	case sh == nil || sh.Digest != of.Digest:
		return "its agent has not fetched the version; if this lasts, update the agent, or give it the same entry in rules.artifacts"
	case sh.Error != "":
		return "its agent reports: " + sh.Error
	case sh.Rules != of.Rules:
		return "its rules differ: give its agent the same rules.paths and rules.overrides"
	case other != "":
		return "its agent has another version of the rule in force " + other
	case skew.Abs() >= skewShown:
		return fmt.Sprintf("its clock is %v %s", skew.Abs().Round(time.Second), aheadOrBehind(skew))
	}
	return ""
}

// reportShadow records what an agent states about a shadow. The caller holds mu.
func (n *node) reportShadow(sh *hits.ShadowState, now time.Time) {
	if n.shadow == nil || sh == nil || *n.shadow != *sh {
		n.shadow, n.shadowSince = sh, now
	}
}
