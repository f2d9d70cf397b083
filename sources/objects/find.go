package objects

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"crowsnest/kube"
)

// Resource is a kind as an API server has it.
type Resource struct {
	// Path lists all of its objects; empty if the API server does not have the kind.
	Path string
	// APIVersion and Kind are those of its objects.
	APIVersion, Kind string
	Namespaced       bool
	// Query has the field selector of the objects that are read, if not all are.
	Query url.Values
}

// Find looks for a kind with a name as in Config.Kinds, in the version that the API server
// prefers.
func Find(ctx context.Context, c *kube.Client, name string) (Resource, error) {
	return find(ctx, c, kind(name))
}

// Within returns the path that lists the objects of a namespace; empty means all.
func (r Resource) Within(namespace string) string {
	if namespace == "" || !r.Namespaced {
		return r.Path
	}
	i := strings.LastIndexByte(r.Path, '/')
	return r.Path[:i] + "/namespaces/" + namespace + r.Path[i:]
}

func find(ctx context.Context, c *kube.Client, k kind) (Resource, error) {
	versions := []string{"v1"}
	if k.group() != "" {
		var err error
		if versions, err = versionsOf(ctx, c, k.group()); err != nil {
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
		if err != nil && kube.Code(err) != http.StatusNotFound {
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

// versionsOf returns the versions of a group, the preferred one first.
func versionsOf(ctx context.Context, c *kube.Client, group string) ([]string, error) {
	type version struct {
		Name string `json:"groupVersion"`
	}
	var g struct {
		Preferred version   `json:"preferredVersion"`
		Versions  []version `json:"versions"`
	}
	err := c.Get(ctx, "/apis/"+group, nil, &g)
	if kube.Code(err) == http.StatusNotFound {
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
