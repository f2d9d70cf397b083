package config

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"crowsnest/daemon/component"
	"crowsnest/internal/httpconfig"
	"crowsnest/internal/strictyaml"

	"github.com/invopop/jsonschema"
	commonconfig "github.com/prometheus/common/config"
)

const durationPattern = `^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$`

// Schema returns the JSON Schema of the configuration. It is generated from the Go types.
func (c *Config) Schema() ([]byte, error) {
	s := schemaOf(reflect.TypeFor[Config]())
	s.Version, s.ID = jsonschema.Version, "urn:crowsnest:schema:config"
	s.Title = "Configuration of crowsnest"
	s.Properties.Set("sources", schemaOfKinds(c.Sources.Kinds))
	s.Properties.Set("sinks", schemaOfKinds(c.Sinks.Kinds))
	return json.MarshalIndent(s, "", "  ")
}

func schemaOfKinds(kinds []component.Kind) *jsonschema.Schema {
	out := &jsonschema.Schema{Type: "object", Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema}
	for _, k := range kinds {
		t := reflect.TypeOf(k.Settings)
		s := schemaOf(t)
		for _, f := range reflect.VisibleFields(t) {
			if strings.Contains(f.Tag.Get("strict"), "required") {
				s.Required = append(s.Required, f.Tag.Get("yaml"))
			}
		}
		if !k.Single {
			s = &jsonschema.Schema{OneOf: []*jsonschema.Schema{s, {Type: "array", Items: s}}}
		}
		out.Properties.Set(k.Key, s)
	}
	return out
}

func schemaOf(t reflect.Type) *jsonschema.Schema {
	r := jsonschema.Reflector{
		FieldNameTag: "yaml", ExpandedStruct: true, DoNotReference: true, Anonymous: true,
		RequiredFromJSONSchemaTags: true, Mapper: mapType,
	}
	s := r.ReflectFromType(t)
	s.Version, s.ID = "", ""
	return s
}

// mapType returns the schema of a type that decodes itself. Nil means the default schema.
func mapType(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return &jsonschema.Schema{Type: "string", Pattern: durationPattern}
	case reflect.TypeFor[httpconfig.Config](), reflect.TypeFor[commonconfig.HTTPClientConfig]():
		return &jsonschema.Schema{
			Type:        "object",
			Description: "TLS, credentials and proxies as in Prometheus: https://prometheus.io/docs/prometheus/latest/configuration/configuration/#http_config",
		}
	case reflect.TypeFor[strictyaml.Keys](), reflect.TypeFor[component.Parts]():
		return &jsonschema.Schema{}
	}
	return nil
}
