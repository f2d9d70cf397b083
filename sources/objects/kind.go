package objects

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"crowsnest/internal/kube"
)

// kind is the name of a kind of objects in the form that kubectl uses, RESOURCE or RESOURCE.GROUP.
type kind string

// Kinds of objects for which the source reads more than the conditions and the phase.
const (
	leases   kind = "leases.coordination.k8s.io"
	nodes    kind = "nodes"
	pods     kind = "pods"
	machines kind = "machines.cluster.x-k8s.io"
)

// DefaultKinds returns the kinds that are read by default. The manifests in deploy grant access to exactly these kinds.
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

func (k kind) validate() error {
	if k.resource() == "secrets" {
		return fmt.Errorf("kinds has %q: the contents of secrets are never read; remove it", string(k))
	}
	parts := strings.Split(string(k), ".")
	word := func(s string) bool {
		return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
	}
	if len(k) > 253 || slices.ContainsFunc(parts, func(s string) bool { return !word(s) }) {
		return fmt.Errorf("kinds has %q, which is not the name of a kind; use RESOURCE or RESOURCE.GROUP as in `kubectl api-resources -o name`, such as machines.cluster.x-k8s.io", string(k))
	}
	return nil
}

// query returns the parameters of a list or watch. It excludes the Leases of nodes, which
// kubelets renew every ten seconds, because the condition Ready of a Node shows the same.
func (k kind) query() url.Values {
	q := url.Values{}
	if k == leases {
		q.Set("fieldSelector", "metadata.namespace!=kube-node-lease")
	}
	return q
}

// Resource is a kind of objects as an API server describes it.
type Resource struct {
	// Path is the path that lists all objects of the kind. It is empty if the API server does not have the kind.
	Path string
	// APIVersion and Kind are the apiVersion and kind of the objects.
	APIVersion, Kind string
	Namespaced       bool
	// Query contains the field selector of the objects to read.
	Query url.Values
}

// ListPath returns the path that lists the objects of a namespace. "" means all namespaces.
func (r Resource) ListPath(namespace string) string {
	if namespace == "" || !r.Namespaced {
		return r.Path
	}
	i := strings.LastIndexByte(r.Path, '/')
	return r.Path[:i] + "/namespaces/" + namespace + r.Path[i:]
}

// FindResource finds a kind. name has the form of the names in Config.Kinds. It uses the
// version that the API server prefers.
func FindResource(ctx context.Context, c *kube.Client, name string) (Resource, error) {
	k := kind(name)
	versions := []string{"v1"}
	if k.group() != "" {
		var err error
		if versions, err = groupVersions(ctx, c, k.group()); err != nil {
			return Resource{}, err
		}
	}
	for _, version := range versions {
		path := "/apis/" + version
		if k.group() == "" {
			path = "/api/" + version
		}
		var list struct {
			Resources []struct {
				Name       string `json:"name"`
				Kind       string `json:"kind"`
				Namespaced bool   `json:"namespaced"`
			} `json:"resources"`
		}
		err := c.Get(ctx, path, nil, &list)
		if err != nil && kube.StatusCode(err) != http.StatusNotFound {
			return Resource{}, err
		}
		for _, one := range list.Resources {
			if one.Name == k.resource() {
				return Resource{path + "/" + one.Name, version, one.Kind, one.Namespaced, k.query()}, nil
			}
		}
	}
	return Resource{}, nil
}

// groupVersions returns the versions of a group. The preferred version comes first.
func groupVersions(ctx context.Context, c *kube.Client, group string) ([]string, error) {
	type version struct {
		Name string `json:"groupVersion"`
	}
	var g struct {
		Preferred version   `json:"preferredVersion"`
		Versions  []version `json:"versions"`
	}
	err := c.Get(ctx, "/apis/"+group, nil, &g)
	if kube.StatusCode(err) == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, v := range append([]version{g.Preferred}, g.Versions...) {
		if v.Name != "" && !slices.Contains(out, v.Name) {
			out = append(out, v.Name)
		}
	}
	return out, nil
}
