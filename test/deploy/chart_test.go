package deploy

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"crowsnest/daemon/component"
	"crowsnest/daemon/config"
	"crowsnest/sinks/alertmanager"
	"crowsnest/test/manifests"
	"crowsnest/test/servers"
)

// The chart has the same objects as the kustomizations: a fix in one is a fix in
// both. Only labels of releases, and how a change of the configuration restarts
// pods, differ.
func TestChartEqualsKustomize(t *testing.T) {
	for name, dir := range map[string]string{
		"base": root + "/base", "run-as-root": "testdata/run-as-root", "objects": "testdata/objects",
		"production": root + "/overlays/production", "git-sync": root + "/overlays/git-sync",
		"standalone-deployment": root + "/overlays/standalone-deployment", "loki": root + "/overlays/loki",
		"two-aggregators": root + "/overlays/two-aggregators",
	} {
		t.Run(name, func(t *testing.T) {
			want := byName(t, manifests.Kustomize(t, dir))
			got := byName(t, manifests.Chart(t, name))
			for key, object := range want {
				require.Equal(t, object, got[key], "%s: the kustomization has this; the chart differs", key)
			}
			require.Len(t, got, len(want), "the chart has further objects")
		})
	}
}

// released are labels and annotations that only one of the two has.
var released = []string{
	"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version", "app.kubernetes.io/part-of",
	"helm.sh/chart", "helm.sh/resource-policy", "checksum/config",
}

// hashed is a name with the hash that kustomize appends.
var hashed = regexp.MustCompile(`^(crowsnest-(?:agent|aggregator))-[a-z0-9]{10}$`)

// byName returns objects as text by kind and name, without what may differ.
func byName(t *testing.T, text string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, o := range manifests.Objects(t, text) {
		o := normal(t, o).(map[string]any)
		require.NotContains(t, out, key(o))
		text, err := yaml.Marshal(o)
		require.NoError(t, err)
		out[key(o)] = string(text)
	}
	require.NotEmpty(t, out)
	return out
}

// normal returns a value without what may differ, with sorted lists of named
// things, and with files of YAML as their content.
func normal(t *testing.T, value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, inner := range v {
			if text, ok := inner.(string); ok && (strings.HasSuffix(key, ".yaml") || strings.HasSuffix(key, ".yml")) {
				inner = nil
				require.NoError(t, yaml.Unmarshal([]byte(text), &inner), key)
			}
			if key == "resourceNames" { // a hash would be a mistake here
				out[key] = inner
				continue
			}
			if inner = normal(t, inner); !slices.Contains(released, key) && inner != nil {
				out[key] = inner
			}
		}
		if len(out) == 0 && len(v) > 0 {
			return nil // all of it may differ
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = normal(t, inner)
		}
		slices.SortStableFunc(out, func(a, b any) int { return strings.Compare(name(a), name(b)) })
		return out
	case string:
		return hashed.ReplaceAllString(v, "$1")
	default:
		return v
	}
}

// name returns the name of an element of a list, "" if it has none.
func name(o any) string {
	s, _ := at(o, "name").(string)
	return s
}

// helm runs helm and returns its output.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := exec.Command(servers.Program(t, "helm"), args...).CombinedOutput()
	return string(out), err
}

func TestChartLint(t *testing.T) {
	for _, name := range valueFiles(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := helm(t, "lint", "--strict", "--kube-version="+manifests.KubeVersion, "--values="+chartDir+"/ci/"+name+"-values.yaml", chartDir)
			require.NoError(t, err, out)
			require.NotContains(t, out, "[WARNING]")
		})
	}
}

// Obvious mistakes are refused, with the reason.
func TestChartRefuses(t *testing.T) {
	for _, c := range []struct{ values, want string }{
		{"{clustre: a}", "additional properties 'clustre' not allowed"},
		{"{agent: {resource: {}}}", "additional properties 'resource' not allowed"},
		{"{aggregator: {config: {source: {}}}}", "additional properties 'source' not allowed"},
		{"{aggregator: {config: {sinks: {alertmanager: {url: http://a}}}}}", "additional properties 'url' not allowed"},
		{"{global: {blind_after: 1m}}", "invalid propertyName 'blind_after'"},
		{"{mode: agent}", "value must be one of 'agents', 'kubernetes', 'loki', 'victorialogs', 'otlp'"},
		{"{cluster: ''}", "cluster is empty: set it to the name of this cluster"},
		{"{alertmanager: {urls: []}}", "alertmanager.urls and alertmanager.headlessService are empty: name the headless Service of Alertmanager"},
		{"{alertmanager: {headlessService: 'http://alertmanager-operated'}}", "'/alertmanager/headlessService'"},
		{"{alertmanager: {urls: ['alertmanager:9093']}}", "'/alertmanager/urls/0': 'alertmanager:9093' does not match pattern"},
		{"{alertmanager: {urls: ['https://user:secret@alertmanager']}}", "'/alertmanager/urls/0'"},
		{"{rules: {gitSync: {repo: 'https://token@git.example.org/r'}}}", "'/rules/gitSync/repo'"},
		{"{image: {digest: 'sha256:1'}}", "'/image/digest'"},
		{"{agent: {resources: {limits: {memory: 128M}}}}", "'/agent/resources/limits/memory'"},
		{"{rules: {packs: {team: ''}}}", "additional properties 'team' not allowed"},
		{"{rules: {gitSync: {enabled: true}}}", "rules.gitSync.repo is empty: set the address of the repository"},
		{"{aggregator: {config: {sinks: {alertmanager: {http_config: {basic_auth: {username: a, password: b}}}}}}}", "aggregator.config.sinks.alertmanager.http_config.basic_auth.password is a secret, and the configuration is a ConfigMap"},
		{"{agent: {config: {sinks: {upstream: {http_config: {authorization: {credentials: b}}}}}}}", "agent.config.sinks.upstream.http_config.authorization.credentials is a secret"},
		{"{ingress: {enabled: true}}", "externalURL is empty: set it to the address"},
		{"externalURL: https://a\nhttpRoute: {enabled: true}", "httpRoute.parentRefs is empty: list the Gateway"},
		{"{networkPolicy: {apiServer: {ports: [https]}}}", "'/networkPolicy/apiServer/ports/0'"},
		{"{networkPolicy: {dnsPorts: []}}", "'/networkPolicy/dnsPorts'"},
	} {
		t.Run(c.values, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "values.yaml")
			require.NoError(t, os.WriteFile(file, []byte(c.values), 0o600))
			out, err := helm(t, append(manifests.Template("base"), "--values="+file)...)
			require.Error(t, err)
			require.Contains(t, out, c.want)
		})
	}
}

// Large numbers reach the configuration unchanged, not as 2e+06.
func TestChartKeepsNumbers(t *testing.T) {
	text := manifests.Chart(t, "everything")
	require.Contains(t, text, "fingerprints: 2097152\n")
	require.Contains(t, text, "value: 2000000\n")
	require.Contains(t, text, "GOMEMLIMIT, value: 921MiB")
}

// The pods of a headless Service are found by DNS.
func TestChartFindsAlertmanagers(t *testing.T) {
	text := configurations(t, manifests.Chart(t, "everything"))["watch-aggregator"]
	cfg, problems := config.Parse("aggregator.yml", []byte(text))
	require.Empty(t, problems.Errors())
	am := component.SettingsOf[alertmanager.Config](cfg.Sinks)
	require.Len(t, am, 1)
	require.Equal(t, []alertmanager.DNSConfig{{Names: []string{"alertmanager-operated.alerts.svc"}, Type: "A", Port: 9094}}, am[0].DNSConfigs)
}

// Every value has a comment and a place in the schema, and the schema has nothing
// else.
func TestChartValuesAreDocumented(t *testing.T) {
	text, err := os.ReadFile(chartDir + "/values.yaml")
	require.NoError(t, err)
	var doc yaml.Node
	require.NoError(t, yaml.Unmarshal(text, &doc))
	schema := map[string]any{}
	text, err = os.ReadFile(chartDir + "/values.schema.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &schema))
	delete(at(schema, "properties").(map[string]any), "global") // Helm's own
	requireDocumented(t, "", doc.Content[0], schema)
}

func requireDocumented(t *testing.T, path string, values *yaml.Node, schema map[string]any) {
	t.Helper()
	properties, ok := schema["properties"].(map[string]any)
	if !ok || values.Kind != yaml.MappingNode {
		return // a map or a list of the user
	}
	var names []string
	for i := 0; i < len(values.Content); i += 2 {
		name := values.Content[i].Value
		names = append(names, name)
		require.NotEmpty(t, values.Content[i].HeadComment, "%s.%s has no comment", path, name)
		require.Contains(t, properties, name, "the schema lacks %s.%s", path, name)
		requireDocumented(t, path+"."+name, values.Content[i+1], properties[name].(map[string]any))
	}
	require.Len(t, properties, len(names), "%s: the schema has a key without a value", path)
}

// security is the strictest Pod Security Standard that each kind of pod satisfies,
// and what the stricter ones forbid: agents mount the logs of the node, and nothing
// else keeps them from the restricted standard.
var security = map[string]string{
	"DaemonSet":             "privileged restricted-volume-types,hostPath-volumes",
	"DaemonSet/run-as-root": "privileged restricted-volume-types,runAsNonRoot-!=-true,runAsUser=0,hostPath-volumes",
	"Deployment":            "restricted ",
	"Pod":                   "restricted ",
}

func TestPodSecurity(t *testing.T) {
	program := servers.Program(t, "podsecurity")
	seen := map[string]bool{}
	for _, values := range valueFiles(t) {
		cmd := exec.Command(program)
		cmd.Stdin = strings.NewReader(manifests.ChartTests(t, values))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		for line := range strings.Lines(string(out)) {
			workload, level, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			kind, _, _ := strings.Cut(workload, "/")
			if special := kind + "/" + values; security[special] != "" {
				kind = special
			}
			require.Equal(t, security[kind], level, "%s: %s", values, workload)
			seen[kind] = true
		}
	}
	require.Len(t, seen, len(security))
}

// The chart can only read files in its folder, so it has copies. With
// UPDATE_SNAPSHOTS=1, as in make chart, this test writes them.
func TestChartFiles(t *testing.T) {
	update := os.Getenv("UPDATE_SNAPSHOTS") != ""
	want := map[string][]byte{"values.schema.json": valuesSchema(t)}
	for to, glob := range map[string]string{
		"files/rules": root + "/base/rules/*.yaml", "files/monitoring/rules": manifests.Deploy + "monitoring/rules/crowsnest.yaml",
		"files/monitoring/dashboards": manifests.Deploy + "monitoring/dashboards/*.json",
	} {
		found, err := filepath.Glob(glob)
		require.NoError(t, err)
		require.NotEmpty(t, found, glob)
		for _, path := range found {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			want[filepath.Join(to, filepath.Base(path))] = text
		}
	}
	if update {
		require.NoError(t, os.RemoveAll(chartDir+"/files"))
	}
	for name, text := range want {
		path := filepath.Join(chartDir, name)
		if update {
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.WriteFile(path, text, 0o600))
		}
		got, err := os.ReadFile(path)
		require.NoError(t, err, "run make chart")
		require.Equal(t, string(text), string(got), "%s: run make chart", path)
	}
	copies := 0
	require.NoError(t, filepath.WalkDir(chartDir+"/files", func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			copies++
		}
		return err
	}))
	require.Equal(t, len(want)-1, copies, "a copy has no original: run make chart")
}

// valuesSchema returns the schema of values with that of the configuration in it.
// Its keys are all optional there: the chart sets the required ones.
func valuesSchema(t *testing.T) []byte {
	t.Helper()
	config := map[string]any{}
	text, err := os.ReadFile(manifests.Deploy + "config.schema.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &config))
	for _, key := range []string{"$schema", "$id", "title"} {
		delete(config, key)
	}
	text, err = json.MarshalIndent(optional(config), "    ", "  ")
	require.NoError(t, err)
	values, err := os.ReadFile(manifests.Deploy + "helm/values.schema.json")
	require.NoError(t, err)
	before, after, ok := bytes.Cut(values, []byte(`"config": true`))
	require.True(t, ok)
	return slices.Concat(before, []byte(`"config": `), text, after)
}

// optional removes the key required from schemas.
func optional(value any) any {
	switch v := value.(type) {
	case map[string]any:
		if _, list := v["required"].([]any); list {
			delete(v, "required")
		}
		for key, inner := range v {
			v[key] = optional(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = optional(inner)
		}
	}
	return value
}
