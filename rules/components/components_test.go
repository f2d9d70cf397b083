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

func TestRunning(t *testing.T) {
	require.Equal(t, map[string][]string{
		"kubelet": {"v1.33.4", "v1.34.1+rke2r1"}, "rke2": {"v1.34.1+rke2r1"}, "containerd": {"2.1.4-k3s1"}, "etcd": {""},
		"kube-apiserver": {"v1.34.1-rke2r1-build20250910"}, "kube-controller-manager": {"v1.34.1-rke2r1-build20250910"}, "kube-scheduler": {"v1.34.1-rke2r1-build20250910"},
		"longhorn-manager": {"v1.10.0"},
	}, RunningVersions([]string{
		"node/kubelet:v1.34.1+rke2r1", "node/kubelet:v1.33.4", "node/kubelet:v1.33.4", "node/rke2:v1.34.1+rke2r1", "node/containerd:2.1.4-k3s1",
		"index.docker.io/rancher/hardened-kubernetes:v1.34.1-rke2r1-build20250910", "registry.k8s.io/etcd@sha256:0123", "nginx:1.29.0", "",
		"registry.local:5000/longhornio/longhorn-manager:v1.10.0@sha256:4567", "docker.io/flannel/flannel-cni-plugin:v1.7.1",
	}))
	require.Empty(t, RunningVersions(nil))
}

func TestNearest(t *testing.T) {
	require.Equal(t, "did you mean kubelet?", SuggestName("kublet"))
	require.Equal(t, "did you mean kubelet?", SuggestName("Kubelet"))
	require.Contains(t, SuggestName("longhorn"), "longhorn-manager")
	require.Contains(t, SuggestName("provider-aws"), "cluster-api-provider-aws")
	require.Contains(t, SuggestName("x"), "use one of argo-cd, ")
	require.Contains(t, SuggestName(""), "use one of ")
}
