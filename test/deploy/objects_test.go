package deploy

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"crowsnest/test/manifests"
)

const (
	root     = manifests.Deploy + "kustomize"
	chartDir = manifests.ChartDir
)

// overlays returns the folders that kustomize can render.
func overlays(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(root + "/overlays/*")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(found), 4)
	return append(found, root+"/base")
}

// valueFiles returns the names of the files of values for tests.
func valueFiles(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(chartDir + "/ci/*-values.yaml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(found), 10)
	for i, path := range found {
		found[i] = strings.TrimSuffix(filepath.Base(path), "-values.yaml")
	}
	return found
}

// rendered returns the manifests of every overlay and of the chart with every file
// of values.
func rendered(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, dir := range overlays(t) {
		out["kustomize "+filepath.Base(dir)] = manifests.Kustomize(t, dir)
	}
	for _, name := range valueFiles(t) {
		out["chart "+name] = manifests.Chart(t, name)
	}
	return out
}

// object has the common fields of API objects.
type object struct {
	Kind     string `yaml:"kind"`
	Metadata struct {
		Name   string            `yaml:"name"`
		Labels map[string]string `yaml:"labels"`
	} `yaml:"metadata"`
	Data map[string]string `yaml:"data"`
	text string
}

// objects returns the objects of manifests.
func objects(t *testing.T, text string) []object {
	t.Helper()
	var out []object
	for _, o := range manifests.Objects(t, text) {
		text, err := yaml.Marshal(o)
		require.NoError(t, err)
		parsed := object{text: string(text)}
		require.NoError(t, yaml.Unmarshal(text, &parsed))
		out = append(out, parsed)
	}
	return out
}

// Every object can be found, and deleted, by one label, and is used.
func TestObjectsAreLabelledAndUsed(t *testing.T) {
	for name, text := range rendered(t) {
		all := objects(t, text)
		for _, o := range all {
			require.Equal(t, "crowsnest", o.Metadata.Labels["app.kubernetes.io/part-of"], "%s: %s %s", name, o.Kind, o.Metadata.Name)
			// The sidecar of Grafana finds dashboards by their label.
			used := o.Kind != "ConfigMap" || o.Metadata.Labels["grafana_dashboard"] != ""
			for _, other := range all {
				used = used || other.Kind != "ConfigMap" && strings.Contains(other.text, "name: "+o.Metadata.Name+"\n")
			}
			require.True(t, used, "%s: %s %s is not used", name, o.Kind, o.Metadata.Name)
		}
	}
}

// pods returns the objects that run pods.
func pods(t *testing.T, text string) (out []object) {
	for _, o := range objects(t, text) {
		if o.Kind == "Deployment" || o.Kind == "StatefulSet" || o.Kind == "DaemonSet" || o.Kind == "Pod" {
			out = append(out, o)
		}
	}
	return out
}

// Requirements for every pod. No probe depends on a peer: a pod is never restarted
// because of one.
func TestPods(t *testing.T) {
	for name, text := range rendered(t) {
		found := pods(t, text)
		require.NotEmpty(t, found, name)
		for _, o := range found {
			for _, probe := range []string{"startupProbe:", "livenessProbe:"} {
				_, text, ok := strings.Cut(o.text, probe)
				require.True(t, ok, "%s: %s", name, probe)
				_, path, _ := strings.Cut(text, "path: ")
				require.True(t, strings.HasPrefix(path, "/-/healthy\n"), "%s: %s", name, probe)
			}
			for _, want := range []string{
				"path: /-/ready\n", "GOMEMLIMIT", "allowPrivilegeEscalation: false", "readOnlyRootFilesystem: true", "- ALL\n",
				"type: RuntimeDefault", "automountServiceAccountToken: ", "runAsGroup: ",
			} {
				require.Contains(t, o.text, want, "%s: %s", name, o.Metadata.Name)
			}
			if name != "chart few-objects" {
				require.Contains(t, o.text, "priorityClassName: ", name)
			}
		}
		for _, never := range []string{"privileged: true", "hostNetwork", "hostPID", "subPath", " secrets\n", "'*'", `"*"`} {
			require.NotContains(t, text, never, name)
		}
		requireReadOnlyMounts(t, name, text)
	}
}

// requireReadOnlyMounts requires that a container of crowsnest can write to its
// state only.
func requireReadOnlyMounts(t *testing.T, name, text string) {
	t.Helper()
	for _, o := range manifests.Objects(t, text) {
		spec, ok := at(o, "spec", "template", "spec").(map[string]any)
		if !ok {
			continue
		}
		for _, c := range spec["containers"].([]any) {
			for _, m := range c.(map[string]any)["volumeMounts"].([]any) {
				mount := m.(map[string]any)
				require.True(t, mount["readOnly"] == true || mount["mountPath"] == "/var/lib/crowsnest", "%s: %v", name, mount)
			}
		}
	}
}

// at returns a value within maps, nil if there is none.
func at(o any, path ...string) any {
	for _, key := range path {
		m, ok := o.(map[string]any)
		if !ok {
			return nil
		}
		o = m[key]
	}
	return o
}

// Every image has a fixed version: what runs is what was tested.
func TestImagesHaveVersions(t *testing.T) {
	for name, text := range rendered(t) {
		found := 0
		for line := range strings.Lines(text) {
			_, image, ok := strings.Cut(strings.TrimSpace(line), "image: ")
			if !ok {
				continue
			}
			found++
			require.Regexp(t, `:v?\d+\.\d+|@sha256:`, image, name)
		}
		require.Positive(t, found, name)
	}
}

// configurations returns the configurations of crowsnest in manifests by the names
// of their ConfigMaps.
func configurations(t *testing.T, text string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, o := range objects(t, text) {
		if config := o.Data["crowsnest.yml"]; o.Kind == "ConfigMap" && config != "" {
			out[o.Metadata.Name] = config
		}
	}
	require.NotEmpty(t, out)
	return out
}

func key(o map[string]any) string {
	return fmt.Sprint(o["kind"], " ", at(o, "metadata", "namespace"), " ", at(o, "metadata", "name"))
}
