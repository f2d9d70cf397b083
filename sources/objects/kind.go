package objects

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// kind is the name of a kind of objects as kubectl uses it, RESOURCE or RESOURCE.GROUP.
type kind string

// Kinds of which more than the conditions and the phase is read.
const (
	leases   kind = "leases.coordination.k8s.io"
	nodes    kind = "nodes"
	pods     kind = "pods"
	machines kind = "machines.cluster.x-k8s.io"
)

// DefaultKinds returns the kinds that are read by default. The manifests grant exactly these.
func DefaultKinds() []string {
	return []string{
		string(nodes), string(pods), "namespaces", "persistentvolumeclaims", string(leases), "apiservices.apiregistration.k8s.io",
		"clusters.cluster.x-k8s.io", string(machines), "machinesets.cluster.x-k8s.io", "machinedeployments.cluster.x-k8s.io",
		"machinepools.cluster.x-k8s.io", "machinehealthchecks.cluster.x-k8s.io",
		"kubeadmcontrolplanes.controlplane.cluster.x-k8s.io", "rke2controlplanes.controlplane.cluster.x-k8s.io",
		"upgrades.harvesterhci.io", "plans.upgrade.cattle.io",
		"kustomizations.kustomize.toolkit.fluxcd.io", "helmreleases.helm.toolkit.fluxcd.io",
		"gitrepositories.source.toolkit.fluxcd.io", "helmrepositories.source.toolkit.fluxcd.io", "ocirepositories.source.toolkit.fluxcd.io",
		"externalsecrets.external-secrets.io", "secretstores.external-secrets.io", "clustersecretstores.external-secrets.io",
		"providers.pkg.crossplane.io", "functions.pkg.crossplane.io", "configurations.pkg.crossplane.io",
		"clusters.postgresql.cnpg.io", "schedules.velero.io", "backups.velero.io", "backuprepositories.velero.io",
		"certificates.cert-manager.io",
	}
}

func (k kind) resource() string {
	resource, _, _ := strings.Cut(string(k), ".")
	return resource
}

func (k kind) group() string {
	_, group, _ := strings.Cut(string(k), ".")
	return group
}

// roleRule returns the rule of a Role that permits reading the kind.
func (k kind) roleRule() string {
	group := k.group()
	if group == "" {
		group = `""`
	}
	return fmt.Sprintf("{apiGroups: [%s], resources: [%s], verbs: [list, watch]}", group, k.resource())
}

// validate returns the reason why the kind cannot be read, or nil.
func (k kind) validate() error {
	if k.resource() == "secrets" {
		return fmt.Errorf("kinds has %q: the contents of secrets are never read; remove it", string(k))
	}
	parts := strings.Split(string(k), ".")
	word := func(s string) bool {
		return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
	}
	if len(k) > 253 || slices.ContainsFunc(parts, func(s string) bool { return !word(s) }) {
		return fmt.Errorf("kinds has %q, which is no name of a kind; use RESOURCE or RESOURCE.GROUP as in `kubectl api-resources -o name`, such as machines.cluster.x-k8s.io", string(k))
	}
	return nil
}

// query returns the parameters that select the objects to read. The Leases of nodes are left
// out. Kubelets renew each of them every ten seconds, and the condition Ready of a Node shows
// the same.
func (k kind) query() url.Values {
	q := url.Values{}
	if k == leases {
		q.Set("fieldSelector", "metadata.namespace!=kube-node-lease")
	}
	return q
}
