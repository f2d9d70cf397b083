//go:build e2e

package deploy

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/test/kubelab"
	"crowsnest/test/manifests"
	"crowsnest/test/servers"
)

// A real API server, with the definitions of the Prometheus operator, of Cluster API
// and of the Gateway API, accepts every overlay and the chart with every file of values: no unknown
// field, no wrong type, and no warning of a namespace with the restricted standard,
// except for agents.
func TestServerTakesManifests(t *testing.T) {
	kubectl := servers.Program(t, "kubectl")
	lab := kubelab.Start(t)
	for _, namespace := range []string{"crowsnest", "capi-system"} {
		lab.Do("POST", "/api/v1/namespaces", kubelab.Object{"metadata": kubelab.Object{
			"name": namespace, "labels": map[string]string{"pod-security.kubernetes.io/warn": "restricted"},
		}})
		lab.ServiceAccount(namespace, "default")
	}
	lab.PrometheusOperator()
	lab.ClusterAPI()
	lab.GatewayAPI()
	config := lab.Kubeconfig("", kubelab.Admin)
	all := rendered(t)
	for _, name := range valueFiles(t) {
		all["chart with tests "+name] = manifests.ChartTests(t, name)
	}
	for name, text := range all {
		cmd := exec.Command(kubectl, "--kubeconfig", config, "apply", "--dry-run=server", "--validate=strict", "-f", "-")
		cmd.Stdin = strings.NewReader(text)
		b, err := cmd.CombinedOutput()
		out := string(b)
		require.NoError(t, err, "%s: %s", name, out)
		require.Equal(t, len(manifests.Objects(t, text)), strings.Count(out, "(server dry run)"), "%s: %s", name, out)
		for line := range strings.Lines(out) {
			if strings.Contains(line, "Warning") {
				require.Contains(t, line, "hostPath", "%s: %s", name, line)
				require.NotContains(t, line, "allowPrivilegeEscalation", "%s: %s", name, line)
				require.Equal(t, name == "chart run-as-root" || name == "chart with tests run-as-root", strings.Contains(line, "runAsNonRoot"), "%s: %s", name, line)
			}
		}
		t.Logf("%s:\n%s", name, out)
	}
}
