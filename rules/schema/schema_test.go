package schema

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"crowsnest/internal/strictyaml"
)

func compiledSchema(t *testing.T) *validator.Schema {
	t.Helper()
	text, err := Rules()
	require.NoError(t, err)
	doc, err := validator.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	c := validator.NewCompiler()
	c.AssertFormat()
	require.NoError(t, c.AddResource("rules.json", doc))
	s, err := c.Compile("rules.json")
	require.NoError(t, err)
	return s
}

// plainValue is YAML as a schema sees it.
type plainValue struct{ v any }

func (p *plainValue) DecodeYAML(n *strictyaml.Node) {
	of := func(c *strictyaml.Node) any {
		var inner plainValue
		inner.DecodeYAML(c)
		return inner.v
	}
	switch n.Kind() {
	case strictyaml.Map:
		m := map[string]any{}
		for _, e := range n.Entries() {
			m[e.Key] = of(e.Value)
		}
		p.v = m
	case strictyaml.List:
		l := []any{}
		for _, c := range n.Items() {
			l = append(l, of(c))
		}
		p.v = l
	default:
		raw := n.Raw()
		p.v = raw
		if n.IsText() {
			return
		}
		if b, err := strconv.ParseBool(raw); err == nil && len(raw) > 1 {
			p.v = b
		} else if _, err := strconv.ParseFloat(raw, 64); err == nil {
			p.v = json.Number(raw)
		} else {
			p.v = nil
		}
	}
}

type plainFile struct {
	Pack      plainValue `yaml:"pack"`
	Defaults  plainValue `yaml:"defaults"`
	Rules     plainValue `yaml:"rules" strict:"anchors"`
	Overrides plainValue `yaml:"overrides"`
}

func plainYAML(t *testing.T, name string, data []byte) map[string]any {
	t.Helper()
	doc, problems := strictyaml.Parse(name, data, strictyaml.Options{})
	require.Empty(t, problems)
	var f plainFile
	require.Empty(t, doc.Decode(&f).Errors())
	out := map[string]any{}
	for key, v := range map[string]plainValue{"pack": f.Pack, "defaults": f.Defaults, "rules": f.Rules, "overrides": f.Overrides} {
		if v.v != nil {
			out[key] = v.v
		}
	}
	return out
}

// TestSchemaBesideThePacks keeps the file that editors read as the generator
// makes it: crowsnest schema rules > rules/packs/schema.json.
func TestSchemaBesideThePacks(t *testing.T) {
	want, err := Rules()
	require.NoError(t, err)
	got, err := os.ReadFile("../packs/schema.json")
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(got))
}

func TestSchemaIsStable(t *testing.T) {
	a, err := Rules()
	require.NoError(t, err)
	b, err := Rules()
	require.NoError(t, err)
	require.Equal(t, string(a), string(b))
	require.Contains(t, string(a), `"$schema": "https://json-schema.org/draft/2020-12/schema"`)
	require.NotContains(t, string(a), `"Keys"`)
}

// TestSchemaDescribesEveryKey walks the schema: each object of ours is closed
// and each key of it says what it is.
func TestSchemaDescribesEveryKey(t *testing.T) {
	text, err := Rules()
	require.NoError(t, err)
	var root map[string]any
	require.NoError(t, json.Unmarshal(text, &root))
	keys := 0
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if props, ok := v["properties"].(map[string]any); ok {
				require.Contains(t, v, "additionalProperties", path)
				for name, p := range props {
					keys++
					require.NotEmpty(t, p.(map[string]any)["description"], "%s.%s", path, name)
				}
			}
			for k, c := range v {
				walk(path+"/"+k, c)
			}
		case []any:
			for i, c := range v {
				walk(path+"/"+strconv.Itoa(i), c)
			}
		}
	}
	walk("", root)
	require.Greater(t, keys, 60)
}

func packFiles(t *testing.T) []string {
	t.Helper()
	shipped, err := filepath.Glob("../packs/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, shipped)
	language, err := filepath.Glob("../../testdata/language/*.yaml")
	require.NoError(t, err)
	other, err := filepath.Glob("../../../shared/conformance/[^e]*.yaml") // not everywhere
	require.NoError(t, err)
	identity, err := filepath.Glob("../../../shared/conformance/ext-identity.yaml")
	require.NoError(t, err)
	return slices.Concat(shipped, language, other, identity)
}

func TestSchemaAcceptsPacks(t *testing.T) {
	s := compiledSchema(t)
	for _, name := range packFiles(t) {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, s.Validate(plainYAML(t, name, data)), name)
	}
}

// TestSchemaRefusesTypos renames each key of a shipped pack in turn.
func TestSchemaRefusesTypos(t *testing.T) {
	s := compiledSchema(t)
	data, err := os.ReadFile("../packs/vcluster.yaml")
	require.NoError(t, err)
	root := plainYAML(t, "vcluster.yaml", data)
	require.NoError(t, s.Validate(root))
	free := []string{"labels", "annotations", "stream", "field", "firing", "resolved"} // their keys are names
	renamed := 0
	var walk func(path []string, v any)
	walk = func(path []string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, k := range slices.Collect(maps.Keys(v)) {
				child := v[k]
				if len(path) == 0 || !slices.Contains(free, path[len(path)-1]) {
					delete(v, k)
					v[k+"x"] = child
					require.Error(t, s.Validate(root), "%s.%s", strings.Join(path, "."), k)
					delete(v, k+"x")
					v[k] = child
					renamed++
				}
				walk(append(path, k), child)
			}
		case []any:
			for _, c := range v {
				walk(path, c)
			}
		}
	}
	walk(nil, root)
	require.Greater(t, renamed, 30)
	require.NoError(t, s.Validate(root))
}

func TestSchemaOnFragments(t *testing.T) {
	s := compiledSchema(t)
	pack := func(rule string) string { return "pack: {name: p, rules: 1}\nrules:\n- " + rule + "\n" }
	f := func(text string, valid bool) {
		t.Helper()
		err := s.Validate(plainYAML(t, "x.yaml", []byte(text)))
		require.Equal(t, valid, err == nil, "%s: %v", text, err)
	}
	rule := `{alert: A, from: '{a="b"}', severity: info, `
	f(pack(rule+"match: text}"), true)
	f(pack(rule+"match: {contains: [a, b], not: {regex: x}}, for: 1h30m, enabled: silent}"), true)
	f(pack(rule+"match: text, enabled: false}"), true)
	f(pack(rule+"sequence: [a, {contains: b, differs: [pod]}], within: 5m}"), true)
	f(pack(rule+"match: a, unless: {contains: b, within: 1h}, clear: c}"), true)
	f(pack(rule+"match: a, for: 0}"), true)
	f("overrides:\n- {rule: A, disable: because}\n- {rule: pack:x, set: {severity: none, count: 50}}\n- {rule: B*, add_unless: {contains: a, within: 1h}}\n", true)

	f(pack(rule+"match: {contians: a}}"), false)
	f(pack(rule+"match: {not: a}}"), false)
	f(pack(rule+"match: {}}"), false)
	f(pack(rule+"match: ''}"), false)
	f(pack(rule+"match: [a]}"), false)
	f(pack(rule+"match: a, sequence: [a]}"), false)
	f(pack(rule+"within: 5m}"), false)
	f(pack(rule+"match: a, within: 5 minutes}"), false)
	f(pack(rule+"match: a, within: 5}"), false)
	f(pack(rule+"match: a, count: 0}"), false)
	f(pack(rule+"match: a, count: 10001}"), false)
	f(pack(rule+"match: a, count: '5'}"), false)
	f(pack(rule+"match: a, by: pod}"), false)
	f(pack(rule+"match: a, unless: b}"), false)
	f(pack(rule+"match: a, enabled: maybe}"), false)
	f(pack(`{alert: A, from: x, severity: page, match: a}`), false)
	f(pack(rule+"match: a, labels: {a: 1}}"), false)
	f(pack(rule+"match: a, remediation: {affects: [{versions: 1.10}]}}"), false)
	f(pack(rule+"match: a, tests: [{input: [{at: 0s, line: a}]}]}"), false)
	f(pack(`{from: x, match: a}`), false)
	f("pack: {name: p}\n", false)
	f("rules: []\n", false)
	f("overrides:\n- {rule: A, set: {match: a}}\n", false)
	f("overrides:\n- {rule: A, disable: true}\n", false)
	f("overrides:\n- {rule: A}\nrules: []\n", false)
}
