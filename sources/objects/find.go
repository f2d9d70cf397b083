package objects

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"crowsnest/kube"
)

// Resource is a kind of objects as an API server describes it.
type Resource struct {
	// Path is the path that lists all objects of the kind. It is empty if the API server does
	// not have the kind.
	Path string
	// APIVersion and Kind are those of the objects.
	APIVersion, Kind string
	Namespaced       bool
	// Query holds the field selector that selects the objects to read.
	Query url.Values
}

// FindResource looks for a kind, whose name is one as in Config.Kinds. It uses the version that
// the API server prefers.
func FindResource(ctx context.Context, c *kube.Client, name string) (Resource, error) {
	return findKind(ctx, c, kind(name))
}

// ListPath returns the path that lists the objects of a namespace. "" means all.
func (r Resource) ListPath(namespace string) string {
	if namespace == "" || !r.Namespaced {
		return r.Path
	}
	i := strings.LastIndexByte(r.Path, '/')
	return r.Path[:i] + "/namespaces/" + namespace + r.Path[i:]
}

func findKind(ctx context.Context, c *kube.Client, k kind) (Resource, error) {
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
