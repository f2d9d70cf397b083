package events

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/common/model"

	"crowsnest/internal/lazyre"
)

const (
	// defaultLookBack is the maximum age of Events that are read without a position.
	defaultLookBack = 15 * time.Minute

	maxNamespaces = 50
	component     = "events"
)

// Config selects the Events to read.
type Config struct {
	// Name is the source's name if there are several of the kind. Default: the kind.
	Name string `yaml:"name" bounds:"0,4096"`
	// Kubeconfig is the path of a file. The default is the service account of the
	// pod that this program runs in.
	Kubeconfig string `yaml:"kubeconfig" bounds:"0,4096"`
	// Namespaces are the namespaces to read one by one, which needs a Role in each. If
	// empty, the source reads all at once, which needs a ClusterRole. Events about Nodes
	// and other objects without a namespace are in default.
	Namespaces []string `yaml:"namespaces" bounds:"0,1000,4096"`
	// LookBack is the maximum age of lines that are read without a saved position. Default
	// 15m.
	LookBack time.Duration `yaml:"look_back" bounds:"0s,1y"`
	// Labels are added to every stream, for example cluster.
	Labels map[string]string `yaml:"labels" bounds:"0,64,4096"`

	// Clock is time.Now; tests set another one.
	Clock func() time.Time `yaml:"-"`
	// Transport replaces the network in tests.
	Transport http.RoundTripper `yaml:"-"`
}

var dnsLabel = lazyre.New(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Validate returns all errors of the configuration.
func (c Config) Validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf("events: "+format, args...)) }
	for i, ns := range c.Namespaces {
		switch {
		case !dnsLabel.MatchString(ns):
			add("namespaces: %q is not the name of a namespace; list names, or remove the key to select all", ns)
		case slices.Contains(c.Namespaces[:i], ns):
			add("namespaces: %q is listed twice; remove one", ns)
		}
	}
	if len(c.Namespaces) > maxNamespaces {
		add("namespaces: %d are too many; remove the key, which selects all", len(c.Namespaces))
	}
	if c.LookBack < 0 {
		add("look_back is %v; use a duration above 0, such as 15m", c.LookBack)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
		switch {
		case !model.LegacyValidation.IsValidLabelName(name):
			add("label %q is not a label name; use letters, digits and _", name)
		case name == "component" || name == "namespace":
			add("label %q comes from the source; remove it", name)
		}
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	c.Name = cmp.Or(c.Name, "events")
	c.LookBack = cmp.Or(c.LookBack, defaultLookBack)
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return c
}
