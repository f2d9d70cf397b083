package lines

import (
	"bytes"
	"iter"
	"slices"
	"strings"
)

// Fields are the fields of one line. The first lookup reads them. A line that starts
// with a JSON object has the members of that object, and so has a line of zap's console
// encoder that ends with one. Anything else is text, even JSON after another prefix.
type Fields struct {
	line   []byte
	more   []Field
	read   bool
	json   bool
	object int // offset of the JSON object in a line of zap's console encoder, otherwise zero
	obj    jsonFields
	text   textFields
}

// Field is a field that is not in the text of its line.
type Field struct{ Name, Value []byte }

// Reset sets the line to read, without its envelope, and additional fields, which precede those
// in the text. Neither may change while fields are read.
func (f *Fields) Reset(line []byte, more ...Field) { f.line, f.more, f.read = line, more, false }

// Lookup returns the value of a field. It is valid until the next Reset and may be a
// part of the line. A field may be present and empty.
func (f *Fields) Lookup(name string) (value []byte, ok bool) { return f.LookupSaid(name, nil) }

// LookupSaid is Lookup for a field that the program itself states: one that is neither in
// quotes nor in a line that continues another one. If quotes is nil, every field counts.
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
	for range 2 { // the time may be missing
		column, rest, found := bytes.Cut(start, []byte{'\t'})
		if !found {
			return 0
		}
		if isLevel(column) {
			return bytes.LastIndex(line, []byte("\t{\"")) + 1 // a tab in an object is escaped
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

// Bounds of All.
const (
	maxListed = 256
	maxDepth  = 8
)

// IsJSON reports whether the line starts with a JSON object.
func (f *Fields) IsJSON() bool {
	f.Lookup("") // makes the fields available
	return f.json
}

// All yields the fields that have a value, in the order of the line. It yields at most 256, and
// none that is too deeply nested.
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

// name returns the name of a field, with dots if it is in another object. It returns "" if the
// field is too deeply nested.
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
