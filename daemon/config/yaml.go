package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	commonconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"

	"crowsnest/daemon/component"
	"crowsnest/internal/httpconfig"
	"crowsnest/internal/yamltext"
)

const secretText = "<secret>"

// FormatYAML formats the settings of a configuration that are set as YAML, without secrets.
func FormatYAML(cfg Config) string { return yamlMap(reflect.ValueOf(cfg)).String() }

// yamlMap returns the settings of a struct or a map that are set.
func yamlMap(v reflect.Value) yamltext.Map {
	var out yamltext.Map
	for _, f := range yamlFields(v) {
		if value := yamlValue(f.name, f.value); value != nil {
			out = append(out, yamltext.Entry{Key: f.name, Value: value})
		}
	}
	return out
}

type yamlField struct {
	name  string
	value reflect.Value
}

// yamlFields returns the entries of a struct or a map, including the entries of inline structs.
func yamlFields(v reflect.Value) []yamlField {
	var out []yamlField
	if parts, ok := v.Interface().(component.Parts); ok {
		for _, k := range parts.Kinds {
			all := parts.ByKind(k.Key)
			if k.Single && len(all) > 0 {
				out = append(out, yamlField{k.Key, reflect.ValueOf(all[0])})
				continue
			}
			out = append(out, yamlField{k.Key, reflect.ValueOf(all)})
		}
		return out
	}
	if v.Kind() == reflect.Map {
		keys := map[string]reflect.Value{}
		for _, k := range v.MapKeys() {
			keys[fmt.Sprint(k.Interface())] = v.MapIndex(k)
		}
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			out = append(out, yamlField{k, keys[k]})
		}
		return out
	}
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		if !sf.IsExported() {
			continue
		}
		name, flags, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
		switch {
		case name == "-":
		case strings.Contains(flags, "inline") || sf.Anonymous && name == "":
			fv := v.Field(i)
			if fv.Kind() == reflect.Interface {
				fv = fv.Elem().Elem()
			}
			if fv.Kind() == reflect.Struct {
				out = append(out, yamlFields(fv)...)
			}
		case name != "":
			out = append(out, yamlField{name, v.Field(i)})
		}
	}
	return out
}

// yamlValue returns the value of a setting, or nil if it is not set.
func yamlValue(name string, v reflect.Value) any {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
		if v.Kind() == reflect.Struct && v.IsZero() {
			return yamltext.Raw("{}")
		}
	}
	if text, ok := yamlScalar(v); ok && (!v.IsZero() || v.Kind() == reflect.Bool) {
		return yamltext.Raw(text)
	}
	parts, components := v.Interface().(component.Parts)
	switch {
	case v.IsZero(), components && len(parts.All) == 0:
		return nil
	case name == "endpoint_params", name == "http_headers": // each of them may be a password
		return yamltext.Raw(secretText)
	case v.Kind() == reflect.Struct, v.Kind() == reflect.Map && v.Len() > 0:
		return yamlItem(v)
	case v.Kind() == reflect.Slice && v.Len() > 0:
		var out yamltext.List
		for i := range v.Len() {
			out = append(out, yamlItem(v.Index(i)))
		}
		return out
	}
	return nil
}

// yamlItem returns the value of an item of a list, or of a struct or map with entries.
func yamlItem(v reflect.Value) any {
	if text, ok := yamlScalar(v); ok {
		return yamltext.Raw(text)
	}
	if out := yamlMap(v); len(out) > 0 {
		return out
	}
	return yamltext.Raw("{}")
}

func yamlScalar(v reflect.Value) (string, bool) {
	switch x := v.Interface().(type) {
	case commonconfig.Secret:
		return secretText, true
	case commonconfig.URL:
		return strconv.Quote(httpconfig.DisplayAddress(x.Redacted())), true
	case time.Duration:
		return model.Duration(x).String(), true
	}
	switch v.Kind() {
	case reflect.String:
		return strconv.Quote(httpconfig.DisplayAddress(v.String())), true
	case reflect.Bool:
		return strconv.FormatBool(v.Bool()), true
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10), true
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.FormatUint(v.Uint(), 10), true
	case reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64), true
	}
	return "", false
}

// FormatEffective formats the configuration with the trusted namespaces instead of changes to the list.
func (c *Config) FormatEffective() string {
	shown := *c
	if trusted, err := c.Namespaces(); err == nil {
		shown.Rules.InfrastructureNamespaces = trusted.List()
	}
	return FormatYAML(shown)
}
