package kubernetes

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"crowsnest/kube"
	"crowsnest/sources"
)

const (
	// defaultMaxStreams is how many logs one process follows at most.
	defaultMaxStreams = 200
	// defaultLookBack is the maximum age of lines that are read without a position.
	defaultLookBack = 15 * time.Minute
)

// Config selects the pods whose logs are followed.
type Config struct {
	// Name is the source's name if there are several of the kind. Default: the kind.
	Name string `yaml:"name" bounds:"0,4096"`
	// Kubeconfig is the path of a file. The default is the service account of the
	// pod that this program runs in.
	Kubeconfig string `yaml:"kubeconfig" bounds:"0,4096"`
	// Namespaces are the namespaces to read one by one, which needs a Role in each. If
	// empty, the source reads all at once, which needs a ClusterRole.
	Namespaces []string `yaml:"namespaces" bounds:"0,1000,4096"`
	// Selector is a label selector of pods, such as "app in (a, b), tier!=web".
	Selector string `yaml:"selector" bounds:"0,4096"`
	// FieldSelector is a field selector of pods, such as "spec.nodeName=node-1".
	FieldSelector string `yaml:"field_selector" bounds:"0,4096"`
	// Include and Exclude are globs of namespaces. An empty Include includes all;
	// exclusion wins.
	Include []string `yaml:"include" bounds:"0,1000,4096"`
	Exclude []string `yaml:"exclude" bounds:"0,1000,4096"`
	// LookBack is the maximum age of lines that are read without a saved position. Default
	// 15m.
	LookBack time.Duration `yaml:"look_back" bounds:"0s,1y"`
	// MaxStreams bounds the logs that are followed at the same time. Logs beyond
	// it are not read, and the source reports that. Default 200.
	MaxStreams int `yaml:"max_streams" bounds:"0,1000000"`
	// Labels are added to every stream, for example cluster.
	Labels map[string]string `yaml:"labels" bounds:"0,64,4096"`

	// SelfNamespace and SelfPod name the pod that this program runs in. Its own
	// log is never read: it contains lines that it matched.
	SelfNamespace string `yaml:"-"`
	SelfPod       string `yaml:"-"`
	// Clock is time.Now; tests set another one.
	Clock func() time.Time `yaml:"-"`
	// Transport replaces the network in tests.
	Transport http.RoundTripper `yaml:"-"`
}

// podLabels come from the pod. Only the first three are part of the identity of a
// stream, so that the same line read from the kubelet's files has the same
// fingerprint.
var podLabels = []string{"namespace", "pod", "container", "node_name", "image", "app", "workload"}

// Validate returns all errors of the configuration.
func (c Config) Validate() error {
	errs := kube.CheckNamespaces("kubernetes", c.Namespaces, "for a pattern, use include", "which selects all, and use include")
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf("kubernetes: "+format, args...)) }
	if _, err := labels.Parse(c.Selector); err != nil {
		add("selector %q cannot be read (%v); write it as for kubectl get pods -l", c.Selector, err)
	}
	if _, err := fields.ParseSelector(c.FieldSelector); err != nil {
		add("field_selector %q cannot be read (%v); write it as for kubectl get pods --field-selector", c.FieldSelector, err)
	}
	globs := func(key string, all []string) {
		for _, g := range all {
			if _, err := path.Match(g, ""); err != nil {
				add("%s: %q is not a glob; close its [ or remove a trailing \\", key, g)
			}
		}
	}
	globs("include", c.Include)
	globs("exclude", c.Exclude)
	return errors.Join(append(errs, sources.CheckLabels("kubernetes", c.Labels, "the pod", podLabels...)...)...)
}

func (c Config) withDefaults() Config {
	c.Name = cmp.Or(c.Name, "kubernetes")
	c.LookBack = cmp.Or(c.LookBack, defaultLookBack)
	c.MaxStreams = cmp.Or(c.MaxStreams, defaultMaxStreams)
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return c
}

// selects reports whether a pod's logs are wanted, judging by its name.
func (c Config) selects(ns, pod string) bool {
	if c.SelfPod != "" && pod == c.SelfPod && (ns == c.SelfNamespace || c.SelfNamespace == "") {
		return false
	}
	is := func(glob string) bool { ok, err := path.Match(glob, ns); return ok && err == nil }
	return !slices.ContainsFunc(c.Exclude, is) &&
		(len(c.Include) == 0 || slices.ContainsFunc(c.Include, is))
}
