package objects

import (
	"encoding/json"
	"maps"
	"time"

	"crowsnest/internal/times"
	pairs "crowsnest/sources/internal/machines"
)

// Machines compares the Nodes of the cluster with its Cluster API Machines.
type Machines struct {
	// Namespace and Cluster name the object of this cluster itself, such as fleet-local
	// and local on Harvester. By default, Machines count if at least one Machine of their
	// cluster is a node here.
	Namespace string `yaml:"namespace" bounds:"0,4096"`
	Cluster   string `yaml:"cluster" bounds:"0,4096"`
}

// comparison is the state of the view machines. It is guarded by turn; changes of last
// also hold mu.
type comparison struct {
	nodes, machines *reader // nil: the view is not configured
	at              time.Time
	last            pairs.Lacking
}

// pair sets the part of an object that is compared, if it is.
func (s *Source) pair(o *object, k kind, in json.RawMessage) error {
	if s.cfg.Machines == nil {
		return nil
	}
	switch k {
	case nodes:
		n, err := pairs.ReadNode(in)
		o.node = &n
		return err
	case machines:
		m, err := pairs.ReadMachine(in)
		o.machine = &m
		return err
	}
	return nil
}

// compare writes the lines of a comparison, if one is due after a reader has proved
// progress, and both kinds were read without leaving out an object. The caller holds turn.
func (s *Source) compare() {
	c := &s.comparison
	if c.machines == nil || c.machines.absent || c.machines.leftOut+c.nodes.leftOut > 0 || c.machines.progress.IsZero() || c.nodes.progress.IsZero() {
		return
	}
	at := times.Earlier(c.nodes.progress, c.machines.progress)
	if at.Sub(c.at) < s.cfg.Interval {
		return
	}
	c.at = at
	all := make([]pairs.Machine, 0, len(c.machines.objects))
	for o := range maps.Values(c.machines.objects) {
		all = append(all, *o.machine)
	}
	of := make(map[string]pairs.Node, len(c.nodes.objects))
	for o := range maps.Values(c.nodes.objects) {
		of[o.name] = *o.node
	}
	texts, now := pairs.Selection(*s.cfg.Machines).Compare(of, all, c.last)
	lines := make([]line, len(texts))
	for i, text := range texts {
		lines[i] = line{machinesView, "", text}
	}
	s.write(lines, at, func() { c.last = now })
}
