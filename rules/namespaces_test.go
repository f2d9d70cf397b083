package rules

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseNamespaces(t *testing.T) {
	for name, c := range map[string]struct {
		entries []string
		in, out []string
	}{
		"built in":            {nil, []string{"kube-system", "capi-system", "cert-manager"}, []string{"", "default", "team-a", "kube-systems", "capi"}},
		"added":               {[]string{"+team-a"}, []string{"kube-system", "team-a"}, []string{"team-b"}},
		"added glob":          {[]string{"+shoot--*"}, []string{"kube-system", "shoot--a--b"}, []string{"shoot-", "a-shoot--b"}},
		"removed":             {[]string{"-kube-system"}, []string{"capi-system"}, []string{"kube-system"}},
		"replaced":            {[]string{"a", "b"}, []string{"a", "b"}, []string{"kube-system", "c"}},
		"everything":          {[]string{"*"}, []string{"a", "kube-system"}, []string{""}},
		"everything but":      {[]string{"*", "-team-*"}, []string{"a", "team"}, []string{"team-a"}},
		"removal wins":        {[]string{"-team-evil", "+team-*"}, []string{"team-a"}, []string{"team-evil"}},
		"texts in the middle": {[]string{"a*b*c"}, []string{"abc", "axbxc", "abbcc"}, []string{"ac", "acb", "abcx"}},
		"overlap":             {[]string{"ab*ba"}, []string{"abba", "abxba"}, []string{"aba"}},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := ParseNamespaces(c.entries)
			require.NoError(t, err)
			for _, ns := range c.in {
				require.True(t, n.Has(ns), ns)
			}
			for _, ns := range c.out {
				require.False(t, n.Has(ns), ns)
			}
		})
	}
}

func TestParseNamespacesRefuses(t *testing.T) {
	for _, entries := range [][]string{
		{"-*"},
		{"a", "-a"},
		{"kube-*", "-kube-*"},
		{"kube-*", "-k*"},
		{"+x", "-*"},
		{""},
		{"+"},
		{"-"},
		{"Kube-System"},
		{"a b"},
		{"a\n"},
		{"~a"},
		{"a?"},
		{"[a]"},
		{"--a-"},
		{strings.Repeat("a", 64)},
		make([]string, maxNamespaces+1),
	} {
		_, err := ParseNamespaces(entries)
		require.Error(t, err, "%.100q", entries)
	}
}

func TestNamespacesList(t *testing.T) {
	list := func(entries ...string) []string {
		n, err := ParseNamespaces(entries)
		require.NoError(t, err)
		return n.List()
	}
	require.Equal(t, []string{"*"}, (*Namespaces)(nil).List())
	require.Equal(t, []string{"*"}, list("*"))
	require.Equal(t, []string{"*", "-team-*"}, list("*", "-team-*"))
	require.Equal(t, []string{"a", "b"}, list("b", "a", "a", "c", "-c"))
	require.Contains(t, list("+x"), "kube-system")
}

// The built-in list is read without a check, so its form is tested.
func TestInfrastructureList(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range infrastructure() {
		require.NoError(t, CheckNamespace(c.namespace))
		require.NotContains(t, c.namespace, "*")
		require.NotEmpty(t, c.name)
		require.False(t, seen[c.namespace], c.namespace)
		seen[c.namespace] = true
		for _, w := range c.workloads {
			require.NoError(t, CheckNamespace(w))
			require.False(t, seen["/"+w], w)
			seen["/"+w] = true
		}
	}
	require.Greater(t, len(infrastructure()), 50)
}

func TestSetBelieves(t *testing.T) {
	n, err := ParseNamespaces(nil)
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

// Every shipped rule says whose lines it believes. Where one that believes
// everybody can be ended or muted by a line, the line shares the namespace.
func TestShippedOrigins(t *testing.T) {
	files, err := ReadFS(Shipped())
	require.NoError(t, err)
	var docs []*Document
	for _, f := range files {
		d, _ := Parse(f)
		docs = append(docs, d)
	}
	set, problems := Build(docs, Options{Shipped: true})
	require.Empty(t, problems)
	for _, r := range set.Rules {
		require.NotEmpty(t, r.Origin["origin"], r.Alert)
		if r.Infrastructure {
			continue
		}
		for _, a := range []*ClearOrUnless{r.Clear, r.Unless} {
			if a != nil {
				require.Contains(t, a.Same, "namespace", r.Alert)
			}
		}
	}
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
