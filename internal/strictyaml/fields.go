package strictyaml

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// shape describes the keys that a struct type accepts.
type shape struct {
	fields   map[string]field
	names    []string // sorted names of the fields
	required []string // sorted names of the required fields
	keys     []int    // index of the field of type Keys; nil if there is none
}

// field is a key that a struct accepts.
type field struct {
	index    []int // index path for reflect.Value.FieldByIndex
	required bool
	anchors  bool
	bounds   Range
	bounded  bool
	mistake  error // error in the struct tag bounds
}

// structShape returns the shape of a struct type. Shapes are cached, because the same types
// occur many times in a file, and reading their tags takes longer than decoding.
func (d *decoder) structShape(t reflect.Type) *shape {
	if s := d.shapes[t]; s != nil {
		return s
	}
	s := &shape{fields: map[string]field{}}
	d.shapes[t] = s
	s.addFields(t, nil)
	s.names = slices.Sorted(maps.Keys(s.fields))
	for _, name := range s.names {
		if s.fields[name].required {
			s.required = append(s.required, name)
		}
	}
	return s
}

// addFields adds the fields of a type. index is the index path of the type in the struct.
func (s *shape) addFields(t reflect.Type, index []int) {
	for i := range t.NumField() {
		sf, at := t.Field(i), append(slices.Clip(index), i)
		if sf.Type == reflect.TypeFor[Keys]() && sf.IsExported() {
			if len(index) == 0 {
				s.keys = at
			}
			continue
		}
		name, flags, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
		if flags == "inline" && sf.Type.Kind() == reflect.Struct {
			s.addFields(sf.Type, at)
			continue
		}
		if name == "" || name == "-" || !sf.IsExported() {
			continue
		}
		strict := strings.Split(sf.Tag.Get("strict"), ",")
		f := field{index: at, required: slices.Contains(strict, "required"), anchors: slices.Contains(strict, "anchors")}
		f.bounds, f.bounded, f.mistake = BoundsOf(sf)
		s.fields[name] = f
	}
}

// Closest returns the name in names that a misspelt word probably means, or "".
func Closest(word string, names []string) string {
	best, bestCost := "", (len(word)+1)/3
	squeezed, lower := squeezeName(word), strings.ToLower(word)
	for _, n := range names {
		if squeezeName(n) == squeezed {
			return n
		}
		if d := len(word) - len(n); max(d, -d) > bestCost {
			continue // the difference in length is a lower bound of the edit distance
		}
		if c := editDistance(lower, strings.ToLower(n)); c <= bestCost && c < len(n) && (best == "" || c < bestCost) {
			best, bestCost = n, c
		}
	}
	return best
}

// SuggestName returns a fix that names the word in names that was probably meant. otherwise is the fix if no word in
// names is similar.
func SuggestName(word string, names []string, otherwise string) string {
	if best := Closest(word, names); best != "" {
		return "did you mean " + best + "?"
	}
	return otherwise
}

// squeezeName returns a name in lower case without separators, so that keepFiringFor, keep-firing-for and
// keep_firing_for are equal.
func squeezeName(s string) string { return squeezer.Replace(strings.ToLower(s)) }

var squeezer = strings.NewReplacer("_", "", "-", "", ".", "", " ", "")

// editDistance returns the number of insertions, deletions, replacements and swaps of adjacent
// letters that turn a into b.
func editDistance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	before, prev := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur := make([]int, len(b)+1)
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev = prev, cur
	}
	return prev[len(b)]
}
