//go:build e2e

package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/test/kubelab"
	"crowsnest/test/manifests"
	"crowsnest/test/servers"
)

// The chart, pushed to a registry as the release workflow does it, is installed from there on a real API server. Its
// objects are those of the chart in the repository.
func TestChartIsPublished(t *testing.T) {
	program := servers.Program(t, "helm")
	registry := strings.TrimPrefix(servers.Registry(t).URL, "http://")
	repository := "oci://" + registry + "/crowsnest/charts"
	push := exec.Command("make", "-C", "../..", "publish-chart", "VERSION=0.2.0", "CHARTS="+repository, "HELM_FLAGS=--plain-http")
	push.Env = append(os.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
	out, err := push.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Regexp(t, `(?m)^Digest: sha256:[0-9a-f]{64}$`, string(out), "the workflow signs this digest")

	lab := kubelab.Start(t)
	args := []string{
		"--kubeconfig", lab.Kubeconfig("", kubelab.Admin), "--namespace=crowsnest", "--plain-http", "--version=0.2.0",
		"--values=" + chartDir + "/ci/base-values.yaml",
	}
	text, err := helm(t, append([]string{"install", "crowsnest", repository + "/crowsnest", "--create-namespace"}, args...)...)
	require.NoError(t, err, text)
	require.Contains(t, text, "crowsnest 0.2.0 watches")
	installed, err := helm(t, "get", "manifest", "crowsnest", args[0], args[1], args[2])
	require.NoError(t, err, installed)
	require.Contains(t, installed, "crowsnest:0.2.0", "the image has the version of the chart")
	require.ElementsMatch(t, names(t, manifests.Chart(t, "base")), names(t, installed))

	text, err = helm(t, append([]string{"upgrade", "crowsnest", repository + "/crowsnest", "--set=events=true"}, args...)...)
	require.NoError(t, err, text)
	text, err = helm(t, "uninstall", "crowsnest", args[0], args[1], args[2])
	require.NoError(t, err, text)
}

func names(t *testing.T, text string) (out []string) {
	for _, o := range objects(t, text) {
		out = append(out, o.Kind+"/"+o.Metadata.Name)
	}
	return out
}
