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
	"crowsnest/httpconfig"
)

const secretText = "<secret>"

// FormatYAML formats the configuration as YAML, without secrets and without settings that
// are not set.
func FormatYAML(cfg Config) string {
	var b strings.Builder
	writeYAML(&b, reflect.ValueOf(cfg), "")
	return b.String()
}

// writeYAML writes a value that starts on a new line.
func writeYAML(b *strings.Builder, v reflect.Value, indent string) {
	for _, f := range yamlFields(v) {
		writeEntry(b, indent, f.name, f.value)
	}
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

func writeEntry(b *strings.Builder, indent, name string, v reflect.Value) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return
		}
		if text, ok := yamlScalar(v); ok {
			fmt.Fprintf(b, "%s%s: %s\n", indent, name, text)
			return
		}
		v = v.Elem()
		if v.Kind() == reflect.Struct && v.IsZero() {
			fmt.Fprintf(b, "%s%s: {}\n", indent, name)
			return
		}
	}
	if text, ok := yamlScalar(v); ok {
		if !v.IsZero() || v.Kind() == reflect.Bool {
			fmt.Fprintf(b, "%s%s: %s\n", indent, name, text)
		}
		return
	}
	if parts, ok := v.Interface().(component.Parts); ok && len(parts.All) == 0 {
		return
	}
	switch v.Kind() {
	case reflect.Struct, reflect.Map:
		if (name == "endpoint_params" || name == "http_headers") && !v.IsZero() { // each of them may be a password
			fmt.Fprintf(b, "%s%s: %s\n", indent, name, secretText)
			return
		}
		if v.IsZero() || v.Kind() == reflect.Map && v.Len() == 0 {
			return
		}
		var inner strings.Builder
		writeYAML(&inner, v, indent+"  ")
		if inner.Len() > 0 {
			fmt.Fprintf(b, "%s%s:\n%s", indent, name, inner.String())
		} else {
			fmt.Fprintf(b, "%s%s: {}\n", indent, name)
		}
	case reflect.Slice:
		if v.Len() > 0 {
			fmt.Fprintf(b, "%s%s:\n", indent, name)
			writeList(b, v, indent)
		}
	}
}

func writeList(b *strings.Builder, v reflect.Value, indent string) {
	for i := range v.Len() {
		if text, ok := yamlScalar(v.Index(i)); ok {
			fmt.Fprintf(b, "%s- %s\n", indent, text)
			continue
		}
		var inner strings.Builder
		writeYAML(&inner, v.Index(i), indent+"  ")
		text := strings.TrimPrefix(inner.String(), indent+"  ")
		if text == "" {
			text = "{}\n"
		}
		fmt.Fprintf(b, "%s- %s", indent, text)
	}
}

// yamlScalar formats a value that fits on one line.
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

// FormatEffective formats the effective configuration. It lists the trusted namespaces instead
// of changes to the built-in list.
func (c *Config) FormatEffective() string {
	shown := *c
	if trusted, err := c.Namespaces(); err == nil {
		shown.Rules.InfrastructureNamespaces = trusted.List()
	}
	return FormatYAML(shown)
}
