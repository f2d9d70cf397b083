package deploy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// object has the common fields of API objects.
type object struct {
	Kind     string `yaml:"kind"`
	Metadata struct {
		Name   string            `yaml:"name"`
		Labels map[string]string `yaml:"labels"`
	} `yaml:"metadata"`
	text string
}

func objects(t *testing.T, dir string) []object {
	t.Helper()
	var out []object
	for _, doc := range strings.Split(render(t, dir), "\n---\n") {
		o := object{text: doc}
		require.NoError(t, yaml.Unmarshal([]byte(doc), &o), dir)
		out = append(out, o)
	}
	return out
}

// Every object of an overlay can be found, and deleted, by one label, and is
// used.
func TestObjectsAreLabelledAndUsed(t *testing.T) {
	for _, dir := range overlays(t) {
		all := objects(t, dir)
		for _, o := range all {
			require.Equal(t, "crowsnest", o.Metadata.Labels["app.kubernetes.io/part-of"], "%s: %s %s", dir, o.Kind, o.Metadata.Name)
			// The sidecar of Grafana looks for dashboards by their label.
			used := o.Kind != "ConfigMap" || o.Metadata.Labels["grafana_dashboard"] != ""
			for _, other := range all {
				used = used || other.Kind != "ConfigMap" && strings.Contains(other.text, "name: "+o.Metadata.Name+"\n")
			}
			require.True(t, used, "%s: %s %s is not used", dir, o.Kind, o.Metadata.Name)
		}
	}
}

// No pod is restarted because of a peer, and pods of crowsnest have a higher
// priority than others.
func TestProbesOfPods(t *testing.T) {
	for _, dir := range overlays(t) {
		for _, o := range objects(t, dir) {
			if o.Kind != "Deployment" && o.Kind != "DaemonSet" {
				continue
			}
			for _, probe := range []string{"startupProbe:", "livenessProbe:"} {
				_, text, ok := strings.Cut(o.text, "        "+probe)
				require.True(t, ok, "%s: %s", dir, probe)
				_, path, _ := strings.Cut(text, "path: ")
				require.True(t, strings.HasPrefix(path, "/-/healthy\n"), "%s: %s", dir, probe)
			}
			require.Contains(t, o.text, "priorityClassName: crowsnest")
		}
	}
}
