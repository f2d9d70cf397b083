package main

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/invopop/jsonschema"
	commonconfig "github.com/prometheus/common/config"
	"github.com/spf13/cobra"

	"crowsnest/cmd/crowsnest/internal/reference"
	"crowsnest/httpconfig"
	"crowsnest/rules"
	"crowsnest/strictyaml"
)

func newSchema(c *cli) *cobra.Command {
	one := func(use, short string, make func() ([]byte, error)) *cobra.Command {
		return &cobra.Command{
			Use: use, Short: short, Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				b, err := make()
				if err != nil {
					return fmt.Errorf("make the schema: %w", err)
				}
				_, err = fmt.Fprintf(c.out, "%s\n", strings.TrimSpace(string(b)))
				return err
			},
		}
	}
	language := one("rules", "The schema of rule packs and overrides", rules.Schema)
	output := newOneOf("json", "markdown")
	schema := language.RunE
	language.RunE = func(cmd *cobra.Command, args []string) error {
		if output.value == "json" {
			return schema(cmd, args)
		}
		page, err := reference.Language()
		if err != nil {
			return fmt.Errorf("make the reference: %w", err)
		}
		_, err = io.WriteString(c.out, page)
		return err
	}
	language.Flags().VarP(output, "output", "o", "form of the output: the schema, or a reference of the language made of it")
	return parent("schema", "Print JSON Schemas (2020-12) for editors", language,
		one("config", "The schema of the configuration", configSchema),
	)
}

// durationPattern is a duration as Prometheus writes it.
const durationPattern = `^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$`

// configSchema makes the schema of the configuration from its Go types.
func configSchema() ([]byte, error) {
	r := jsonschema.Reflector{
		FieldNameTag: "yaml", ExpandedStruct: true, DoNotReference: true, Anonymous: true,
		RequiredFromJSONSchemaTags: true,
		Mapper:                     mapType,
	}
	s := r.Reflect(&Config{})
	s.ID = "urn:crowsnest:schema:config"
	s.Title = "Configuration of crowsnest"
	return json.MarshalIndent(s, "", "  ")
}

// mapType gives the schema of types that decode themselves; nil: the default.
func mapType(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return &jsonschema.Schema{Type: "string", Pattern: durationPattern}
	case reflect.TypeFor[httpconfig.Config](), reflect.TypeFor[commonconfig.HTTPClientConfig]():
		return &jsonschema.Schema{
			Type:        "object",
			Description: "TLS, credentials and proxies as in Prometheus: https://prometheus.io/docs/prometheus/latest/configuration/configuration/#http_config",
		}
	case reflect.TypeFor[strictyaml.Keys]():
		return &jsonschema.Schema{}
	}
	if t.Kind() == reflect.Struct && strings.HasPrefix(t.Name(), "part[") {
		return partSchema(t)
	}
	if t.Kind() == reflect.Slice && strings.HasPrefix(t.Name(), "parts[") {
		one := partSchema(t.Elem())
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{one, {Type: "array", Items: one}}}
	}
	return nil
}

// partSchema is the schema of the configuration of one kind.
func partSchema(t reflect.Type) *jsonschema.Schema {
	r := jsonschema.Reflector{
		FieldNameTag: "yaml", ExpandedStruct: true, DoNotReference: true, Anonymous: true,
		RequiredFromJSONSchemaTags: true, Mapper: mapType,
	}
	field, _ := t.FieldByName("Config")
	s := r.ReflectFromType(field.Type)
	s.Version, s.ID = "", ""
	for i := range field.Type.NumField() {
		f := field.Type.Field(i)
		if strings.Contains(f.Tag.Get("strict"), "required") {
			s.Required = append(s.Required, f.Tag.Get("yaml"))
		}
	}
	return s
}
