// Package deploy tests the manifests: they render, the daemon accepts their
// configurations, and a real API server accepts all of them.
package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/strictyaml"
	"crowsnest/test/daemon"
	"crowsnest/test/servers"
)

const root = "../../deploy/kustomize"

// overlays are the folders that can be rendered directly.
func overlays(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(root + "/overlays/*")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(found), 4)
	return append(found, root+"/base")
}

// render returns the objects of an overlay.
func render(t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.Command(servers.Program(t, "kubectl"), "kustomize", dir)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s: %s", dir, stderr.String())
	require.Empty(t, stderr.String(), dir)
	return string(out)
}

// Requirements for every pod in every overlay.
func TestPodsAreConfined(t *testing.T) {
	for _, dir := range overlays(t) {
		text := render(t, dir)
		pods := strings.Count(text, "serviceAccountName:")
		require.Positive(t, pods, dir)
		f := func(want string, n int) { require.GreaterOrEqual(t, strings.Count(text, want), n, "%s: %s", dir, want) }
		f("allowPrivilegeEscalation: false", pods)
		f("readOnlyRootFilesystem: true", pods)
		f("- ALL", pods)
		f("type: RuntimeDefault", pods)
		f("runAsUser: 65532", pods)
		f("path: /-/healthy", pods)
		f("path: /-/ready", pods)
		f("GOMEMLIMIT", pods)
		for _, never := range []string{"privileged: true", "hostNetwork", "hostPID", "subPath", "secrets\n", "'*'", `"*"`} {
			require.NotContains(t, text, never, dir)
		}
	}
}

// The daemon accepts every configuration of the manifests, except for files
// that exist only in a pod.
func TestConfigurations(t *testing.T) {
	configs, err := filepath.Glob(root + "/*/*.yml")
	require.NoError(t, err)
	more, err := filepath.Glob(root + "/*/*/*.yml")
	require.NoError(t, err)
	configs = append(configs, more...)
	require.GreaterOrEqual(t, len(configs), 7)
	binary := filepath.Join(t.TempDir(), "crowsnest")
	require.NoError(t, daemon.Build(binary))
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("secret"), 0o600))
	place := strings.NewReplacer(
		"/etc/crowsnest-rules", absolute(t, root+"/base/rules"), "/git/current/crowsnest/rules", absolute(t, root+"/base/rules"),
		"/var/run/secrets/crowsnest/token", token,
	)
	for _, file := range configs {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		local := filepath.Join(t.TempDir(), "crowsnest.yml")
		require.NoError(t, os.WriteFile(local, []byte(place.Replace(string(text))), 0o600))
		out, err := exec.Command(binary, "check", "config", local).CombinedOutput()
		require.NoError(t, err, "%s: %s", file, out)
		if strings.Contains(string(text), "shipped: false") {
			continue
		}
		// Rules for infrastructure trust the built-in list, not every
		// namespace.
		require.Regexp(t, `\n8\d rules trust infrastructure namespaces only .*: [^*]*\bkube-system\b[^*]*\n`, string(out), file)
	}
	out, err := exec.Command(binary, "test", "rules", "--mutate", root+"/base/rules").CombinedOutput()
	require.NoError(t, err, string(out))
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	require.NoError(t, err)
	return abs
}

// Every image has a fixed version: what runs is what was tested.
func TestImagesHaveVersions(t *testing.T) {
	files, err := filepath.Glob(root + "/*/*.yaml")
	require.NoError(t, err)
	more, err := filepath.Glob(root + "/*/*/*.yaml")
	require.NoError(t, err)
	image := regexp.MustCompile(`(?m)^\s*(?:- )?image: (\S+)$`)
	found := 0
	for _, file := range append(files, more...) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range image.FindAllStringSubmatch(string(text), -1) {
			found++
			require.Regexp(t, `:v?\d+\.\d+|@sha256:`, m[1], file)
		}
	}
	require.Positive(t, found)
}

// Every manifest is YAML without duplicate keys, which kustomize would accept.
func TestStrict(t *testing.T) {
	require.NoError(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, doc := range strings.Split(string(text), "\n---\n") {
			_, problems := strictyaml.Parse(path, []byte(doc), strictyaml.Options{})
			require.Empty(t, problems, "%s, document %d", path, i+1)
		}
		return nil
	}))
}
