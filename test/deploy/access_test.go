package deploy

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	source "crowsnest/sources/objects"
	"crowsnest/test/manifests"
)

// The manifests grant exactly the kinds that the source objects reads.
func TestRoleOfObjects(t *testing.T) {
	f := func(text, kinds string) {
		t.Helper()
		var want []any
		for kind := range strings.FieldsSeq(kinds) {
			resource, group, _ := strings.Cut(kind, ".")
			want = append(want, map[string]any{"apiGroups": []any{group}, "resources": []any{resource}, "verbs": []any{"list", "watch"}})
		}
		for _, o := range manifests.Objects(t, text) {
			if o["kind"] == "ClusterRole" && strings.HasSuffix(at(o, "metadata", "name").(string), "-objects") {
				require.Equal(t, want, o["rules"])
				return
			}
		}
		t.Fatal("there is no role")
	}
	defaults := strings.Join(source.DefaultKinds(), " ")
	f(manifests.Kustomize(t, "testdata/objects"), defaults)
	f(manifests.Chart(t, "objects"), defaults)
	f(manifests.Chart(t, "everything"), "nodes machines.cluster.x-k8s.io certificates.cert-manager.io")
	var config struct {
		Sources struct {
			Objects struct{ Kinds []string }
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(configurations(t, manifests.Chart(t, "everything"))["watch-aggregator"]), &config))
	require.Equal(t, []string{"nodes", "machines.cluster.x-k8s.io", "certificates.cert-manager.io"}, config.Sources.Objects.Kinds)
}

// The manifests let the aggregator, and only the aggregator, read ConfigMaps, if rules come from there.
func TestRoleOfConfigMaps(t *testing.T) {
	want := []any{
		map[string]any{"apiGroups": []any{""}, "resources": []any{"configmaps"}, "verbs": []any{"get", "list", "watch"}},
		map[string]any{"apiGroups": []any{""}, "resources": []any{"events"}, "verbs": []any{"create"}},
	}
	for name, text := range map[string]string{"kustomize": manifests.Kustomize(t, "testdata/objects"), "chart": manifests.Chart(t, "rules")} {
		roles, bindings := 0, 0
		for _, o := range manifests.Objects(t, text) {
			if !strings.HasSuffix(at(o, "metadata", "name").(string), "-config-maps") {
				continue
			}
			switch o["kind"] {
			case "ClusterRole":
				roles++
				require.Equal(t, want, o["rules"], name)
			case "ClusterRoleBinding":
				bindings++
				subjects := o["subjects"].([]any)
				require.Len(t, subjects, 1, name)
				require.True(t, strings.HasSuffix(subjects[0].(map[string]any)["name"].(string), "-aggregator"), name)
			}
		}
		require.Equal(t, []int{1, 1}, []int{roles, bindings}, name)
	}
	require.Contains(t, manifests.Chart(t, "rules"), "config_maps:")
	require.NotContains(t, manifests.Chart(t, "production"), "config-maps", "only who uses it has the role")
}

// The manifests grant what the source events reads, and nothing else of Events.
func TestRoleOfEvents(t *testing.T) {
	for name, text := range map[string]string{"kustomize": manifests.Kustomize(t, "testdata/objects"), "chart": manifests.Chart(t, "everything")} {
		found := 0
		for _, o := range manifests.Objects(t, text) {
			if o["kind"] == "ClusterRole" && strings.HasSuffix(at(o, "metadata", "name").(string), "-events") {
				found++
				require.Equal(t, []any{map[string]any{"apiGroups": []any{"events.k8s.io"}, "resources": []any{"events"}, "verbs": []any{"list", "watch"}}}, o["rules"], name)
			}
		}
		require.Equal(t, 1, found, name)
	}
	for _, o := range manifests.Objects(t, manifests.Chart(t, "production")) {
		require.False(t, o["kind"] == "ClusterRole" && strings.HasSuffix(at(o, "metadata", "name").(string), "-events"), "only who uses it has the role")
	}
}

// In every mode with a standby, the Role of the aggregator names the Lease of its configuration.
func TestRoleOfLease(t *testing.T) {
	pairs := 0
	for mode, text := range rendered(t) {
		var lease any
		var named []any
		for _, o := range manifests.Objects(t, text) {
			files, _ := at(o, "data").(map[string]any)
			for name, file := range files {
				if content, ok := file.(string); ok && strings.HasSuffix(name, ".yml") {
					var config map[string]any
					require.NoError(t, yaml.Unmarshal([]byte(content), &config), name)
					if found := at(config, "high_availability", "lease", "name"); found != nil {
						lease = found
					}
				}
			}
			rules, _ := at(o, "rules").([]any)
			for _, rule := range rules {
				resources, _ := at(rule, "resources").([]any)
				verbs, _ := at(rule, "verbs").([]any)
				if names, ok := at(rule, "resourceNames").([]any); ok && slices.Contains(resources, any("leases")) && slices.Contains(verbs, any("update")) {
					named = append(named, names...)
				}
			}
		}
		if lease != nil {
			pairs++
			require.Equal(t, []any{lease}, named, mode)
		}
	}
	require.GreaterOrEqual(t, pairs, 2)
}
