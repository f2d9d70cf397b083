package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"crowsnest/daemon/component"
	"crowsnest/internal/strictyaml"
	"crowsnest/rules"
)

// module begins the import path of each of our packages.
var module = strings.TrimSuffix(reflect.TypeFor[Config]().PkgPath(), "daemon/config")

// bounded is a field of the configuration with bounds and the keys that lead to it.
type bounded struct {
	path []string // a key that ends in - has a list of mappings
	kind reflect.Type
	strictyaml.Range
}

// boundedFields finds every field with bounds below a struct.
func boundedFields(t *testing.T, s reflect.Type, path []string) []bounded {
	var out []bounded
	for i := range s.NumField() {
		f := s.Field(i)
		name, flags, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if !f.IsExported() || name == "-" || name == "" && flags != "inline" {
			continue
		}
		at, kind := slices.Clone(path), f.Type
		if name != "" {
			at = append(at, name)
		}
		for kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		r, ok, err := strictyaml.BoundsOf(f)
		require.NoError(t, err)
		if ok {
			out = append(out, bounded{at, kind, r})
		}
		if kind.Kind() == reflect.Slice && kind.Elem().Kind() == reflect.Struct {
			at[len(at)-1] += "-"
			kind = kind.Elem()
		}
		if kind.Kind() == reflect.Struct && strings.HasPrefix(kind.PkgPath(), module) {
			out = append(out, boundedFields(t, kind, at)...)
		}
	}
	return out
}

// file writes a configuration with one value, on its last line.
func (b bounded) file(value string) string {
	text, indent := "", ""
	for i, key := range b.path {
		text += indent + strings.TrimSuffix(key, "-") + ":"
		if i < len(b.path)-1 {
			text += "\n"
		}
		indent += "  "
		if strings.HasSuffix(key, "-") && i < len(b.path)-1 {
			text += indent + "-\n"
			indent += "  "
		}
	}
	return text + " " + value + "\n"
}

// value writes a number, a duration, or a text, list or mapping of n bytes or entries.
func (b bounded) value(n float64) string {
	entries := func(format string) string {
		var out []string
		for i := range int(n) {
			out = append(out, fmt.Sprintf(format, i))
		}
		return strings.Join(out, ", ")
	}
	switch {
	case b.kind == reflect.TypeFor[time.Duration]():
		return model.Duration(n).String()
	case b.kind.Kind() == reflect.String:
		return strconv.Quote(strings.Repeat("x", int(n)))
	case b.kind.Kind() == reflect.Map:
		return "{" + entries("l%d: x") + "}"
	case b.kind.Kind() == reflect.Slice && b.kind.Elem().Kind() == reflect.Struct:
		return "[" + strings.TrimSuffix(strings.Repeat("{}, ", int(n)), ", ") + "]"
	case b.kind.Kind() == reflect.Slice:
		return "[" + entries("x%d") + "]"
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

// texts writes a list or a mapping with one text of n bytes.
func (b bounded) texts(n int) string {
	if b.kind.Kind() == reflect.Map {
		return "{l: " + strings.Repeat("x", n) + "}"
	}
	return "[" + strings.Repeat("x", n) + "]"
}

// step returns the smallest increment of a value.
func (b bounded) step() float64 {
	switch {
	case b.kind == reflect.TypeFor[time.Duration]():
		return float64(time.Millisecond)
	case b.kind.Kind() == reflect.Float64:
		return 0.001
	}
	return 1
}

// TestEveryValueAtItsBounds writes a configuration for each field with bounds: at
// them it is accepted, beyond them it is refused with line, column and fix.
func TestEveryValueAtItsBounds(t *testing.T) {
	fields := boundedFields(t, reflect.TypeFor[Config](), nil)
	for section, kinds := range map[string][]component.Kind{"sources": component.Sources(), "sinks": component.Sinks()} {
		for _, k := range kinds {
			key := k.Key
			if !k.Single {
				key += "-"
			}
			fields = append(fields, boundedFields(t, reflect.TypeOf(k.Settings), []string{section, key})...)
		}
	}
	require.Greater(t, len(fields), 100)
	for _, b := range fields {
		if b.kind == reflect.TypeFor[rules.Scope]() {
			continue // one of two words: no length is valid
		}
		beyond := func(value string) strictyaml.Problems {
			_, problems := Parse("c.yml", []byte(b.file(value)))
			return slices.DeleteFunc(problems, func(p strictyaml.Problem) bool { return !strings.Contains(p.Message, "; allowed are ") })
		}
		good := func(value string) {
			t.Helper()
			require.Empty(t, beyond(value), "%v: %.60s", b.path, value)
		}
		bad := func(value string) {
			t.Helper()
			problems := beyond(value)
			require.Len(t, problems, 1, "%v: %.60s", b.path, value)
			p := problems[0]
			require.Equal(t, strings.Count(b.file(value), "\n"), p.Line, "%v: %s", b.path, p.Message)
			require.Positive(t, p.Column)
			require.Regexp(t, "^use at (least|most) ", p.Fix)
		}
		if b.kind.Kind() == reflect.Slice && b.kind.Elem().Kind() == reflect.Struct {
			continue // {} misses required keys, which is reported instead
		}
		good(b.value(b.Min))
		good(b.value(b.Max))
		bad(b.value(b.Max + b.step()))
		if b.Zero {
			good(b.value(0))
		}
		if b.Min > 0 {
			bad(b.value(b.Min - b.step()))
		}
		if b.Text > 0 {
			good(b.texts(int(b.Text)))
			bad(b.texts(int(b.Text) + 1))
		}
		if k := b.kind.Kind(); k == reflect.String || k == reflect.Slice || k == reflect.Map {
			continue
		}
		for _, strange := range []string{"-1", "-1s", ".nan", "-.inf", ".inf", "1e400", "9223372036854775808", "300y", "99999999999999999999y", "[]", "{}"} {
			value := b.file(strange)
			_, problems := Parse("c.yml", []byte(value))
			require.True(t, slices.ContainsFunc(problems, func(p strictyaml.Problem) bool {
				return p.Level == strictyaml.Error && p.Line == strings.Count(value, "\n") && p.Column > 0 && p.Fix != ""
			}), "%v: %s: %v", b.path, strange, problems)
		}
	}
}
