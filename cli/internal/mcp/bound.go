package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"crowsnest/internal/text"
	"crowsnest/redact"
)

// Bounds of an answer. Fields with other bounds have the tags max and items.
const (
	maxPage  = 24 << 10 // bytes of the entries of a list, or of a page of text
	maxText  = 1500     // bytes of a text
	maxValue = 300      // bytes of a value of a map, and of a key
	maxItems = 50       // items of a list or map inside an entry
	maxError = 2 << 10
	maxNotes = 20
)

// clean makes text safe to show, line by line, and truncates it to n bytes.
func clean(s string, n int) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = redact.Sanitise(lines[i])
	}
	return text.Shorten(strings.Join(lines, "\n"), n)
}

// bounded makes every text of an answer safe to show, and truncates texts, lists and maps.
type bounded struct {
	notes []string
	more  int // notes that are left out
}

// bound applies the bounds to what v points to. It returns what was truncated.
func bound(v any) []string {
	var b bounded
	b.value(reflect.ValueOf(v).Elem(), "", maxText, maxItems)
	if b.more > 0 {
		b.notes = append(b.notes, fmt.Sprintf("%d more texts or lists", b.more))
	}
	return b.notes
}

func (b *bounded) note(format string, args ...any) {
	if len(b.notes) == maxNotes {
		b.more++
		return
	}
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}

func (b *bounded) text(s, path string, n int) string {
	out := clean(s, n)
	if len(s) > n && len(out) >= n-len("…")-3 {
		b.note("%s: the first %d of %d bytes", path, n, len(s))
	}
	return out
}

func (b *bounded) value(v reflect.Value, path string, size, items int) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			b.value(v.Elem(), path, size, items)
		}
	case reflect.String:
		v.SetString(b.text(v.String(), path, size))
	case reflect.Slice:
		if v.Len() > items {
			b.note("%s: the first %d of %d", path, items, v.Len())
			v.Set(v.Slice(0, items))
		}
		for i := range v.Len() {
			b.value(v.Index(i), fmt.Sprintf("%s[%d]", path, i), size, maxItems)
		}
	case reflect.Map:
		b.mapping(v, path)
	case reflect.Struct:
		b.fields(v, path)
	}
}

func (b *bounded) fields(v reflect.Value, path string) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || f.Type.Kind() == reflect.Struct && f.Type.PkgPath() == "time" {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.Anonymous {
			name = strings.TrimPrefix(path+"."+name, ".")
		}
		b.value(v.Field(i), name, tagged(f.Tag, "max", maxText), tagged(f.Tag, "items", maxItems))
	}
}

// tagged returns the bound in a tag; zero if the tag says that another part of the package bounds
// the field.
func tagged(tag reflect.StructTag, name string, otherwise int) int {
	if n, err := strconv.Atoi(tag.Get(name)); err == nil {
		return n
	}
	return otherwise
}

// mapping bounds a map of strings.
func (b *bounded) mapping(v reflect.Value, path string) {
	in := v.Interface().(map[string]string)
	names := slices.Sorted(maps.Keys(in))
	if len(names) > maxItems {
		b.note("%s: the first %d of %d", path, maxItems, len(names))
		names = names[:maxItems]
	}
	out := make(map[string]string, len(names))
	for _, name := range names {
		out[clean(name, maxValue)] = b.text(in[name], path+"."+clean(name, maxValue), maxValue)
	}
	v.Set(reflect.ValueOf(out))
}

// writeJSON writes one line of JSON. Only the JSON escapes characters: the readers are not
// browsers.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

func toJSON(v any) (string, error) {
	var b bytes.Buffer
	err := writeJSON(&b, v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// page returns the entries from an offset on, as many as fit, and the offset of the next one;
// Nil if there is none.
func page[T any](all []T, offset, limit int) (shown []T, next *int, err error) {
	if offset < 0 || offset > 0 && offset >= len(all) {
		return nil, nil, fmt.Errorf("offset is %d, and there are %d entries: use the next_offset of the answer before", offset, len(all))
	}
	shown, size := []T{}, 0
	for i := range all[offset:] {
		n, err := sizeOf(all[offset+i])
		if err != nil {
			return nil, nil, err
		}
		if size += n; i > 0 && (size > maxPage || limit > 0 && i == limit) {
			at := offset + i
			return shown, &at, nil
		}
		shown = append(shown, all[offset+i])
	}
	return shown, nil, nil
}

// sizeOf returns the bytes of an entry once its bounds are applied. It leaves the entry as it
// is: what is truncated is noted later.
func sizeOf[T any](entry T) (int, error) {
	var copied T
	data, err := json.Marshal(entry)
	if err != nil {
		return 0, err
	}
	if err := json.Unmarshal(data, &copied); err != nil {
		return 0, err
	}
	bound(&copied)
	data, err = json.Marshal(copied)
	return len(data), err
}
