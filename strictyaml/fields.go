package strictyaml

import (
	"reflect"
	"sort"
	"strings"
)

// field is one key that a struct takes.
type field struct {
	value    reflect.Value
	required bool
	anchors  bool
	bounds   Range
	bounded  bool
	mistake  error // in the tag of the bounds
}

// fieldsOf returns the keys of a struct and its field for their places, which
// is not valid if there is none.
func fieldsOf(v reflect.Value) (fields map[string]field, keys reflect.Value) {
	fields = map[string]field{}
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		if sf.Type == reflect.TypeFor[Keys]() && sf.IsExported() {
			keys = v.Field(i)
			continue
		}
		name, flags, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
		if flags == "inline" && sf.Type.Kind() == reflect.Struct {
			inner, _ := fieldsOf(v.Field(i))
			for n, f := range inner {
				fields[n] = f
			}
			continue
		}
		if name == "" || name == "-" || !sf.IsExported() {
			continue
		}
		strict := strings.Split(sf.Tag.Get("strict"), ",")
		f := field{value: v.Field(i), required: has(strict, "required"), anchors: has(strict, "anchors")}
		f.bounds, f.bounded, f.mistake = BoundsOf(sf)
		fields[name] = f
	}
	return fields, keys
}

func has(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func sortedNames(fields map[string]field) []string {
	names := make([]string, 0, len(fields))
	for n := range fields {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// closest returns the name that a misspelt one was probably meant to be, or "".
func closest(word string, names []string) string {
	best, bestCost := "", (len(word)+1)/3
	squeezed := squeeze(word)
	for _, n := range names {
		if squeeze(n) == squeezed {
			return n
		}
		if c := editDistance(strings.ToLower(word), n); c <= bestCost && c < len(n) {
			if best == "" || c < bestCost {
				best, bestCost = n, c
			}
		}
	}
	return best
}

// squeeze makes keepFiringFor, keep-firing-for and keep_firing_for equal.
func squeeze(s string) string {
	return strings.NewReplacer("_", "", "-", "", ".", "", " ", "").Replace(strings.ToLower(s))
}

// editDistance counts insertions, deletions, replacements and swaps of
// neighbours.
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

// Closest returns the name that a misspelt one was probably meant to be, or "".
func Closest(word string, names []string) string {
	best, bestCost := "", (len(word)+1)/3
	for _, n := range names {
		if c := editDistance(strings.ToLower(word), strings.ToLower(n)); c <= bestCost && c < len(n) && (best == "" || c < bestCost) {
			best, bestCost = n, c
		}
	}
	return best
}
