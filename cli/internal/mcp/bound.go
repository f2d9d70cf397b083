package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"crowsnest/internal/text"
	"crowsnest/redact"
)

// Limits of an answer. The tags max and items of a field override them.
const (
	maxPage  = 24 << 10 // maximum size in bytes of the entries of a list, or of one page of text
	maxText  = 4000     // maximum length of a string in bytes
	maxValue = 300      // maximum length in bytes of a key of a map, and of a name
	maxItems = 50       // maximum number of items of a list or map inside an entry
	maxError = 2 << 10
	maxNotes = 20
)

// cleanText removes unsafe characters from the lines of a string, and truncates the string to n bytes.
func cleanText(s string, n int) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = redact.Sanitise(lines[i])
	}
	return text.Shorten(strings.Join(lines, "\n"), n)
}

// answerBounder removes unsafe characters from the strings of an answer, and truncates its strings, lists and maps.
type answerBounder struct {
	notes   []string
	omitted int // number of notes that are omitted
}

// applyBounds applies the limits to the value that v points to. It returns notes about the truncated parts.
func applyBounds(v any) []string {
	var b answerBounder
	b.boundValue(reflect.ValueOf(v).Elem(), "", maxText, maxItems)
	if b.omitted > 0 {
		b.notes = append(b.notes, fmt.Sprintf("%d more texts or lists", b.omitted))
	}
	return b.notes
}

func (b *answerBounder) addNote(format string, args ...any) {
	if len(b.notes) == maxNotes {
		b.omitted++
		return
	}
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}

func (b *answerBounder) boundText(s, path string, n int) string {
	out := cleanText(s, n)
	if len(s) > n && len(out) >= n-len("…")-3 {
		b.addNote("%s: the first %d of %d bytes", path, n, len(s))
	}
	return out
}

func (b *answerBounder) boundValue(v reflect.Value, path string, size, items int) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			b.boundValue(v.Elem(), path, size, items)
		}
	case reflect.String:
		v.SetString(b.boundText(v.String(), path, size))
	case reflect.Slice:
		if v.Len() > items {
			b.addNote("%s: the first %d of %d", path, items, v.Len())
			v.Set(v.Slice(0, items))
		}
		for i := range v.Len() {
			b.boundValue(v.Index(i), fmt.Sprintf("%s[%d]", path, i), size, maxItems)
		}
	case reflect.Map:
		b.boundMap(v, path)
	case reflect.Struct:
		b.boundFields(v, path)
	}
}

func (b *answerBounder) boundFields(v reflect.Value, path string) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || f.Type.Kind() == reflect.Struct && f.Type.PkgPath() == "time" {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.Anonymous {
			name = strings.TrimPrefix(path+"."+name, ".")
		}
		b.boundValue(v.Field(i), name, tagBound(f.Tag, "max", maxText), tagBound(f.Tag, "items", maxItems))
	}
}

// tagBound returns the limit in a struct tag, or the value of otherwise if the tag has none. Zero means that another
// part of the package limits the field.
func tagBound(tag reflect.StructTag, name string, otherwise int) int {
	if n, err := strconv.Atoi(tag.Get(name)); err == nil {
		return n
	}
	return otherwise
}

func (b *answerBounder) boundMap(v reflect.Value, path string) {
	in := v.Interface().(map[string]string)
	names := slices.Sorted(maps.Keys(in))
	if len(names) > maxItems {
		b.addNote("%s: the first %d of %d", path, maxItems, len(names))
		names = names[:maxItems]
	}
	out := make(map[string]string, len(names))
	for _, name := range names {
		out[cleanText(name, maxValue)] = b.boundText(in[name], path+"."+cleanText(name, maxValue), maxText)
	}
	v.Set(reflect.ValueOf(out))
}

// toJSON encodes a value. It escapes only characters that JSON requires to be escaped, because no browser reads the
// result.
func toJSON(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// pageEntries returns the entries from offset on that fit into an answer. next is the offset of the next entry, or nil
// if there is none.
func pageEntries[T any](all []T, offset int) (shown []T, next *int, err error) {
	if offset < 0 || offset > 0 && offset >= len(all) {
		return nil, nil, fmt.Errorf("offset is %d, and there are %d entries: use the next_offset of the answer before", offset, len(all))
	}
	shown, size := []T{}, 0
	for i := range all[offset:] {
		data, err := json.Marshal(all[offset+i])
		if err != nil {
			return nil, nil, err
		}
		if size += len(data); i > 0 && size > maxPage {
			at := offset + i
			return shown, &at, nil
		}
		shown = append(shown, all[offset+i])
	}
	return shown, nil, nil
}
