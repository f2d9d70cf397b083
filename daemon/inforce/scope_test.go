package inforce

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
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
	require.Equal(t, "true false false", modes(InScope(set, rules.ScopeNode)))
	require.Equal(t, "true true false", modes(set), "the set is shared")
	require.Same(t, set, InScope(set, ""))
	require.Equal(t, map[string]bool{"Everywhere": true}, OutOfScope(set, rules.ScopeNode))
	require.Empty(t, OutOfScope(set, ""))
}
