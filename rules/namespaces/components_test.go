package namespaces

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestComponentOfPod(t *testing.T) {
	c := NewComponents()
	for pod, want := range map[string]string{
		"capi-controller-manager-6c4b8d9f7-x2v9p":        "Cluster API",
		"cert-manager-webhook-5f4d8c7b9-abcde":           "cert-manager",
		"kube-apiserver-0":                               "Kubernetes control plane",
		"fleet-agent-zz9p2":                              "Fleet",
		"capi-controller-manager":                        "",
		"my-operator-controller-manager-6c4b8d9f7-x2v9p": "",
		"capi-controller-manager-a-b-c":                  "",
		"rancher-logging-eventrouter-6c4b8d9f7-x2v9p":    "",
		"":  "",
		"-": "",
	} {
		require.Equal(t, want, c.OfPod(pod), pod)
	}
}
