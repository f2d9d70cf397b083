package config

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"crowsnest/httpconfig"
	"crowsnest/strictyaml"

	"github.com/invopop/jsonschema"
	commonconfig "github.com/prometheus/common/config"
)

// durationPattern is a duration as Prometheus writes it.
const durationPattern = `^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$`

// Schema makes the schema of the configuration from its Go types.
func Schema() ([]byte, error) {
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
	if t.Kind() == reflect.Struct && strings.HasPrefix(t.Name(), "Part[") {
		return partSchema(t)
	}
	if t.Kind() == reflect.Slice && strings.HasPrefix(t.Name(), "Parts[") {
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
