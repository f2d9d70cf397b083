package objects

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"crowsnest/internal/times"
	"crowsnest/sources/internal/logline"
)

// Machines configures the comparison of the cluster's Nodes with its Cluster API Machines. A
// Node without a Machine is never upgraded, and no controller reports it.
//
// A tenant may create a Machine that names any Node, so a Machine has a Node only if the Node
// agrees. A Node with annotations of Cluster API agrees if they name the Machine. A Node
// without them agrees if both have the same provider ID, or if the Machine is in Namespace.
type Machines struct {
	// Namespace and Cluster identify the object that describes this cluster, such as fleet-local and local on
	// Harvester. By default, the Machines of a cluster count if at least one of them is a node here.
	Namespace string `yaml:"namespace" bounds:"0,4096"`
	Cluster   string `yaml:"cluster" bounds:"0,4096"`
}

// comparison is the state of the view machines. It is guarded by Source.turn. Changes of last also require Source.mu.
type comparison struct {
	nodes, machines *reader // readers of Nodes and Machines; nil if they are not compared
	at              time.Time
	last            unpaired
}

// unpaired holds the Nodes without a Machine and the Machines without a Node that a comparison found. It is part of the
// saved positions.
type unpaired struct {
	Nodes    []string `json:"nodes,omitempty"`
	Machines []string `json:"machines,omitempty"`
}

// pairing holds the fields by which Nodes and Machines are compared.
type pairing struct {
	providerID                    string
	machineNamespace, machineName string // name of the Machine that Cluster API recorded in the annotations of a Node
	cluster, node                 string // name of the Cluster of a Machine, and of the Node that the Machine names
}

func readPairing(in json.RawMessage) (*pairing, error) {
	var r struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec struct {
			Cluster    string `json:"clusterName"`
			ProviderID string `json:"providerID"`
		} `json:"spec"`
		Status struct {
			NodeRef struct {
				Name string `json:"name"`
			} `json:"nodeRef"`
		} `json:"status"`
	}
	if err := json.Unmarshal(in, &r); err != nil {
		return nil, fmt.Errorf("read a Node or Machine: %w", err)
	}
	recorded := r.Metadata.Annotations
	return &pairing{
		providerID: r.Spec.ProviderID, cluster: r.Spec.Cluster, node: r.Status.NodeRef.Name,
		machineNamespace: recorded["cluster.x-k8s.io/cluster-namespace"], machineName: recorded["cluster.x-k8s.io/machine"],
	}, nil
}

func (o *object) clusterName() string { return o.namespace + "/" + o.pairing.cluster }

// claimsNode reports whether a Machine states that it is the given Node. Nodes of other
// clusters may have the same name. If both have a provider ID, it must be the same.
func (o *object) claimsNode(node *object) bool {
	if node == nil {
		return false
	}
	a, b := o.pairing.providerID, node.pairing.providerID
	return o.pairing.node == node.name && (a == b || a == "" || b == "")
}

func (m Machines) isPair(machine, node *object) bool {
	if !machine.claimsNode(node) {
		return false
	}
	n := node.pairing
	if n.machineName != "" {
		return n.machineName == machine.name && (n.machineNamespace == machine.namespace || n.machineNamespace == "")
	}
	return n.providerID != "" && n.providerID == machine.pairing.providerID || m.Namespace != "" && m.Namespace == machine.namespace
}

// compareMachines writes the lines of a comparison if one is due, and if all objects of both
// kinds are remembered. The caller holds turn.
func (s *Source) compareMachines() {
	c := &s.comparison
	if c.machines == nil || c.machines.absent || c.machines.leftOut+c.nodes.leftOut > 0 || c.machines.progress.IsZero() || c.nodes.progress.IsZero() {
		return
	}
	at := times.Min(c.nodes.progress, c.machines.progress)
	if at.Sub(c.at) < s.cfg.Interval {
		return
	}
	c.at = at
	machines := slices.SortedFunc(maps.Values(c.machines.objects), func(a, b *object) int { return cmp.Compare(a.key(), b.key()) })
	texts, now := s.cfg.Machines.compare(c.nodes.objects, machines, c.last)
	lines := make([]line, len(texts))
	for i, text := range texts {
		lines[i] = line{machinesView, "", text}
	}
	s.writeLines(lines, at, func() { c.last = now })
}

// compare returns the lines of one comparison, and the Nodes and Machines without a counterpart. last holds the Nodes
// and Machines without a counterpart in the previous comparison.
func (m Machines) compare(nodes map[string]*object, machines []*object, last unpaired) (lines []string, now unpaired) {
	write := func(msg string, pairs ...string) { lines = append(lines, logline.Format(msg, pairs...)) }
	own, claimed := map[string]bool{}, map[string][]string{}
	for _, machine := range machines {
		if node := nodes[machine.pairing.node]; m.isPair(machine, node) {
			own[machine.clusterName()] = true
		} else if machine.claimsNode(node) {
			claimed[node.name] = append(claimed[node.name], machine.key())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(claimed)) {
		write("node is claimed by other machines", "node", name, "machines", strconv.Itoa(len(claimed[name])), "first", claimed[name][0])
	}
	selected, nodeCount := m.Namespace != "" || m.Cluster != "", strconv.Itoa(len(nodes))
	all := len(machines)
	machines = slices.DeleteFunc(machines, func(o *object) bool {
		return !selected && !own[o.clusterName()] || m.Namespace != "" && o.namespace != m.Namespace || m.Cluster != "" && o.pairing.cluster != m.Cluster
	})
	if len(machines) == 0 && !selected {
		write("no machine belongs to these nodes", "nodes", nodeCount, "machines", strconv.Itoa(all))
		return lines, last
	}
	machineOf, listed := map[string]*object{}, map[string]bool{}
	for _, machine := range machines {
		if node := nodes[machine.pairing.node]; m.isPair(machine, node) {
			machineOf[node.name], listed[machine.key()] = machine, true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		if machine := machineOf[name]; machine != nil {
			write("node has a machine", "node", name, "machine", machine.key(), "cluster", machine.clusterName())
			continue
		}
		now.Nodes = append(now.Nodes, name)
		write("node has no machine", "node", name)
	}
	for _, machine := range machines {
		if key := machine.key(); !listed[key] && !machine.isDeleted() {
			listed[key] = true
			now.Machines = append(now.Machines, key)
			phase := ""
			if p := machine.phase(); p != nil {
				phase = p.value.Value()
			}
			write("machine has no node", "machine", key, "cluster", machine.clusterName(), "phase", phase)
		}
	}
	for _, name := range last.Nodes {
		if nodes[name] == nil {
			write("node is gone", "node", name)
		}
	}
	for _, name := range last.Machines {
		if !listed[name] {
			write("machine is gone", "machine", name)
		}
	}
	counts := []string{"nodes", nodeCount, "machines", strconv.Itoa(len(machines))}
	if len(now.Nodes)+len(now.Machines) == 0 {
		write("nodes and machines agree", counts...)
	} else {
		write("nodes and machines differ", append(counts,
			"nodes_without_machine", strconv.Itoa(len(now.Nodes)), "machines_without_node", strconv.Itoa(len(now.Machines)))...)
	}
	return lines, now
}
