package inforce

import (
	"slices"

	"crowsnest/rules"
)

// InScope returns the set in which, for rules.ScopeNode, the rules that need the logs of several nodes are off. It does
// not change set.
func InScope(set *rules.Set, scope rules.Scope) *rules.Set {
	if scope != rules.ScopeNode {
		return set
	}
	out := *set
	here := map[*rules.Rule]*rules.Rule{}
	for _, r := range set.Rules {
		if here[r] = r; r.Scope == rules.ScopeCluster && r.Mode != rules.ModeOff {
			off := *r
			off.Mode, off.Disabled = rules.ModeOff, "it needs logs from several nodes, but rules.scope is node"
			here[r] = &off
		}
	}
	replaced := func(all []*rules.Rule) []*rules.Rule {
		all = slices.Clone(all)
		for i, r := range all {
			all[i] = here[r]
		}
		return all
	}
	out.Rules, out.Packs = replaced(set.Rules), slices.Clone(set.Packs)
	for i, p := range out.Packs {
		pack := *p
		pack.Rules = replaced(p.Rules)
		out.Packs[i] = &pack
	}
	return &out
}

// OutOfScope returns the names of the rules that InScope turns off.
func OutOfScope(set *rules.Set, scope rules.Scope) map[string]bool {
	out := map[string]bool{}
	for _, r := range set.Rules {
		if scope == rules.ScopeNode && r.Scope == rules.ScopeCluster {
			out[r.Alert] = true
		}
	}
	return out
}
