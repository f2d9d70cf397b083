package namespaces

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
			n, err := Parse(c.entries)
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
		make([]string, maxEntries+1),
	} {
		_, err := Parse(entries)
		require.Error(t, err, "%.100q", entries)
	}
}

func TestNamespacesList(t *testing.T) {
	list := func(entries ...string) []string {
		n, err := Parse(entries)
		require.NoError(t, err)
		return n.List()
	}
	require.Equal(t, []string{"*"}, (*Set)(nil).List())
	require.Equal(t, []string{"*"}, list("*"))
	require.Equal(t, []string{"*", "-team-*"}, list("*", "-team-*"))
	require.Equal(t, []string{"a", "b"}, list("b", "a", "a", "c", "-c"))
	require.Contains(t, list("+x"), "kube-system")
}

// The built-in list is read without a check, so its form is tested.
func TestInfrastructureList(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range infrastructure() {
		require.NoError(t, Check(c.namespace))
		require.NotContains(t, c.namespace, "*")
		require.NotEmpty(t, c.name)
		require.False(t, seen[c.namespace], c.namespace)
		seen[c.namespace] = true
		for _, w := range c.workloads {
			require.NoError(t, Check(w))
			require.False(t, seen["/"+w], w)
			seen["/"+w] = true
		}
	}
	require.Greater(t, len(infrastructure()), 50)
}
