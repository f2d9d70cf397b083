package objects

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"crowsnest/sources"
)

// Config selects the objects whose state becomes lines.
type Config struct {
	sources.Common `yaml:",inline"`
	// Kubeconfig is the path of a kubeconfig file. Default: the service account of this program's pod.
	Kubeconfig string `yaml:"kubeconfig" bounds:"0,4096"`
	// Kinds are the kinds to read, such as nodes or machines.cluster.x-k8s.io. `kubectl api-resources -o name` lists
	// the names. Default: the kinds in docs/objects.md.
	Kinds []string `yaml:"kinds" bounds:"0,100,4096"`
	// Machines enables the comparison of Nodes with the Machines of Cluster API. Kinds must
	// contain nodes and machines.cluster.x-k8s.io.
	Machines *Machines `yaml:"machines"`
	// Interval is the time after which the lines of a state are repeated. Default 1m.
	Interval time.Duration `yaml:"interval" bounds:"0|10s,1h"`
	// MaxObjects is the largest number of objects that are remembered, with about 1 KiB each. The namespaces share
	// this number. Default 50000.
	MaxObjects int `yaml:"max_objects" bounds:"0,1000000"`
	// Labels are labels that are added to every stream, for example cluster.
	Labels map[string]string `yaml:"labels" bounds:"0,64,4096"`
	// Transport replaces the network in tests.
	Transport http.RoundTripper `yaml:"-"`
}

// Validate returns all errors of the configuration.
func (c Config) Validate() error {
	var errs []error
	for i, name := range c.Kinds {
		if err := kind(name).validate(); err != nil {
			errs = append(errs, fmt.Errorf("objects: %w", err))
		} else if slices.Contains(c.Kinds[:i], name) {
			errs = append(errs, fmt.Errorf("objects: kinds has %q twice; remove one", name))
		}
	}
	if c.Machines != nil && len(c.Kinds) > 0 && (!slices.Contains(c.Kinds, string(nodes)) || !slices.Contains(c.Kinds, string(machines))) {
		errs = append(errs, fmt.Errorf("objects: machines compares %s with %s; add both to kinds", nodes, machines))
	}
	return errors.Join(append(errs, sources.CheckLabels("objects", c.Labels, "the object", "component", "namespace")...)...)
}

// Components returns the possible values of the label component.
func (c Config) Components() []string {
	out := []string{"leases", "conditions", "deleting", "phases"}
	if c.Machines != nil {
		out = append(out, machinesView.component())
	}
	return out
}

func (c Config) withDefaults() Config {
	c.Common = c.WithDefaults("objects")
	c.Interval = cmp.Or(c.Interval, time.Minute)
	c.MaxObjects = cmp.Or(c.MaxObjects, 50000)
	if len(c.Kinds) == 0 {
		c.Kinds = DefaultKinds()
	}
	return c
}
