package rules

import (
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/rules/namespaces"
	"crowsnest/rules/rulefiles"
)

func TestSetBelieves(t *testing.T) {
	n, err := namespaces.Parse(nil)
	require.NoError(t, err)
	set := &Set{Namespaces: n}
	infra, free := &Rule{Infrastructure: true}, &Rule{}
	tenant, system := map[string]string{"namespace": "team-a"}, map[string]string{"namespace": "kube-system"}
	require.False(t, set.Trusts(infra, tenant))
	require.True(t, set.Trusts(infra, system))
	require.True(t, set.Trusts(infra, nil), "a log of a node")
	require.True(t, set.Trusts(free, tenant))
	require.True(t, (&Set{}).Trusts(infra, tenant), "no list")
}

// Every shipped rule says whose lines it believes. One that believes everybody has
// an alert per namespace, which only lines of that namespace end or mute.
func TestShippedOrigins(t *testing.T) {
	files, err := rulefiles.ReadFS(Shipped())
	require.NoError(t, err)
	var docs []*Document
	for _, f := range files {
		d, _ := Parse(f)
		docs = append(docs, d)
	}
	set, problems := Build(docs, Options{Shipped: true})
	require.Empty(t, problems)
	for _, r := range set.Rules {
		require.NotEmpty(t, r.SetBy()["origin"], "%s needs origin: infrastructure or any, here or in defaults", r.Alert)
		if r.Infrastructure {
			continue
		}
		require.Contains(t, r.By, "namespace", r.Alert)
		for _, a := range []*ClearOrUnless{r.Clear, r.Unless} {
			if a != nil {
				require.Contains(t, a.Same, "namespace", r.Alert)
			}
		}
	}
}

// The journal of a node names the program, rke2, where it does not name the unit,
// rke2-server or rke2-agent: rules about these units also read that.
func TestShippedUnitsOfRKE2(t *testing.T) {
	set, err := Load(Shipped())
	require.NoError(t, err)
	read := 0
	for _, r := range set.Rules {
		for _, unit := range []string{"rke2-server.service", "rke2-agent.service"} {
			if r.From.Matches(map[string]string{"unit": unit}, true) {
				read++
				require.True(t, r.From.Matches(map[string]string{"unit": "rke2.service"}, true), r.Alert)
			}
		}
	}
	require.Greater(t, read, 100)
}

// A rule that is given an origin keeps what it has open.
func TestOriginIsNotInTheHash(t *testing.T) {
	hash := func(keys string) string {
		text := "pack: {name: p, rules: 1}\nrules:\n- alert: A\n  from: '{a=\"b\"}'\n  match: {regex: 'lost (?P<x>\\w+)'}\n" +
			"  clear: {regex: 'won (?P<x>\\w+)', same: [x]}\n  by: [namespace, x]\n  severity: info\n" + keys
		d, problems := Parse(File{Name: "p.yaml", Data: []byte(text)})
		require.Empty(t, problems)
		set, problems := Build([]*Document{d}, Options{})
		require.Empty(t, problems)
		return set.Rules[0].Hash
	}
	require.Equal(t, hash(""), hash("  origin: any\n"))
	require.Equal(t, hash(""), hash("  origin: infrastructure\n"))
}
