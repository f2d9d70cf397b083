package components

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table has unique names, and each component has a source.
func TestTable(t *testing.T) {
	repo, path, seen := regexp.MustCompile(`^[\w.-]+/[\w.-]+$`), regexp.MustCompile(`^[\w.-]+(/[\w.-]+)*$`), map[string]bool{}
	for _, c := range All() {
		require.Regexp(t, `^[a-z0-9-]+$`, c.Name)
		require.False(t, seen[c.Name], c.Name)
		require.NotEmpty(t, c.Sources, c.Name)
		require.Contains(t, []string{"", "kubelet", "containerd", "cri-o", "rke2", "k3s"}, c.Node, c.Name)
		for _, s := range c.Sources {
			require.Regexp(t, repo, s.Repo, c.Name)
			for _, p := range s.Paths {
				require.Regexp(t, path, p, c.Name)
			}
		}
		for _, image := range c.Images {
			require.Regexp(t, path, image, c.Name)
		}
		found, ok := Find(c.Name)
		require.True(t, ok)
		require.Equal(t, c, found)
		seen[c.Name] = true
	}
	_, ok := Find("kubelt")
	require.False(t, ok)
}

func TestNearest(t *testing.T) {
	require.Equal(t, "did you mean kubelet?", Nearest("kublet"))
	require.Equal(t, "did you mean kubelet?", Nearest("Kubelet"))
	require.Contains(t, Nearest("longhorn"), "longhorn-manager")
	require.Contains(t, Nearest("provider-aws"), "cluster-api-provider-aws")
	require.Contains(t, Nearest("x"), "use one of argo-cd, ")
	require.Contains(t, Nearest(""), "use one of ")
}
