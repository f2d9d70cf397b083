package machines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"crowsnest/kube"
	"crowsnest/sources/internal/machines"
)

const (
	group = "cluster.x-k8s.io"
	// maxObjects bounds the nodes, and the Machines.
	maxObjects = 20000
)

var (
	// errNone: the API has no Machines.
	errNone = errors.New("the Cluster API is not installed: there is no API group " + group + "; install it, or remove the source machines")
	// errGone: the API had Machines before.
	errGone = errors.New("the Cluster API was removed: the API group " + group + " is gone, so Machines can no longer be compared; install it again, or remove the source machines")
)

func (s *Source) nodes(ctx context.Context) (map[string]machines.Node, error) {
	out := map[string]machines.Node{}
	_, err := s.client.List(ctx, "/api/v1/nodes", nil, func(raw json.RawMessage) error {
		n, err := machines.ReadNode(raw)
		if err != nil {
			return err
		}
		out[n.Name] = n
		return tooMany(len(out))
	})
	return out, err
}

func (s *Source) machines(ctx context.Context) ([]machines.Machine, error) {
	version, err := s.version(ctx)
	if err != nil {
		return nil, err
	}
	path := "/apis/" + group + "/" + version
	if s.cfg.Namespace != "" {
		path += "/namespaces/" + s.cfg.Namespace
	}
	var out []machines.Machine
	_, err = s.client.List(ctx, path+"/machines", nil, func(raw json.RawMessage) error {
		m, err := machines.ReadMachine(raw)
		if err != nil {
			return err
		}
		out = append(out, m)
		return tooMany(len(out))
	})
	return out, err
}

func tooMany(n int) error {
	if n > maxObjects {
		return fmt.Errorf("there are more than %d objects", maxObjects)
	}
	return nil
}

func (s *Source) version(ctx context.Context) (string, error) {
	var g struct {
		Preferred struct {
			Version string `json:"version"`
		} `json:"preferredVersion"`
		Versions []struct {
			Version string `json:"version"`
		} `json:"versions"`
	}
	err := s.client.Get(ctx, "/apis/"+group, nil, &g)
	if kube.Code(err) == http.StatusNotFound {
		return "", errNone
	}
	if err != nil {
		return "", err
	}
	if g.Preferred.Version == "" && len(g.Versions) > 0 {
		g.Preferred.Version = g.Versions[0].Version
	}
	if g.Preferred.Version == "" || strings.Contains(g.Preferred.Version, "/") {
		return "", errNone
	}
	return g.Preferred.Version, nil
}
