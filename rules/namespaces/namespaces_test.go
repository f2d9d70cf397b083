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
		require.NotEmpty(t, c.namespaces)
		require.NotEmpty(t, c.name)
		for _, name := range c.namespaces {
			require.NoError(t, Check(name))
			require.Regexp(t, `^([a-z0-9-]+|[a-z0-9-]{3,}\*|\*[a-z0-9-]{4,})$`, name, "a narrow glob")
			require.False(t, seen[name], name)
			seen[name] = true
		}
		for _, w := range c.workloads {
			require.NoError(t, Check(w))
			require.False(t, seen["/"+w], w)
			seen["/"+w] = true
		}
	}
	require.Greater(t, len(seen), 300)
}

// The namespaces into which infrastructure is installed are in the built-in list. Those that
// a tenant would choose are not.
func TestBuiltInNamespaces(t *testing.T) {
	builtIn, err := Parse(nil)
	require.NoError(t, err)
	for _, ns := range strings.Fields(`
		kube-system kube-flannel kube-ovn cattle-fleet-system cattle-monitoring-system fleet-default harvester-system longhorn-system
		openshift-machine-api openshift-operators open-cluster-management-agent garden shoot--core--prod extension-provider-openstack-x2v9p
		cozy-kubevirt cozy-linstor d8-cloud-instance-manager kubermatic kubesphere-monitoring-system vmware-system-capw tanzu-system-ingress
		eksa-system gke-managed-cim gmp-system app-routing-system aks-istio-ingress amazon-cloudwatch kcm-system
		capi-system capi-ipam-in-cluster-system metal3-ipam-system capdo-system byoh-system sidero-system caren-system k0smotron
		vertical-pod-autoscaler vpa keda karpenter descheduler scheduler-plugins kueue-system
		rook-ceph openebs trident piraeus-datastore topolvm-system democratic-csi secrets-store-csi-driver velero
		calico-apiserver tigera-prometheus cilium-secrets metallb-system frr-k8s-system ingress-nginx traefik envoy-gateway-system external-dns
		cert-manager external-secrets external-secrets-operator vault-secrets-operator-system gatekeeper-system kyverno kubewarden
		monitoring vector fluent-bit fluentd loki promtail opentelemetry-operator-system datadog
		argocd argocd-operator flux-system tekton-pipelines istio-system istio-ingress linkerd knative-serving
		gpu-operator nvidia-gpu-operator node-feature-discovery kubevirt cdi cnpg-system postgres-operator mongodb-operator`) {
		require.True(t, builtIn.Has(ns), ns)
	}
	for _, ns := range strings.Fields(`
		default apps app prod production staging test dev qa ci build team-a team-operators tenant-root tenant-evil a backend frontend web shop payments
		db database postgres mysql mongodb kafka redis rabbitmq minio jenkins gitlab-runner arc-runners argo kubeflow rhods-notebooks jupyterhub
		logging storage ingress security infra platform observability system operator csi operators systems shoot extension-shop
		openshift clusters-a garden-my-project vcluster-a kubesphere-devops-worker my-controller d8 kube kube-systems cozy`) {
		require.False(t, builtIn.Has(ns), ns)
	}
	in, out := builtIn.Patterns()
	require.Empty(t, out)
	require.Regexp(t, "^("+in+")$", "capi-system")
	require.NotRegexp(t, "^("+in+")$", "team-a")
	require.NotContains(t, in, "capi-system", "a glob covers it")
}
