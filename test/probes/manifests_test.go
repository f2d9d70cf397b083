package probes

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"crowsnest/test/manifests"
)

// manifest has the required parts of a Deployment, a DaemonSet or a ConfigMap.
type manifest struct {
	Kind     string `yaml:"kind"`
	Metadata struct {
		Name string `yaml:"name"`
	} `yaml:"metadata"`
	Data map[string]string `yaml:"data"`
	Spec struct {
		Template struct {
			Spec struct {
				Containers []container `yaml:"containers"`
				Volumes    []struct {
					Name      string `yaml:"name"`
					ConfigMap struct {
						Name string `yaml:"name"`
					} `yaml:"configMap"`
				} `yaml:"volumes"`
			} `yaml:"spec"`
		} `yaml:"template"`
	} `yaml:"spec"`
}

type container struct {
	Name      string   `yaml:"name"`
	Args      []string `yaml:"args"`
	Startup   probe    `yaml:"startupProbe"`
	Readiness probe    `yaml:"readinessProbe"`
	Liveness  probe    `yaml:"livenessProbe"`
}

// probe is a probe of the kubelet.
type probe struct {
	Get struct {
		Path string `yaml:"path"`
	} `yaml:"httpGet"`
	Period   int `yaml:"periodSeconds"`
	Failures int `yaml:"failureThreshold"`
}

// withDefaults returns the probe with the defaults of Kubernetes.
func (p probe) withDefaults() probe {
	if p.Period == 0 {
		p.Period = 10
	}
	if p.Failures == 0 {
		p.Failures = 3
	}
	return p
}

// workload is one kind of pod.
type workload struct {
	container
	config map[string]any    // of its ConfigMap
	files  map[string]string // of its ConfigMap, with the configuration
}

// workloads returns the pods of rendered manifests: "agent" and "aggregator".
func workloads(t *testing.T, text string) map[string]workload {
	t.Helper()
	configs, out := map[string]map[string]string{}, map[string]workload{}
	var pods []manifest
	for _, o := range manifests.Objects(t, text) {
		text, err := yaml.Marshal(o)
		require.NoError(t, err)
		var m manifest
		require.NoError(t, yaml.Unmarshal(text, &m))
		switch m.Kind {
		case "ConfigMap":
			configs[m.Metadata.Name] = m.Data
		case "Deployment", "DaemonSet":
			pods = append(pods, m)
		}
	}
	for _, m := range pods {
		w := workload{container: m.Spec.Template.Spec.Containers[0], config: map[string]any{}}
		for _, v := range m.Spec.Template.Spec.Volumes {
			if v.Name == "config" {
				w.files = configs[v.ConfigMap.Name]
				require.NoError(t, yaml.Unmarshal([]byte(w.files["crowsnest.yml"]), &w.config))
			}
		}
		require.NotEmpty(t, w.config, m.Metadata.Name)
		w.Startup, w.Readiness, w.Liveness = w.Startup.withDefaults(), w.Readiness.withDefaults(), w.Liveness.withDefaults()
		out[strings.TrimPrefix(m.Metadata.Name, "crowsnest-")] = w
	}
	require.Contains(t, out, "aggregator")
	return out
}
