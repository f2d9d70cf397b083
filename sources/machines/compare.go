package machines

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"crowsnest/sources/internal/kube"
	"crowsnest/sources/internal/logline"
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

type node struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		ProviderID string `json:"providerID"`
	} `json:"spec"`
}

// machine is the part of a Machine that all versions share.
type machine struct {
	Metadata struct {
		Name      string    `json:"name"`
		Namespace string    `json:"namespace"`
		DeletedAt time.Time `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		Cluster    string `json:"clusterName"`
		ProviderID string `json:"providerID"`
	} `json:"spec"`
	Status struct {
		Phase   string `json:"phase"`
		NodeRef struct {
			Name string `json:"name"`
		} `json:"nodeRef"`
	} `json:"status"`
}

func (m machine) name() string    { return m.Metadata.Namespace + "/" + m.Metadata.Name }
func (m machine) cluster() string { return m.Metadata.Namespace + "/" + m.Spec.Cluster }

// is reports whether the Machine is the node. Nodes of other clusters may have the same
// name; the provider ID distinguishes them if both have one.
func (m machine) is(n node) bool {
	a, b := m.Spec.ProviderID, n.Spec.ProviderID
	return m.Status.NodeRef.Name == n.Metadata.Name && (a == b || a == "" || b == "")
}

func (s *Source) nodes(ctx context.Context) (map[string]node, error) {
	out := map[string]node{}
	_, err := s.client.List(ctx, "/api/v1/nodes", nil, func(raw json.RawMessage) error {
		var n node
		if err := json.Unmarshal(raw, &n); err != nil {
			return err
		}
		out[n.Metadata.Name] = n
		return tooMany(len(out))
	})
	return out, err
}

func (s *Source) machines(ctx context.Context) ([]machine, error) {
	version, err := s.version(ctx)
	if err != nil {
		return nil, err
	}
	path := "/apis/" + group + "/" + version
	if s.cfg.Namespace != "" {
		path += "/namespaces/" + s.cfg.Namespace
	}
	var out []machine
	_, err = s.client.List(ctx, path+"/machines", nil, func(raw json.RawMessage) error {
		var m machine
		if err := json.Unmarshal(raw, &m); err != nil {
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

// own returns the Machines of this cluster.
func (s *Source) own(nodes map[string]node, all []machine) []machine {
	ours := map[string]bool{}
	for _, m := range all {
		n, there := nodes[m.Status.NodeRef.Name]
		if s.cfg.Namespace != "" || s.cfg.Cluster != "" || there && m.is(n) {
			ours[m.cluster()] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(m machine) bool {
		return !ours[m.cluster()] || s.cfg.Cluster != "" && m.Spec.Cluster != s.cfg.Cluster
	})
}

// lacking are the objects without a counterpart.
type lacking struct {
	Nodes    []string `json:"nodes,omitempty"`
	Machines []string `json:"machines,omitempty"`
	// Compared reports whether Machines could be listed at least once.
	Compared bool `json:"compared,omitempty"`
}

// report returns the lines of one comparison. last are the objects without a
// counterpart in the previous one.
func report(nodes map[string]node, own []machine, last lacking) (lines []string, now lacking) {
	slices.SortFunc(own, func(a, b machine) int { return cmp.Compare(a.name(), b.name()) })
	of, there := map[string]machine{}, map[string]bool{}
	for _, m := range own {
		if n, ok := nodes[m.Status.NodeRef.Name]; ok && m.is(n) {
			of[n.Metadata.Name] = m
			there[m.name()] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		if m, ok := of[name]; ok {
			lines = append(lines, logline.Format("node has a machine", "node", name, "machine", m.name(), "cluster", m.cluster()))
			continue
		}
		now.Nodes = append(now.Nodes, name)
		lines = append(lines, logline.Format("node has no machine", "node", name))
	}
	for _, m := range own {
		if there[m.name()] || !m.Metadata.DeletedAt.IsZero() {
			continue
		}
		there[m.name()] = true
		now.Machines = append(now.Machines, m.name())
		lines = append(lines, logline.Format("machine has no node", "machine", m.name(), "cluster", m.cluster(), "phase", m.Status.Phase))
	}
	for _, name := range last.Nodes {
		if _, ok := nodes[name]; !ok {
			lines = append(lines, logline.Format("node is gone", "node", name))
		}
	}
	for _, name := range last.Machines {
		if !there[name] {
			lines = append(lines, logline.Format("machine is gone", "machine", name))
		}
	}
	return append(lines, summary(len(nodes), len(own), now)), now
}

func summary(nodes, machines int, now lacking) string {
	n, m := strconv.Itoa(nodes), strconv.Itoa(machines)
	if len(now.Nodes)+len(now.Machines) == 0 {
		return logline.Format("nodes and machines agree", "nodes", n, "machines", m)
	}
	return logline.Format("nodes and machines differ", "nodes", n, "machines", m,
		"nodes_without_machine", strconv.Itoa(len(now.Nodes)), "machines_without_node", strconv.Itoa(len(now.Machines)))
}

// foreign is the line for a cluster whose Machines the API server does not manage.
func foreign(nodes, machines int) string {
	return logline.Format("no machine belongs to these nodes", "nodes", strconv.Itoa(nodes), "machines", strconv.Itoa(machines))
}
