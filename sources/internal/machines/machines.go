// Package machines compares the Nodes of a cluster with its Cluster API Machines and
// writes the results as log lines, so that rules can match a state that nobody logs: a
// node without a Machine is never upgraded, and no controller reports it.
//
// A comparison writes one line for each node, one for each Machine without a node, and a
// summary. The lines are:
//
//	msg="node has no machine" node=NODE
//	msg="node has a machine" node=NODE machine=NAMESPACE/NAME cluster=NAMESPACE/NAME
//	msg="node is gone" node=NODE
//	msg="machine has no node" machine=NAMESPACE/NAME cluster=NAMESPACE/NAME phase=PHASE
//	msg="machine is gone" machine=NAMESPACE/NAME
//	msg="nodes and machines agree" nodes=4 machines=4
//	msg="nodes and machines differ" nodes=4 machines=3 nodes_without_machine=1 machines_without_node=0
//	msg="no machine belongs to these nodes" nodes=4 machines=7
//	msg="node is claimed by other machines" node=NODE machines=2 first=NAMESPACE/NAME
//
// A tenant may create a Machine that names any node, so a Machine has a node only if the
// Node agrees: its annotations name the Machine, as Cluster API writes them, or without
// such annotations both have one provider ID, or the Machine is in the namespace of the
// configuration. The last line counts the Machines that only claim a node.
//
// The removal of an object is reported once, and only if it had no counterpart before.
// A Machine that is being deleted counts as removed, unless it still has its node. The
// line "no machine belongs to these nodes" states that the API server manages clusters
// of which none is its own; the comparison then writes no line about their nodes. These
// texts do not change.
package machines

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"crowsnest/sources/internal/logline"
)

// Node is the part of a Node that is compared.
type Node struct {
	Name, ProviderID string
	// Machine is the Machine that Cluster API recorded in the Node's annotations; its
	// namespace is missing if Cluster API did not record one.
	Machine Reference
}

// Reference names an object.
type Reference struct{ Namespace, Name string }

// Machine is the part of a Machine that is compared.
type Machine struct {
	Namespace, Name, Cluster string
	ProviderID, Node, Phase  string
	Deleted                  bool // it is being deleted
}

// ReadNode decodes a Node.
func ReadNode(in json.RawMessage) (Node, error) {
	var n struct {
		Metadata struct {
			Name        string            `json:"name"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec struct {
			ProviderID string `json:"providerID"`
		} `json:"spec"`
	}
	err := json.Unmarshal(in, &n)
	recorded := n.Metadata.Annotations
	return Node{
		Name: n.Metadata.Name, ProviderID: n.Spec.ProviderID,
		Machine: Reference{recorded["cluster.x-k8s.io/cluster-namespace"], recorded["cluster.x-k8s.io/machine"]},
	}, err
}

// ReadMachine decodes a Machine of any version.
func ReadMachine(in json.RawMessage) (Machine, error) {
	var m struct {
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
	err := json.Unmarshal(in, &m)
	return Machine{
		Namespace: m.Metadata.Namespace, Name: m.Metadata.Name, Cluster: m.Spec.Cluster,
		ProviderID: m.Spec.ProviderID, Node: m.Status.NodeRef.Name, Phase: m.Status.Phase, Deleted: !m.Metadata.DeletedAt.IsZero(),
	}, err
}

func (m Machine) name() string    { return m.Namespace + "/" + m.Name }
func (m Machine) cluster() string { return m.Namespace + "/" + m.Cluster }

// claims reports whether the Machine says that it is the node. Nodes of other clusters may
// have the same name; the provider ID distinguishes them if both have one.
func (m Machine) claims(n Node) bool {
	a, b := m.ProviderID, n.ProviderID
	return m.Node == n.Name && (a == b || a == "" || b == "")
}

// Selection names the Cluster that the nodes belong to. By default, Machines count if
// their Cluster has at least one Machine that is a node here.
type Selection struct{ Namespace, Cluster string }

func (s Selection) given() bool { return s.Namespace != "" || s.Cluster != "" }

// is reports whether the Machine is the node. A tenant can write any node into a Machine,
// but nothing into the Node: the Machine that the Node's annotations name is the node, and
// without them a Machine with the Node's provider ID or of a selected Cluster.
func (s Selection) is(m Machine, n Node) bool {
	if !m.claims(n) {
		return false
	}
	if r := n.Machine; r.Name != "" {
		return r.Name == m.Name && (r.Namespace == m.Namespace || r.Namespace == "")
	}
	return n.ProviderID != "" && n.ProviderID == m.ProviderID || s.Namespace != "" && s.Namespace == m.Namespace
}

// own returns the Machines of this cluster.
func (s Selection) own(nodes map[string]Node, all []Machine) []Machine {
	ours := map[string]bool{}
	for _, m := range all {
		n, there := nodes[m.Node]
		if s.given() || there && s.is(m, n) {
			ours[m.cluster()] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(m Machine) bool {
		return !ours[m.cluster()] || s.Namespace != "" && m.Namespace != s.Namespace || s.Cluster != "" && m.Cluster != s.Cluster
	})
}

// Lacking are the objects without a counterpart. It is part of the saved positions.
type Lacking struct {
	Nodes    []string `json:"nodes,omitempty"`
	Machines []string `json:"machines,omitempty"`
	// Compared reports whether Machines could be listed at least once.
	Compared bool `json:"compared,omitempty"`
}

// Compare returns the lines of one comparison. last are the objects without a counterpart
// in the previous one.
func (s Selection) Compare(nodes map[string]Node, all []Machine, last Lacking) (lines []string, now Lacking) {
	own := s.own(nodes, all)
	lines, now = []string{foreign(len(nodes), len(all))}, last
	if len(own) > 0 || s.given() {
		lines, now = s.report(nodes, own, last)
	}
	lines = append(s.claims(nodes, all), lines...)
	now.Compared = true
	return lines, now
}

// report returns the lines about the Machines of this cluster. last are the objects without a
// counterpart in the previous one.
func (s Selection) report(nodes map[string]Node, own []Machine, last Lacking) (lines []string, now Lacking) {
	slices.SortFunc(own, func(a, b Machine) int { return cmp.Compare(a.name(), b.name()) })
	of, there := map[string]Machine{}, map[string]bool{}
	for _, m := range own {
		if n, ok := nodes[m.Node]; ok && s.is(m, n) {
			of[n.Name] = m
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
		if there[m.name()] || m.Deleted {
			continue
		}
		there[m.name()] = true
		now.Machines = append(now.Machines, m.name())
		lines = append(lines, logline.Format("machine has no node", "machine", m.name(), "cluster", m.cluster(), "phase", m.Phase))
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

// claims returns a line for each node that is claimed by Machines which are not the node.
func (s Selection) claims(nodes map[string]Node, all []Machine) []string {
	claims := map[string][]string{}
	for _, m := range all {
		if n, ok := nodes[m.Node]; ok && m.claims(n) && !s.is(m, n) {
			claims[n.Name] = append(claims[n.Name], m.name())
		}
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		lines = append(lines, logline.Format("node is claimed by other machines", "node", name,
			"machines", strconv.Itoa(len(claims[name])), "first", slices.Min(claims[name])))
	}
	return lines
}

func summary(nodes, machines int, now Lacking) string {
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
