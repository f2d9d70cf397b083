package export

import (
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
	"crowsnest/rules/namespaces"
	"crowsnest/rules/selector"
)

func TestSelectorOfInfrastructure(t *testing.T) {
	from, err := selector.Parse(`{container="c"}`)
	require.NoError(t, err)
	infra, free := &rules.Rule{From: from, Infrastructure: true}, &rules.Rule{From: from}
	f := func(want string, r *rules.Rule, entries ...string) {
		t.Helper()
		trusted, err := namespaces.Parse(entries)
		require.NoError(t, err)
		require.Equal(t, want, ruleSelector(&rules.Set{Namespaces: trusted}, r))
	}
	f(`{container="c", namespace=~"kube-system|shoot--.*|"}`, infra, "kube-system", "shoot--*")
	f(`{container="c", namespace=~".*|", namespace!~"team-.*"}`, infra, "*", "-team-*")
	f(`{container="c"}`, infra, "*")
	f(`{container="c"}`, free, "kube-system")
	require.Equal(t, `{container="c"}`, ruleSelector(&rules.Set{}, infra))
}
