package matcher

import (
	"slices"
	"strings"
)

// fields are the fields of one line. The first lookup reads them. A line that starts
// with a JSON object has the members of that object; anything else is text, even JSON
// behind a prefix.
type fields struct {
	line []byte
	read bool
	json bool
	obj  jsonFields
	text textFields
}

func (f *fields) reset(line []byte) { f.line, f.read = line, false }

// lookup returns the value of a field, which is valid until the next reset. A
// field may be there and empty.
func (f *fields) lookup(name string) (value []byte, ok bool) {
	if !f.read {
		f.read = true
		if f.json = f.obj.read(f.line); !f.json {
			f.text.read(f.line)
		}
	}
	if f.json {
		return f.obj.lookup(name)
	}
	return f.text.lookup(name)
}

// safeByte reports whether a letter of a field's name or value appears unescaped in the
// line, whatever its format. Quotes, backslashes and control characters are escaped,
// JSON may escape the slash, and writers differ in which non-ASCII characters they
// escape. The slash also joins the two members of a reference, which JSON writes
// separately. JSON may write any letter as \u00XX: see hasLetterEscape.
func safeByte(c byte) bool {
	return printable(rune(c)) && c != '"' && c != '\\' && c != '/'
}

// Bounds of what all returns.
const (
	maxListed = 256
	maxDepth  = 8
)

// all returns the fields that have a value, in the order of the line: the first
// 256, of those that are not too deep in other objects.
func (f *fields) all() []NamedValue {
	f.lookup("") // reads them
	var out []NamedValue
	seen := map[string]bool{}
	for i := 0; i < f.count() && len(out) < maxListed; i++ {
		name := f.name(i)
		if v, ok := f.lookup(name); ok && !seen[name] {
			seen[name] = true
			out = append(out, NamedValue{Name: name, Value: string(v), From: "field"})
		}
	}
	return out
}

func (f *fields) count() int {
	if f.json {
		return len(f.obj.members)
	}
	return len(f.text.fields)
}

// name returns the name of a field, dotted if it is in another object; "" if it
// is too deep.
func (f *fields) name(i int) string {
	if !f.json {
		t := &f.text.fields[i]
		if t.keyQuoted {
			return string(f.text.unquoted(t.key))
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
