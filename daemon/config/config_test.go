package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"crowsnest/internal/strictyaml"
	"crowsnest/rules/schema"
)

// Beside every broken configuration is a file with all of its errors. UPDATE_SNAPSHOTS=1
// rewrites that file: review the difference.
func TestBrokenConfigs(t *testing.T) {
	files, err := filepath.Glob("../../testdata/config/err/*.yml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 20)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			_, problems := Parse(filepath.Base(file), data)
			require.NotEmpty(t, problems.Errors(), "it must be refused")
			got := problems.Error() + "\n"
			require.NotContains(t, got, "hunter2", "no secret in an error")
			snapshot := strings.TrimSuffix(file, ".yml") + ".out"
			if os.Getenv("UPDATE_SNAPSHOTS") != "" {
				require.NoError(t, os.WriteFile(snapshot, []byte(got), 0o644))
			}
			want, err := os.ReadFile(snapshot)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
		})
	}
}

func TestGoodConfigs(t *testing.T) {
	files, err := filepath.Glob("../../testdata/config/ok/*.yml")
	require.NoError(t, err)
	files = append(files, "../../deploy/crowsnest.yml", "../../deploy/agent.yml", "../../deploy/aggregator.yml")
	schema := compiledConfigSchema(t)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			cfg, problems := Parse(file, data)
			require.Empty(t, problems)
			yaml := FormatYAML(*cfg)
			require.NotContains(t, yaml, "inline-secret")
			again, problems := Parse("effective.yml", []byte(strings.ReplaceAll(yaml, secretText, "x")))
			require.Empty(t, problems, "what the page shows is a configuration:\n%s", yaml)
			require.Equal(t, strings.ReplaceAll(yaml, secretText, "<s>"), strings.ReplaceAll(FormatYAML(*again), secretText, "<s>"))
			require.NoError(t, schema.Validate(plainYAML(t, data)), "the schema accepts it")
		})
	}
}

func compiledConfigSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := Default().Schema()
	require.NoError(t, err)
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("config.json", doc))
	s, err := c.Compile("config.json")
	require.NoError(t, err)
	return s
}

// anyYAML decodes without a struct.
type anyYAML struct{ v any }

// DecodeYAML implements strictyaml.Unmarshaler.
func (a *anyYAML) DecodeYAML(n *strictyaml.Node) {
	switch n.Kind() {
	case strictyaml.Map:
		m := map[string]any{}
		for _, e := range n.Entries() {
			var inner anyYAML
			inner.DecodeYAML(e.Value)
			m[e.Key] = inner.v
		}
		a.v = m
	case strictyaml.List:
		l := []any{}
		for _, item := range n.Items() {
			var inner anyYAML
			inner.DecodeYAML(item)
			l = append(l, inner.v)
		}
		a.v = l
	default:
		a.v = n.Raw()
		if !n.IsText() {
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(n.Raw()))
			if err == nil {
				a.v = v
			}
		}
	}
}

func plainYAML(t *testing.T, data []byte) any {
	t.Helper()
	var in struct {
		Global    anyYAML `yaml:"global"`
		Rules     anyYAML `yaml:"rules"`
		Sources   anyYAML `yaml:"sources"`
		Sinks     anyYAML `yaml:"sinks"`
		Limits    anyYAML `yaml:"limits"`
		Redaction anyYAML `yaml:"redaction"`
		Storage   anyYAML `yaml:"storage"`
	}
	require.Empty(t, strictyaml.Decode("x", data, &in, strictyaml.Options{}))
	out := map[string]any{}
	for name, part := range map[string]anyYAML{
		"global": in.Global, "rules": in.Rules, "sources": in.Sources, "sinks": in.Sinks,
		"limits": in.Limits, "redaction": in.Redaction, "storage": in.Storage,
	} {
		if part.v != nil {
			out[name] = part.v
		}
	}
	return out
}

// The schema refuses keys that the decoder refuses.
func TestSchemaIsStrict(t *testing.T) {
	schema := compiledConfigSchema(t)
	f := func(yaml string) {
		t.Helper()
		require.Error(t, schema.Validate(plainYAML(t, []byte(yaml))))
	}
	f("sources: {kubelet: {dirr: /x}}\n")
	f("sources: {kubelet: {look_back: 10 minutes}}\n")
	f("sinks: {alertmanager: {timeout: 5s}}\n")
	f("sinks: {alertmanager: [{urls: [a], x: 1}]}\n")
	f("rules: {shipped: \"yes\"}\n")
	f("limits: {keys: many}\n")
}

func TestConfigPaths(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "c.yml")
	cfg, problems := Parse(file, []byte("sources: {kubelet: {}}\nrules: {paths: [packs, /abs], overrides: [o.yml]}\nstorage: {path: state}\n"))
	require.Empty(t, problems)
	require.Equal(t, []string{dir + "/packs", "/abs"}, cfg.Rules.Paths)
	require.Equal(t, []string{dir + "/o.yml"}, cfg.Rules.Overrides)
	require.Equal(t, dir+"/state", cfg.Storage.Path)

	cfg, _ = Parse(file, []byte("sources: {kubelet: {}}\n"))
	require.Equal(t, DefaultStorage, cfg.Storage.Path)
	require.True(t, cfg.Rules.Shipped)
}

// No prefix of a configuration may break the program.
func FuzzParseConfig(f *testing.F) {
	data, err := os.ReadFile("../../testdata/config/ok/full.yml")
	require.NoError(f, err)
	f.Add(data)
	f.Add([]byte("sinks: {alertmanager: [{urls: [x], http_config: {a: b}}]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, problems := Parse("f.yml", data)
		if len(problems.Errors()) == 0 {
			_ = FormatYAML(*cfg)
		}
	})
}

// The schemas beside the files that name them are those of this program; `make
// schemas` writes them.
func TestSchemaFilesAreCurrent(t *testing.T) {
	f := func(file string, schema func() ([]byte, error)) {
		t.Helper()
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		got, err := schema()
		require.NoError(t, err)
		require.Equal(t, string(want), strings.TrimSpace(string(got))+"\n", "run make schemas")
	}
	f("../../rules/packs/schema.json", schema.Rules)
	f("../../deploy/config.schema.json", Default().Schema)
}
