//go:build e2e

package deploy

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/test/kubelab"
	"crowsnest/test/servers"
)

// A real API server accepts every overlay: no unknown field, no wrong type, and
// no warning of a namespace with the restricted standard, except for the log
// folder that agents mount.
func TestServerTakesManifests(t *testing.T) {
	kubectl := servers.Program(t, "kubectl")
	lab := kubelab.Start(t)
	lab.Do("POST", "/api/v1/namespaces", kubelab.Object{"metadata": kubelab.Object{
		"name": "crowsnest", "labels": map[string]string{"pod-security.kubernetes.io/warn": "restricted"},
	}})
	for _, kind := range []string{"PodMonitor", "ServiceMonitor", "PrometheusRule"} {
		lab.Do("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(kind))
	}
	config := lab.Kubeconfig("", kubelab.Admin)
	for _, dir := range overlays(t) {
		text := render(t, dir)
		var out string
		ok := false
		for range 50 { // definitions are served after a moment
			cmd := exec.Command(kubectl, "--kubeconfig", config, "apply", "--dry-run=server", "--validate=strict", "-f", "-")
			cmd.Stdin = strings.NewReader(text)
			b, err := cmd.CombinedOutput()
			if out = string(b); err == nil {
				ok = true
				break
			}
			if !strings.Contains(out, "no matches for kind") {
				break
			}
		}
		require.True(t, ok, "%s: %s", dir, out)
		for line := range strings.Lines(out) {
			if strings.Contains(line, "Warning") {
				require.Contains(t, line, "hostPath", "%s: %s", dir, line)
				require.NotContains(t, line, "allowPrivilegeEscalation", "%s: %s", dir, line)
			}
		}
		t.Logf("%s:\n%s", dir, out)
	}
}

// definition is a CustomResourceDefinition that accepts any content.
func definition(kind string) kubelab.Object {
	plural := strings.ToLower(kind) + "s"
	return kubelab.Object{
		"metadata": kubelab.Object{"name": plural + ".monitoring.coreos.com"},
		"spec": kubelab.Object{
			"group": "monitoring.coreos.com", "scope": "Namespaced",
			"names": kubelab.Object{"kind": kind, "plural": plural},
			"versions": []kubelab.Object{{
				"name": "v1", "served": true, "storage": true,
				"schema": kubelab.Object{"openAPIV3Schema": kubelab.Object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}
}
