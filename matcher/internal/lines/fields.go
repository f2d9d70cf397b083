package lines

import (
	"bytes"
	"iter"
	"slices"
	"strings"
)

// Fields are the fields of one line. The first lookup reads them. If a line starts with a JSON object, the fields are
// the members of the object. If a line of zap's console encoder ends with a JSON object, the fields are the members of
// that object. Any other line is text, even if it contains JSON after another prefix.
type Fields struct {
	line   []byte
	more   []Field
	read   bool
	json   bool
	object int // offset of the JSON object in a line of zap's console encoder, otherwise zero
	obj    jsonFields
	text   textFields
}

// Field is an additional field of a line, which is not in the line's text.
type Field struct{ Name, Value []byte }

// Reset sets the line to read, without its envelope, and additional fields, which take precedence over fields in the
// text. Neither may change while fields are read.
func (f *Fields) Reset(line []byte, more ...Field) { f.line, f.more, f.read = line, more, false }

// Lookup returns the value of a field. It is valid until the next Reset and may be a
// part of the line. A field may be present and empty.
func (f *Fields) Lookup(name string) (value []byte, ok bool) { return f.LookupSaid(name, nil) }

// LookupSaid is Lookup for a field in the program's own voice. A field in quoted text, or in a line that continues
// another line, is not in the program's own voice. If quotes is nil, every field counts.
func (f *Fields) LookupSaid(name string, quotes *Quotes) (value []byte, ok bool) {
	for i := range f.more {
		if string(f.more[i].Name) == name {
			return f.more[i].Value, true
		}
	}
	if !f.read {
		f.read = true
		f.object = consoleObject(f.line)
		if f.json = f.obj.read(f.line[f.object:]); !f.json {
			f.text.read(f.line)
		}
	}
	if !f.json {
		return f.text.lookup(name, quotes)
	}
	if quotes != nil && (f.line[0] == '\t' || f.object > 0) && quotes.isQuoted(f.object) {
		return nil, false
	}
	return f.obj.lookup(name)
}

// consoleObject returns the offset of the JSON object at the end of a line of zap's console
// encoder, such as "TIME<tab>ERROR<tab>message<tab>{...}". It returns 0 if there is none.
func consoleObject(line []byte) int {
	start := line[:min(len(line), maxHeader)]
	for range 2 { // there may be no time before the level
		column, rest, found := bytes.Cut(start, []byte{'\t'})
		if !found {
			return 0
		}
		if isLevel(column) {
			return bytes.LastIndex(line, []byte("\t{\"")) + 1 // JSON escapes a tab inside the object
		}
		start = rest
	}
	return 0
}

func isLevel(text []byte) bool {
	switch string(bytes.ToLower(text)) {
	case "debug", "info", "warn", "error", "dpanic", "panic", "fatal":
		return true
	}
	return false
}

// LookupOutside returns the value of a field that is not in the text of the line, or nil if
// there is none.
func (f *Fields) LookupOutside(name string) []byte {
	for i := range f.more {
		if string(f.more[i].Name) == name {
			return f.more[i].Value
		}
	}
	return nil
}

// Limits of All.
const (
	maxListed = 256
	maxDepth  = 8
)

// IsJSON reports whether the line starts with a JSON object.
func (f *Fields) IsJSON() bool {
	f.Lookup("") // reads the fields
	return f.json
}

// All yields the fields that have a value, in the order of the line. It yields at most 256 fields. It omits fields that
// are nested too deeply.
func (f *Fields) All() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		f.Lookup("")
		seen := map[string]bool{}
		for i := 0; i < f.count() && len(seen) < maxListed; i++ {
			name := f.name(i)
			if v, ok := f.Lookup(name); ok && !seen[name] {
				seen[name] = true
				if !yield(name, string(v)) {
					return
				}
			}
		}
	}
}

func (f *Fields) count() int {
	if f.json {
		return len(f.obj.members)
	}
	return len(f.text.fields)
}

// name returns the name of a field. A field in a nested object has a name with dots. The name is "" if the field is
// nested too deeply.
func (f *Fields) name(i int) string {
	if !f.json {
		t := &f.text.fields[i]
		if t.keyQuoted {
			return string(f.text.unquote(t.key))
		}
		return string(t.key)
	}
	var path []string
	for k := int32(i); k >= 0; k = f.obj.members[k].parent {
		if len(path) == maxDepth {
			return ""
		}
		key := f.obj.members[k].key
		if f.obj.members[k].keyEscapes {
			key = f.obj.unescape(key)
		}
		path = append(path, string(key))
	}
	slices.Reverse(path)
	return strings.Join(path, ".")
}
