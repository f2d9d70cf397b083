//go:build e2e

package release

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"crowsnest/test/servers"
)

// The manifest installs the plugin from the archive that a release has.
func TestKrew(t *testing.T) {
	dist, stage := t.TempDir(), t.TempDir()
	run(t, root, nil, "go", "build", "-o", filepath.Join(stage, "crowsnest"), "./cmd/crowsnest")
	run(t, root, nil, "cp", "LICENSE", "README.md", stage)
	sums := ""
	for _, platform := range []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64"} {
		archive := filepath.Join(dist, "crowsnest_0.2.0_"+platform+".tar.gz")
		run(t, stage, nil, "tar", "-czf", archive, "crowsnest", "LICENSE", "README.md")
		data, err := os.ReadFile(archive)
		require.NoError(t, err)
		sums += fmt.Sprintf("%x  %s\n", sha256.Sum256(data), filepath.Base(archive))
	}
	checksums, manifest := filepath.Join(dist, "checksums.txt"), filepath.Join(dist, "crowsnest.yaml")
	require.NoError(t, os.WriteFile(checksums, []byte(sums), 0o600))
	run(t, root, nil, "sh", "-c", `deploy/krew/manifest.sh 0.2.0 "$0" > "$1"`, checksums, manifest)
	plugin(t, manifest, dist)

	require.NoError(t, os.WriteFile(checksums, []byte(strings.ReplaceAll(sums, "darwin_arm64", "plan9_arm64")), 0o600))
	out, err := exec.Command(filepath.Join(root, "deploy/krew/manifest.sh"), "0.2.0", checksums).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "there is no checksum of crowsnest_0.2.0_darwin_arm64.tar.gz")
}

// krewPlugin is a Plugin of krew's API v1alpha2.
type krewPlugin struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string `json:"version"`
		Homepage         string `json:"homepage"`
		ShortDescription string `json:"shortDescription"`
		Description      string `json:"description"`
		Caveats          string `json:"caveats"`
		Platforms        []struct {
			Selector struct {
				MatchLabels map[string]string `json:"matchLabels"`
			} `json:"selector"`
			URI    string `json:"uri"`
			SHA256 string `json:"sha256"`
			Files  []struct {
				From string `json:"from"`
				To   string `json:"to"`
			} `json:"files"`
			Bin string `json:"bin"`
		} `json:"platforms"`
	} `json:"spec"`
}

// plugin checks a manifest as the index of krew does, and installs the plugin as krew does,
// from the archives of a folder.
func plugin(t *testing.T, manifest, archives string) {
	t.Helper()
	data, err := os.ReadFile(manifest)
	require.NoError(t, err)
	var p krewPlugin
	require.NoError(t, yaml.UnmarshalStrict(data, &p))
	require.Equal(t, "krew.googlecontainertools.github.com/v1alpha2", p.APIVersion)
	require.Equal(t, "Plugin", p.Kind)
	require.Equal(t, "crowsnest", p.Metadata.Name)
	require.Equal(t, "v0.2.0", p.Spec.Version)
	require.Regexp(t, `^https://`, p.Spec.Homepage)
	require.LessOrEqual(t, len(p.Spec.ShortDescription), 50)
	require.Regexp(t, `^[A-Z][^\n]*[^.\n]$`, p.Spec.ShortDescription)
	require.NotContains(t, string(data), "VERSION")
	require.NotContains(t, string(data), "SHA256")
	require.Len(t, p.Spec.Platforms, 4)
	installed := false
	for _, platform := range p.Spec.Platforms {
		system := platform.Selector.MatchLabels
		require.Len(t, system, 2)
		require.Regexp(t, regexp.QuoteMeta("/releases/download/v0.2.0/crowsnest_0.2.0_"+system["os"]+"_"+system["arch"]+".tar.gz")+"$", platform.URI)
		archive := filepath.Join(archives, path.Base(platform.URI))
		data, err := os.ReadFile(archive)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%x", sha256.Sum256(data)), platform.SHA256)
		if system["os"] != runtime.GOOS || system["arch"] != runtime.GOARCH {
			continue
		}
		installed = true
		unpacked, store, bin := t.TempDir(), t.TempDir(), t.TempDir()
		run(t, unpacked, nil, "tar", "-xzf", archive)
		for _, f := range platform.Files {
			run(t, unpacked, nil, "mv", f.From, filepath.Join(store, f.To))
		}
		require.NoError(t, os.Symlink(filepath.Join(store, platform.Bin), filepath.Join(bin, "kubectl-"+p.Metadata.Name)))
		kubectl := servers.Program(t, "kubectl")
		env := []string{"PATH=" + bin + ":/usr/bin:/bin", "HOME=" + t.TempDir(), "KUBECONFIG="}
		require.Contains(t, run(t, bin, env, kubectl, "plugin", "list"), "kubectl-crowsnest")
		require.Contains(t, run(t, bin, env, kubectl, "crowsnest", "scan", "--help"), "kubectl crowsnest scan [flags]")
		cmd := exec.Command(kubectl, "crowsnest", "-n", "team-maple")
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), "kubectl crowsnest: there is no kubeconfig in ")
	}
	require.True(t, installed, "no archive is for this machine")
}
