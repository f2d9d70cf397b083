package component

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"crowsnest/internal/strictyaml"
)

const maxParts = 1000

// Part is a configured component.
type Part struct {
	Kind     Kind
	Name     string          // name of the component's source or sink; a prefix of the names if the component has several
	Settings any             `yaml:",inline"` // pointer to the settings struct of the kind
	Keys     strictyaml.Keys `yaml:"-"`       // positions of the keys in the configuration file
}

// Setting returns the settable value of a key, or the zero Value if the kind does not have the key.
func (p Part) Setting(key string) reflect.Value {
	v := reflect.ValueOf(p.Settings).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		if f.Tag.Get("yaml") == key {
			return v.FieldByIndex(f.Index)
		}
	}
	return reflect.Value{}
}

// Parts are the components below a key of the configuration file, such as sources or sinks.
type Parts struct {
	Kinds []Kind
	All   []Part // sorted by kind, then by position in the file
}

// SettingsOf returns all settings of type T.
func SettingsOf[T any](ps Parts) []*T {
	var out []*T
	for _, p := range ps.All {
		if s, ok := p.Settings.(*T); ok {
			out = append(out, s)
		}
	}
	return out
}

// ByKind returns the components of the kind with this key.
func (ps Parts) ByKind(key string) []Part {
	return slices.DeleteFunc(slices.Clone(ps.All), func(p Part) bool { return p.Kind.Key != key })
}

// Losses returns the explanations of all kinds of components.
func (ps Parts) Losses() Losses {
	out := Losses{}
	for _, k := range ps.Kinds {
		maps.Copy(out, k.Losses)
	}
	return out
}

// Add adds a component. settings is a pointer to the settings of one of the kinds.
func (ps *Parts) Add(settings any) {
	i := slices.IndexFunc(ps.Kinds, func(k Kind) bool { return reflect.TypeOf(k.Settings) == reflect.TypeOf(settings).Elem() })
	ps.add(Part{Kind: ps.Kinds[i], Settings: settings})
}

func (ps *Parts) add(p Part) {
	p.Name = p.Kind.Key
	if n := len(ps.ByKind(p.Name)); n > 0 {
		p.Name = fmt.Sprintf("%s-%d", p.Name, n+1)
	}
	if v := p.Setting("name"); v.IsValid() {
		p.Name = cmp.Or(v.String(), p.Name)
	}
	ps.All = append(ps.All, p)
}

// removedKinds contains, for each removed kind, a hint at the replacement.
var removedKinds = map[string]strictyaml.Hint{
	"fleet":    {Message: "is no longer a source", Fix: "remove it; the alert CrowsnestFailureInManyClusters of deploy/monitoring counts the clusters of a rule"},
	"machines": {Message: "is no longer a source", Fix: "use its view of the source objects, which writes the same lines: objects: {machines: {}}"},
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (ps *Parts) DecodeYAML(n *strictyaml.Node) {
	var keys []string
	for _, k := range ps.Kinds {
		keys = append(keys, k.Key)
	}
	slices.Sort(keys)
	values := map[string]*strictyaml.Node{}
	for _, e := range n.EntriesHints(keys, removedKinds) {
		values[e.Key] = e.Value
	}
	for _, k := range ps.Kinds {
		value := values[k.Key]
		if value == nil {
			continue
		}
		if k.Single || value.Kind() != strictyaml.List {
			ps.decode(k, value)
			continue
		}
		items := value.Items()
		if len(items) > maxParts {
			value.Error("too-many", fmt.Sprintf("%s has %d entries; allowed are 0 to %d", value.Name(), len(items), maxParts),
				fmt.Sprintf("use at most %d entries", maxParts))
			continue
		}
		for _, item := range items {
			ps.decode(k, item)
		}
	}
}

func (ps *Parts) decode(k Kind, n *strictyaml.Node) {
	p := Part{Kind: k, Settings: reflect.New(reflect.TypeOf(k.Settings)).Interface()}
	if p.Keys = n.DecodeStruct(p.Settings); n.Kind() != strictyaml.Map {
		return
	}
	if v, ok := p.Settings.(interface{ Validate() error }); ok && !p.Keys.IsUnreadable() {
		for _, err := range SplitErrors(v.Validate()) {
			placeError(n, err)
		}
	}
	ps.add(p)
}

// placeError reports an error at the key with which its text begins. If the text begins with no key, placeError reports
// it at the key of the kind.
func placeError(n *strictyaml.Node, err error) {
	message, fix := SplitFix(err.Error())
	words := strings.FieldsFunc(message, func(r rune) bool { return r == ':' || r == ' ' })
	for _, word := range words[:min(2, len(words))] {
		for _, e := range n.Entries() {
			if e.Key == word || e.Key == word+"s" {
				e.Value.Error("bad-value", message, fix)
				return
			}
		}
	}
	n.Error("bad-value", message, fix)
}

// SplitFix splits the text of an error at the last "; " into the message and the suggested fix.
func SplitFix(text string) (message, fix string) {
	if i := strings.LastIndex(text, "; "); i >= 0 {
		return text[:i], text[i+2:]
	}
	return text, ""
}

// SplitErrors returns the errors that err joins, such as those of errors.Join.
func SplitErrors(err error) []error {
	var joined interface{ Unwrap() []error }
	switch {
	case err == nil:
		return nil
	case errors.Unwrap(err) != nil || !errors.As(err, &joined):
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, SplitErrors(e)...)
	}
	return out
}
