package config_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"crowsnest/daemon/component"
	"crowsnest/daemon/config"
	"crowsnest/internal/httpconfig"
	"crowsnest/internal/strictyaml"
)

// The configuration reference is generated from the types and their comments.
// UPDATE_SNAPSHOTS=1, as in make docs, writes it.
func TestConfigurationPage(t *testing.T) {
	const file = "../../docs/configuration.md"
	want := configurationPage(t, config.Default())
	if os.Getenv("UPDATE_SNAPSHOTS") != "" {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
	}
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, want, string(got), "run make docs")
}

const pageHead = `# Configuration

Every key of the configuration file. [deploy/crowsnest.yml](../deploy/crowsnest.yml) is an example with explanations;
` + "`crowsnest check config FILE`" + ` checks a file, and ` + "`crowsnest schema config`" + ` prints its JSON Schema for editors.
`

// page writes the reference of the configuration.
type page struct {
	strings.Builder
	t      *testing.T
	shared map[row][]string // kinds of a section that have the same row
}

// row describes one key.
type row struct{ key, value, text string }

func configurationPage(t *testing.T, cfg *config.Config) string {
	p := &page{t: t}
	p.WriteString(pageHead)
	sections := map[string][]component.Kind{"sources": cfg.Sources.Kinds, "sinks": cfg.Sinks.Kinds}
	root := reflect.TypeFor[config.Config]()
	for i := range root.NumField() {
		key := root.Field(i).Tag.Get("yaml")
		if key == "" || key == "-" {
			continue
		}
		fmt.Fprintf(p, "\n## `%s`\n", key)
		if kinds, ok := sections[key]; ok {
			p.common(kinds)
			for _, k := range kinds {
				p.kind(k)
			}
			if key == "sources" {
				p.losses(kinds)
			}
			p.shared = nil
			continue
		}
		t := root.Field(i).Type
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		p.table(t)
	}
	return p.String()
}

// common writes the keys that several kinds of a section have.
func (p *page) common(kinds []component.Kind) {
	p.shared = map[row][]string{}
	var order []row
	for _, k := range kinds {
		for _, r := range p.rows(reflect.TypeOf(k.Settings), "") {
			if p.shared[r] == nil {
				order = append(order, r)
			}
			p.shared[r] = append(p.shared[r], k.Key)
		}
	}
	p.WriteString("\nEach kind is a mapping, or a list of mappings. It has keys of its own, and these:\n\n| Key | Value | | Kinds |\n|---|---|---|---|\n")
	for _, r := range order {
		if names := p.shared[r]; len(names) > 1 {
			list := strings.Join(names, ", ")
			if len(names) == len(kinds) {
				list = "all"
			}
			fmt.Fprintf(p, "| `%s` | %s | %s | %s |\n", r.key, r.value, r.text, list)
		}
	}
}

// kind writes what a kind is for, and its own keys.
func (p *page) kind(k component.Kind) {
	fmt.Fprintf(p, "\n### `%s`\n\n%s", k.Key, k.Help)
	if k.Single {
		p.WriteString(" A configuration has at most one.")
	}
	p.WriteString("\n")
	p.table(reflect.TypeOf(k.Settings))
}

// losses writes the reasons for which sources lose lines.
func (p *page) losses(kinds []component.Kind) {
	all, sources := component.Losses{}, map[string][]string{}
	for _, k := range kinds {
		maps.Copy(all, k.Losses)
		for reason := range k.Losses {
			sources[reason] = append(sources[reason], k.Key)
		}
	}
	p.WriteString("\n### Reasons for lost lines\n\n`CrowsnestLinesLost` is a warning unless the table says otherwise.\n\n| `reason` | What it means, and what to do |\n|---|---|\n")
	for _, reason := range slices.Sorted(maps.Keys(all)) {
		l := all[reason]
		about := strings.Join(sources[reason], ", ")
		if l.Severity != "warning" {
			about += "; " + l.Severity
		}
		fmt.Fprintf(p, "| `%s` (%s) | %s. %s |\n", reason, about, strings.ToUpper(l.What[:1])+l.What[1:], l.Fix)
	}
}

func (p *page) table(t reflect.Type) {
	p.WriteString("\n| Key | Value | |\n|---|---|---|\n")
	for _, r := range p.rows(t, "") {
		if len(p.shared[r]) < 2 {
			fmt.Fprintf(p, "| `%s` | %s | %s |\n", r.key, r.value, r.text)
		}
	}
}

// inline is the tag of a struct whose keys are keys of the struct that contains it.
const inline = ",inline"

// rows returns the keys of a struct and of the structs in it.
func (p *page) rows(t reflect.Type, prefix string) (out []row) {
	docs, last, first := p.comments(t), "", ""
	for _, f := range reflect.VisibleFields(t) {
		key := f.Tag.Get("yaml")
		if key == "" || key == "-" || key == inline {
			continue
		}
		value := p.value(f)
		if strings.Contains(f.Tag.Get("strict"), "required") {
			value += ", **required**"
		}
		text := description(docs[f.Name], key)
		if doc := docs[f.Name]; doc == "" || doc == last { // a comment may be about two fields
			text = "See `" + first + "`."
		} else {
			last, first = doc, key
		}
		out = append(out, row{prefix + key, value, strings.NewReplacer("|", `\|`, "*", `\*`, "<", "&lt;").Replace(text)})
		inner := f.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && inner != reflect.TypeFor[httpconfig.Config]() {
			out = append(out, p.rows(inner, prefix+key+".")...)
		}
	}
	return out
}

// description returns a comment without the key with which it begins: "`paths` are files"
// becomes "Files".
func description(comment, key string) string {
	text := strings.TrimPrefix(comment, "`"+key+"` ")
	if text == comment || strings.HasPrefix(text, "and ") {
		return comment
	}
	if strings.HasPrefix(text, "of ") {
		text = key + " " + text
	}
	text = strings.TrimPrefix(strings.TrimPrefix(text, "is "), "are ")
	return strings.ToUpper(text[:1]) + text[1:]
}

// value describes how a value is written.
func (p *page) value(f reflect.StructField) string {
	t := f.Type
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	r, bounded, err := strictyaml.BoundsOf(f)
	require.NoError(p.t, err)
	switch {
	case t == reflect.TypeFor[httpconfig.Config]():
		return "[as in Prometheus](https://prometheus.io/docs/prometheus/latest/configuration/configuration/#http_config)"
	case t == reflect.TypeFor[time.Duration]():
		if r.Min == 0 && time.Duration(r.Max) >= 365*24*time.Hour {
			return "duration"
		}
		return fmt.Sprintf("duration, %s to %s", model.Duration(r.Min), model.Duration(r.Max))
	case t.Kind() == reflect.Bool:
		return "boolean"
	case t.Kind() == reflect.String:
		return "text"
	case t.Kind() == reflect.Map:
		return "map"
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return "list of maps"
	case t.Kind() == reflect.Slice:
		return "list"
	case t.Kind() == reflect.Struct:
		return "map"
	case bounded && r.Max < 1e6:
		return fmt.Sprintf("number, %v to %.0f", r.Min, r.Max)
	}
	return "number"
}

// comments returns the comments of the fields of a struct, with keys in place of field
// names.
func (p *page) comments(t reflect.Type) map[string]string {
	module := strings.TrimSuffix(reflect.TypeFor[config.Config]().PkgPath(), "daemon/config")
	files, err := filepath.Glob(filepath.Join("../..", strings.TrimPrefix(t.PkgPath(), module), "*.go"))
	require.NoError(p.t, err)
	out := map[string]string{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		require.NoError(p.t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != t.Name() {
				return true
			}
			for _, field := range spec.Type.(*ast.StructType).Fields.List {
				for _, name := range field.Names {
					out[name.Name] = strings.Join(strings.Fields(field.Doc.Text()), " ")
				}
			}
			return false
		})
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if key := f.Tag.Get("yaml"); key == inline {
			maps.Copy(out, p.comments(f.Type))
		} else if key != "" && key != "-" {
			name := regexp.MustCompile(`\b` + f.Name + `\b`)
			for field, text := range out {
				out[field] = name.ReplaceAllString(text, "`"+key+"`")
			}
		}
	}
	return out
}
