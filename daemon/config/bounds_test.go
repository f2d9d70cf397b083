package config

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/daemon/component"
	"crowsnest/internal/strictyaml"
	"crowsnest/rules"
)

// TestEveryFieldHasBounds looks at every struct that a file of configuration,
// rules or overrides is decoded into: each number, duration, text, list and
// mapping of texts has a range.
func TestEveryFieldHasBounds(t *testing.T) {
	seen, bounded := map[reflect.Type]bool{}, 0
	var visit func(reflect.Type)
	visit = func(s reflect.Type) {
		for s.Kind() == reflect.Pointer || s.Kind() == reflect.Slice {
			s = s.Elem()
		}
		if s.Kind() != reflect.Struct || seen[s] {
			return
		}
		seen[s] = true
		for i := range s.NumField() {
			f := s.Field(i)
			name := f.Tag.Get("yaml")
			if name == "" || name == "-" || !f.IsExported() {
				continue
			}
			visit(f.Type)
			kind := f.Type
			for kind.Kind() == reflect.Pointer {
				kind = kind.Elem()
			}
			if kind.Kind() == reflect.Bool || kind.Kind() == reflect.Struct {
				continue
			}
			r, ok, err := strictyaml.BoundsOf(f)
			require.NoError(t, err, "%s", s)
			require.True(t, ok, "%s.%s has no bounds", s, f.Name)
			bounded++
			if kind == reflect.TypeFor[time.Duration]() {
				require.LessOrEqual(t, r.Max, float64(366*24*time.Hour), "%s.%s overflows", s, f.Name)
			}
		}
	}
	for _, root := range []reflect.Type{reflect.TypeFor[Config](), reflect.TypeFor[rules.PackFile](), reflect.TypeFor[rules.OverridesFile]()} {
		visit(root)
	}
	for _, k := range append(component.Sources(), component.Sinks()...) {
		visit(reflect.TypeOf(k.Settings))
	}
	require.Greater(t, bounded, 150)
}
