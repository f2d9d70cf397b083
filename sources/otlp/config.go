package otlp

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"crowsnest/sources"
)

// ownLabels maps resource attributes to the labels that rules select by.
var ownLabels = map[string]string{
	attrCluster: "cluster", "k8s.namespace.name": "namespace", "k8s.pod.name": "pod", "k8s.container.name": "container",
	attrNode: "node_name", "service.name": "service_name",
}

// Resource attributes that name a sender.
const (
	attrCluster = "k8s.cluster.name"
	attrNode    = "k8s.node.name"
	attrHost    = "host.name"
)

// Config sets where collectors connect, and how they are authenticated.
type Config struct {
	sources.Common `yaml:",inline"`
	sources.OwnPod `yaml:",inline"`
	// ListenAddress is the address to which collectors send POST /v1/logs. Default :4318.
	ListenAddress string `yaml:"listen_address" bounds:"0,4096"`
	// WebConfigFile is a web configuration file of exporter-toolkit. It configures TLS, client
	// certificates and basic authentication.
	WebConfigFile string `yaml:"web_config_file" bounds:"0,4096"`
	// BearerTokenFile holds the token that collectors must present. It is read again when it changes.
	BearerTokenFile string `yaml:"bearer_token_file" bounds:"0,4096"`
	// Labels maps further resource attributes to labels that rules use, for example {container.image.name: image}. The
	// attributes of Kubernetes and service.name are always labels.
	Labels map[string]string `yaml:"labels" bounds:"0,64,4096"`
	// MaxBody is the largest size of a request in MiB, after decompression. A larger request is
	// refused, and the collector drops it. Default 8.
	MaxBody int `yaml:"max_body_mib" bounds:"0,256"`
	// MaxRate is the largest rate of all requests in MiB per second, after decompression.
	// Collectors that exceed it have to send again. Default 32.
	MaxRate int `yaml:"max_rate_mib" bounds:"0,4096"`
	// MaxSenders is the largest number of known senders. A sender is a node, or all resources
	// that name no node. Default 500.
	MaxSenders int `yaml:"max_senders" bounds:"0,10000"`
	// Lateness is the time after the delivery of a record during which its sender may still deliver an older record.
	// It must be longer than max_interval of the collector's retry_on_failure. Default 1m.
	Lateness time.Duration `yaml:"lateness" bounds:"0|1s,1h"`
	// ForgetAfter is the time for which decisions wait for a sender that sends nothing. Default 1h.
	ForgetAfter time.Duration `yaml:"forget_after" bounds:"0|5s,30d"`

	// Leads reports whether this process may accept records now, and otherwise who may. nil means that it always may.
	Leads func() (leads bool, who string) `yaml:"-"`
}

func (c Config) withDefaults() Config {
	c.Common = c.WithDefaults("otlp")
	c.ListenAddress = cmp.Or(c.ListenAddress, ":4318")
	c.MaxBody = cmp.Or(c.MaxBody, 8)
	c.MaxRate = cmp.Or(c.MaxRate, 32)
	c.MaxSenders = cmp.Or(c.MaxSenders, 500)
	c.Lateness = cmp.Or(c.Lateness, time.Minute)
	c.ForgetAfter = cmp.Or(c.ForgetAfter, time.Hour)
	return c
}

// IsGuarded reports whether senders are authenticated.
func (c Config) IsGuarded() bool { return c.WebConfigFile != "" || c.BearerTokenFile != "" }

// StreamLabels returns the sorted names of the labels that streams can have.
func (c Config) StreamLabels() []string {
	names := slices.Concat(slices.Collect(maps.Values(ownLabels)), slices.Collect(maps.Values(c.Labels)))
	slices.Sort(names)
	return slices.Compact(names)
}

// Validate returns all errors of the configuration, each with advice. It does no I/O.
func (c Config) Validate() error {
	d := c.withDefaults()
	var errs []error
	if _, _, err := net.SplitHostPort(d.ListenAddress); err != nil {
		errs = append(errs, fmt.Errorf("listen_address: %q is not an address; write it like :4318 or 10.0.0.1:4318", c.ListenAddress))
	}
	if d.ForgetAfter < d.Lateness {
		errs = append(errs, fmt.Errorf("forget_after: %s is less than lateness; use at least %s", d.ForgetAfter, d.Lateness))
	}
	seen := map[string]string{}
	for _, attribute := range slices.Sorted(maps.Keys(c.Labels)) {
		label := c.Labels[attribute]
		switch {
		case ownLabels[attribute] != "":
			errs = append(errs, fmt.Errorf("labels: the attribute %s always becomes the label %s; remove it here", attribute, ownLabels[attribute]))
		case seen[label] != "":
			errs = append(errs, fmt.Errorf("labels: %s and %s both become the label %s; use two names", seen[label], attribute, label))
		}
		seen[label] = attribute
		errs = append(errs, sources.CheckLabels("labels", map[string]string{label: ""}, "a resource attribute of Kubernetes", slices.Collect(maps.Values(ownLabels))...)...)
	}
	return errors.Join(errs...)
}
