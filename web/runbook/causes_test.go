package runbook

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A page links to the causes of its alert, and to what the alert causes.
func TestCauses(t *testing.T) {
	set := build(t, `
- {alert: Slow, from: '{container="x"}', severity: info, match: valve, by: [namespace, node]}
- {alert: Lost, from: '{container="x"}', severity: info, match: pump it, by: [namespace, pod], symptom_of: [Slow, {alert: Far, same: [], lag: 5m}]}
- {alert: Later, from: '{container="x"}', severity: info, match: hose it, by: [namespace], symptom_of: [{alert: Slow, same: [namespace]}]}
`)
	page := Page(set, set.Rule("Lost"))
	require.Contains(t, page, "If one of them fires, begin there:\n\n- [Slow](Slow.md) of the same *namespace*, begun earlier\n- Far, begun earlier or up to 5m later\n")
	require.Contains(t, Page(set, set.Rule("Slow")), "It can cause [Lost](Lost.md), [Later](Later.md).")
	other := *set.Rule("Later")
	other.Pack = "second"
	require.Contains(t, Page(set, &other), "- [Slow](../test/Slow.md)")
}
