// Package schema generates the JSON Schema of rule files from the types of their content.
package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/invopop/jsonschema"

	"crowsnest/internal/strictyaml"
	"crowsnest/rules"
)

// durationPattern matches durations in the format of Prometheus, with the largest unit first.
const durationPattern = `^(?:0|(?:[0-9]+y)?(?:[0-9]+w)?(?:[0-9]+d)?(?:[0-9]+h)?(?:[0-9]+m)?(?:[0-9]+s)?(?:[0-9]+ms)?)$`

// Rules returns the indented JSON Schema, draft 2020-12, of a file that contains a pack or overrides. The lint checks
// more than a schema can express.
func Rules() ([]byte, error) {
	r := &jsonschema.Reflector{
		Anonymous:                  true,
		FieldNameTag:               "yaml",
		RequiredFromJSONSchemaTags: true,
		Mapper:                     schemaOf,
		Namer:                      func(t reflect.Type) string { return strings.TrimSuffix(t.Name(), "Syntax") },
	}
	defs := jsonschema.Definitions{"ExpectedAlert": schemaOf(reflect.TypeFor[rules.ExpectedAlert]())}
	for _, v := range []any{rules.PackFile{}, rules.OverridesFile{}, rules.VerifiedSyntax{}} {
		for name, def := range r.Reflect(v).Definitions {
			defs[name] = def
		}
	}
	for name, change := range schemaChanges() {
		def, ok := defs[name]
		if !ok {
			return nil, fmt.Errorf("make the schema: no definition %q", name)
		}
		defs[name] = change(def)
	}
	root := &jsonschema.Schema{
		Version:     jsonschema.Version,
		ID:          "urn:crowsnest:schema:rules",
		Title:       "crowsnest rules",
		Description: "A rule pack, or a file of overrides.",
		Type:        "object",
		// With `oneOf`, validators would report the problems for both kinds of files.
		If:          &jsonschema.Schema{Required: []string{"overrides"}},
		Then:        &jsonschema.Schema{Ref: "#/$defs/OverridesFile"},
		Else:        &jsonschema.Schema{Ref: "#/$defs/PackFile"},
		Definitions: defs,
	}
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("make the schema: %w", err)
	}
	return append(out, '\n'), nil
}

// schemaOf returns the schema of a type whose YAML form differs from its Go type. It returns nil for any other type.
func schemaOf(t reflect.Type) *jsonschema.Schema {
	text := &jsonschema.Schema{Type: "string"}
	switch t {
	case reflect.TypeFor[time.Duration]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "string", Pattern: durationPattern, MinLength: newNumber(1), Examples: []any{"30s", "10m", "1h30m"}},
			{Const: 0},
		}}
	case reflect.TypeFor[strictyaml.Strings]():
		item := &jsonschema.Schema{Type: "string", MinLength: newNumber(1)}
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{item, {Type: "array", Items: item, MinItems: newNumber(1)}}}
	case reflect.TypeFor[rules.Mode]():
		return &jsonschema.Schema{Enum: []any{true, false, "true", "false", string(rules.ModeSilent)}}
	case reflect.TypeFor[rules.FiringSyntax]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Const: "none"},
			{Type: "array", Items: &jsonschema.Schema{Ref: "#/$defs/ExpectedAlert"}},
		}}
	case reflect.TypeFor[rules.VerifiedList]():
		one := &jsonschema.Schema{Ref: "#/$defs/Verified"}
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Const: "none"}, one, {Type: "array", Items: one, MinItems: newNumber(1)}}}
	case reflect.TypeFor[rules.ExpectedAlert]():
		duration := schemaOf(reflect.TypeFor[time.Duration]())
		s := &jsonschema.Schema{
			Type: "object", Properties: jsonschema.NewProperties(), AdditionalProperties: text,
			Description: "Labels that the alert must have; \"\" means that it must not have the label. Other keys:",
		}
		s.Properties.Set("annotations", &jsonschema.Schema{Type: "object", AdditionalProperties: text, Description: "Annotations that the alert must have."})
		s.Properties.Set("starts_at", setDescription(duration, "When the alert started, from the start of the test."))
		s.Properties.Set("ends_at", setDescription(duration, "When the alert ended, from the start of the test."))
		s.Properties.Set("value", &jsonschema.Schema{Type: "integer", Description: "Number of lines."})
		return s
	}
	return nil
}

func newNumber(n uint64) *uint64 { return &n }

func setDescription(s *jsonschema.Schema, text string) *jsonschema.Schema {
	c := *s
	c.Description = text
	return &c
}

// schemaChanges returns changes of definitions that struct tags cannot express, by the name of the definition.
func schemaChanges() map[string]func(*jsonschema.Schema) *jsonschema.Schema {
	// A matcher may be written as the text that the line contains.
	matcher := func(needs ...string) func(*jsonschema.Schema) *jsonschema.Schema {
		return func(s *jsonschema.Schema) *jsonschema.Schema {
			for _, part := range needs {
				s.AnyOf = append(s.AnyOf, &jsonschema.Schema{Required: []string{part}})
			}
			if len(s.Required) > 0 { // A matcher with required keys cannot be written as a text.
				return s
			}
			return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string", MinLength: newNumber(1), Description: "Text that the line contains."}, s}}
		}
	}
	parts := matcher("contains", "regex", "field", "any")
	either := func(keys ...string) func(*jsonschema.Schema) *jsonschema.Schema {
		return func(s *jsonschema.Schema) *jsonschema.Schema {
			for _, k := range keys {
				s.OneOf = append(s.OneOf, &jsonschema.Schema{Required: []string{k}})
			}
			return s
		}
	}
	return map[string]func(*jsonschema.Schema) *jsonschema.Schema{
		"Matcher": parts, "Step": parts, "Clear": parts, "Unless": parts,
		"Rule": either("match", "sequence"),
		"Cause": func(s *jsonschema.Schema) *jsonschema.Schema {
			return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string", MinLength: newNumber(1), Description: "Name of the rule that reports the cause."}, s}}
		},
	}
}
