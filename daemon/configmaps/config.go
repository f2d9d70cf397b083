package configmaps

import (
	"errors"
	"fmt"

	"crowsnest/internal/kube"
	"crowsnest/internal/strictyaml"
)

// Settings selects the ConfigMaps.
type Settings struct {
	// Selector is the label selector of the ConfigMaps with rule packs, in all namespaces, such
	// as "crowsnest.io/rules=true".
	Selector string `yaml:"selector" bounds:"0,4096"`
	// Kubeconfig is the path of a kubeconfig file. Default: the service account of this program's pod.
	Kubeconfig string `yaml:"kubeconfig" bounds:"0,4096"`

	// Cluster is the cluster of the ConfigMaps. A pack reads only streams of this cluster, and streams without the
	// label cluster. Default: cluster of global.external_labels.
	Cluster string `yaml:"cluster" bounds:"0,256"`

	Keys strictyaml.Keys `yaml:"-"`
}

// Validate returns an error if the selector is empty or invalid. The error begins with a key and ends with a fix.
func (c Settings) Validate() error {
	if c.Selector == "" {
		return errors.New("selector: the selector is empty, which would read every ConfigMap of the cluster; write a label, such as crowsnest.io/rules=true")
	}
	if err := kube.CheckSelector(c.Selector); err != nil {
		return fmt.Errorf("selector: %q cannot be read (%w); write it as for kubectl get configmaps -l", c.Selector, err)
	}
	return nil
}
