package kubernetes

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"crowsnest/internal/kube"
	"crowsnest/sources"
)

// Config selects the pods whose logs are followed.
type Config struct {
	sources.Common `yaml:",inline"`
	sources.OwnPod `yaml:",inline"`
	// Kubeconfig is the path of a kubeconfig file. Default: the service account of this program's pod.
	Kubeconfig string `yaml:"kubeconfig" bounds:"0,4096"`
	// Namespaces are the namespaces to read one by one, which requires a Role in each of them.
	// If empty, the source reads all namespaces at once, which requires a ClusterRole.
	Namespaces []string `yaml:"namespaces" bounds:"0,1000,4096"`
	// Selector is a label selector of pods, such as "app in (a, b), tier!=web".
	Selector string `yaml:"selector" bounds:"0,4096"`
	// FieldSelector is a field selector of pods, such as "spec.nodeName=node-1".
	FieldSelector string `yaml:"field_selector" bounds:"0,4096"`
	// Include and Exclude are globs of namespaces. An empty Include includes all. Exclude takes precedence.
	Include []string `yaml:"include" bounds:"0,1000,4096"`
	Exclude []string `yaml:"exclude" bounds:"0,1000,4096"`
	// LookBack is the maximum age of the lines that are read if there is no saved position. Default 15m.
	LookBack time.Duration `yaml:"look_back" bounds:"0s,1y"`
	// MaxStreams is the largest number of logs that are followed at the same time. Further logs
	// are not read, which the source reports. Default 200.
	MaxStreams int `yaml:"max_streams" bounds:"0,1000000"`
	// Labels are labels that are added to every stream, for example cluster.
	Labels map[string]string `yaml:"labels" bounds:"0,64,4096"`

	// Transport replaces the network in tests.
	Transport http.RoundTripper `yaml:"-"`
}

// podLabels are the labels that come from the pod. Only the first three identify a stream, so
// that a line has the same fingerprint as in the kubelet's files.
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
	errs = append(errs, sources.CheckGlobs("kubernetes: include", c.Include)...)
	errs = append(errs, sources.CheckGlobs("kubernetes: exclude", c.Exclude)...)
	return errors.Join(append(errs, sources.CheckLabels("kubernetes", c.Labels, "the pod", podLabels...)...)...)
}

func (c Config) selects(ns, pod string) bool {
	return !c.IsOwn(ns, pod) && !sources.MatchesAny(c.Exclude, ns) && (len(c.Include) == 0 || sources.MatchesAny(c.Include, ns))
}
