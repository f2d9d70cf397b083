package lines

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonFields are the members of one JSON object, as slices of their line. Invalid UTF-8 is kept.
type jsonFields struct {
	members []jsonMember
	buf     []byte // memory for unescaped texts
}

type jsonKind uint8

const (
	jsonLiteral jsonKind = iota // a number, true or false
	jsonString
	jsonNull
	jsonOpen   // an object whose end has not been read
	jsonObject // a complete object
	jsonArray
)

type jsonMember struct {
	parent              int32 // index of the member that contains it, or -1 for the outermost object
	kind                jsonKind
	keyEscapes, escapes bool
	key, val            []byte // strings without their quotes
}

// read reads the object at the start of line, and reports whether there is one. It ignores text after the object. If
// the end of the object is missing, it keeps the complete members, because long lines are truncated.
//
// It accepts more than JSON allows: in arrays it checks only quotes and brackets, and strings may contain control
// characters.
func (j *jsonFields) read(line []byte) bool {
	j.members, j.buf = j.members[:0], j.buf[:0]
	r := jsonReader{b: line}
	if r.skipSpace(); r.currentByte() != '{' {
		return false
	}
	r.i++
	parent := int32(-1)
	for {
		r.skipSpace()
		switch r.currentByte() {
		case '"':
			m, ok := r.readMember(parent)
			if !ok {
				return r.atEnd()
			}
			j.members = append(j.members, m)
			if m.kind == jsonOpen {
				parent = int32(len(j.members) - 1)
				continue
			}
		case '}':
			r.i++
			if parent < 0 {
				return true
			}
			j.members[parent].kind = jsonObject
			parent = j.members[parent].parent
		default:
			return r.atEnd()
		}
		if r.skipSpace(); r.currentByte() == ',' {
			r.i++
		} else if r.currentByte() != '}' {
			return r.atEnd()
		}
	}
}

type jsonReader struct {
	b []byte
	i int
}

func (r *jsonReader) atEnd() bool { return r.i >= len(r.b) }

// currentByte returns the current byte, or 0 at the end.
func (r *jsonReader) currentByte() byte {
	if r.i < len(r.b) {
		return r.b[r.i]
	}
	return 0
}

func (r *jsonReader) skipSpace() {
	for r.i < len(r.b) && isSpace(r.b[r.i]) {
		r.i++
	}
}

// readMember reads a key and its value. If the value is an object, it reads only the opening brace. If the member is
// incomplete, the reader moves to the end of the text.
func (r *jsonReader) readMember(parent int32) (m jsonMember, ok bool) {
	m.parent = parent
	if m.key, ok = r.readQuoted(); !ok {
		return m, false
	}
	m.keyEscapes = bytes.IndexByte(m.key, '\\') >= 0
	if r.skipSpace(); r.currentByte() != ':' {
		return m, false
	}
	r.i++
	r.skipSpace()
	switch c := r.currentByte(); c {
	case '"':
		m.kind = jsonString
		m.val, ok = r.readQuoted()
		m.escapes = bytes.IndexByte(m.val, '\\') >= 0
		return m, ok
	case '{':
		m.kind = jsonOpen
		r.i++
		return m, true
	case '[':
		m.kind = jsonArray
		return m, r.skipNested()
	default:
		return m, r.readLiteral(&m)
	}
}

func (r *jsonReader) readQuoted() (val []byte, ok bool) {
	start := r.i + 1
	for i := start; ; {
		k := bytes.IndexByte(r.b[i:], '"')
		if k < 0 {
			r.i = len(r.b)
			return nil, false
		}
		i += k
		if countBackslashes(r.b[start:i])%2 == 0 {
			r.i = i + 1
			return r.b[start:i], true
		}
		i++
	}
}

func countBackslashes(b []byte) int {
	n := 0
	for n < len(b) && b[len(b)-1-n] == '\\' {
		n++
	}
	return n
}

func (r *jsonReader) skipNested() bool {
	for depth := 0; r.i < len(r.b); {
		switch r.b[r.i] {
		case '"':
			if _, ok := r.readQuoted(); !ok {
				return false
			}
			continue
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				r.i++
				return true
			}
		}
		r.i++
	}
	return false
}

// readLiteral reads a number, true, false or null. A literal at the end of the text is rejected, because it may be
// truncated.
func (r *jsonReader) readLiteral(m *jsonMember) bool {
	start := r.i
	for r.i < len(r.b) && !isSpace(r.b[r.i]) && r.b[r.i] != ',' && r.b[r.i] != '}' && r.b[r.i] != ']' {
		r.i++
	}
	m.val, m.kind = r.b[start:r.i], jsonLiteral
	if r.atEnd() {
		return false
	}
	switch string(m.val) {
	case "null":
		m.kind = jsonNull
	case "true", "false":
	default:
		if len(m.val) == 0 || m.val[0] != '-' && !isDigit(m.val[0]) {
			return false
		}
	}
	return true
}

// lookup returns the value of a field. The value may be a string, a number, true or false. An object {namespace, name}
// has the value ns/name. A dotted name also finds members of nested objects.
func (j *jsonFields) lookup(name string) ([]byte, bool) { return j.find(-1, name) }

func (j *jsonFields) find(parent int32, name string) ([]byte, bool) {
	if v, ok := j.memberValue(j.lastMember(parent, name)); ok {
		return v, true
	}
	for dot := len(name); ; {
		if dot = strings.LastIndexByte(name[:dot], '.'); dot < 0 {
			return nil, false
		}
		k := j.lastMember(parent, name[:dot])
		if k < 0 || j.members[k].kind != jsonObject && j.members[k].kind != jsonOpen {
			continue
		}
		if v, ok := j.find(k, name[dot+1:]); ok {
			return v, true
		}
	}
}

func (j *jsonFields) lastMember(parent int32, key string) int32 {
	for i := len(j.members) - 1; i >= 0; i-- {
		if m := &j.members[i]; m.parent == parent && j.hasKey(m, key) {
			return int32(i)
		}
	}
	return -1
}

func (j *jsonFields) hasKey(m *jsonMember, key string) bool {
	return string(m.key) == key || m.keyEscapes && string(j.unescape(m.key)) == key
}

func (j *jsonFields) memberValue(k int32) ([]byte, bool) {
	if k < 0 {
		return nil, false
	}
	switch m := &j.members[k]; m.kind {
	case jsonLiteral:
		return m.val, true
	case jsonString:
		if m.escapes {
			return j.unescape(m.val), true
		}
		return m.val, true
	case jsonObject:
		return j.objectReference(k)
	}
	return nil, false
}

// objectReference returns the value of an object that consists of a name and an optional namespace.
func (j *jsonFields) objectReference(k int32) ([]byte, bool) {
	for i := k + 1; i < int32(len(j.members)); i++ {
		if m := &j.members[i]; m.parent == k && !j.hasKey(m, "name") && !j.hasKey(m, "namespace") {
			return nil, false
		}
	}
	name, ok := j.stringMember(k, "name")
	if !ok {
		return nil, false
	}
	ns, _ := j.stringMember(k, "namespace")
	if n := j.lastMember(k, "namespace"); n >= 0 && j.members[n].kind != jsonString && j.members[n].kind != jsonNull {
		return nil, false
	}
	if len(ns) == 0 {
		return name, true
	}
	start := len(j.buf)
	j.buf = append(append(append(j.buf, ns...), '/'), name...)
	return j.buf[start:], true
}

func (j *jsonFields) stringMember(parent int32, key string) ([]byte, bool) {
	k := j.lastMember(parent, key)
	if k < 0 || j.members[k].kind != jsonString {
		return nil, false
	}
	return j.memberValue(k)
}

// unescape decodes a JSON string into buf and returns the text. Earlier results stay valid.
func (j *jsonFields) unescape(raw []byte) []byte {
	start := len(j.buf)
	j.buf = appendUnescaped(j.buf, raw)
	return j.buf[start:]
}

// appendUnescaped appends the text of a JSON string. As in encoding/json, an unpaired surrogate becomes U+FFFD. An
// unknown escape is kept as written.
func appendUnescaped(dst, raw []byte) []byte {
	for {
		k := bytes.IndexByte(raw, '\\')
		if k < 0 || k+1 == len(raw) {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:k]...)
		esc := raw[k+1]
		raw = raw[k:]
		n := 2
		switch esc {
		case '"', '\\', '/':
			dst = append(dst, esc)
		case 'b', 'f', 'n', 'r', 't':
			dst = append(dst, "\b\f\n\r\t"[strings.IndexByte("bfnrt", esc)])
		default:
			r, width := unicodeEscape(raw)
			if width == 0 {
				dst = append(dst, raw[:2]...)
				break
			}
			n = width
			dst = utf8.AppendRune(dst, r)
		}
		raw = raw[n:]
	}
}

// unicodeEscape decodes \uXXXX, or two such escapes that form a surrogate pair.
func unicodeEscape(b []byte) (r rune, width int) {
	r, ok := hexEscape(b, 'u', 4)
	if !ok {
		return 0, 0
	}
	if utf16.IsSurrogate(r) {
		low, _ := hexEscape(b[6:], 'u', 4)
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, 12
		}
		return utf8.RuneError, 6
	}
	return r, 6
}

// hexEscape decodes a backslash, a letter and n hexadecimal digits. n is two, four or eight.
func hexEscape(b []byte, letter byte, n int) (rune, bool) {
	if len(b) < 2+n || b[0] != '\\' || b[1] != letter {
		return 0, false
	}
	var code [4]byte
	if _, err := hex.Decode(code[4-n/2:], b[2:2+n]); err != nil {
		return 0, false
	}
	return rune(binary.BigEndian.Uint32(code[:])), true
}

// HasLetterEscape reports whether a line is a JSON object that may contain ASCII letters in the form \u0041.
func HasLetterEscape(line []byte) bool {
	return firstByte(line) == '{' && bytes.Contains(line, []byte(`\u00`))
}
