package daemon

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/daemon/config"
	"crowsnest/rules"
	"crowsnest/test/rulefolder"
)

// With scope node, rules that need several nodes are off.
func TestScopeOfANode(t *testing.T) {
	set := &rules.Set{Rules: []*rules.Rule{
		{Alert: "Here", Scope: rules.ScopeNode, Mode: rules.ModeOn},
		{Alert: "Everywhere", Scope: rules.ScopeCluster, Mode: rules.ModeOn},
		{Alert: "Off", Scope: rules.ScopeNode, Mode: rules.ModeOff},
	}}
	modes := func(set *rules.Set) string {
		var out []string
		for _, r := range set.Rules {
			out = append(out, string(r.Mode))
		}
		return strings.Join(out, " ")
	}
	require.Equal(t, "true false false", modes(inScope(set, rules.ScopeNode)))
	require.Equal(t, "true true false", modes(set), "the set is shared")
	require.Same(t, set, inScope(set, ""))
	require.Equal(t, map[string]bool{"Everywhere": true}, outOfScope(set, rules.ScopeNode))
	require.Empty(t, outOfScope(set, ""))
}

func TestScopeInTheDaemon(t *testing.T) {
	s := newShip(t)
	s.rules.Write("a.yaml", strings.Replace(rulefolder.Pack("a", "A", "text of a"), "by: [", "by: [pod, ", 1))
	s.rules.Write("b.yaml", strings.Replace(rulefolder.Pack("b", "B", "text of b"), "by: [namespace, pod]", "by: [namespace]", 1))
	s.cfg = func(c *config.Config) { c.Rules.Scope = rules.ScopeNode }
	s.start()
	_, body := s.get("/metrics")
	for _, line := range []string{
		`crowsnest_rule_inactive{reason="scope",rule="B"} 1`,
		`crowsnest_rule_inactive{reason="scope",rule="A"} 0`,
	} {
		require.Contains(t, body, line)
	}
	_, body = s.get("/rules/B")
	require.Contains(t, body, "This rule is off: it needs the logs of several nodes")
	_, body = s.get("/rules/A")
	require.NotContains(t, body, "This rule is off")
}
