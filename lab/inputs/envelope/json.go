package envelope

import (
	"bytes"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// node is a value of a JSON text. The values that a container holds follow it, up to end.
type node struct {
	kind    byte // '{', '[', '"' or, for a number, true, false and null, '0'
	first   byte // kind as it was written
	open    bool // The end of the container is missing.
	esc     bool // The string has escapes.
	record  bool // The value is or contains a record.
	certain bool // The value is a record of an envelope even if its fields say nothing.
	passed  bool // The value was passed on as a line.
	parent  int32
	end     int32
	line    int32     // field with the line of a record; zero in other values
	class   *keyClass // what the key says
	key     []byte    // raw; nil for an element of an array
	val     []byte    // between the quotes of a string; else the text of the value
	text    []byte    // the value as it is written
}

// tree is one JSON value. Its memory is reused by the next parse.
type tree struct {
	nodes   []node
	text    []byte
	classes []*keyClass // classes of the same keys in the tree before
}

// begin makes the tree an object whose fields are added one by one.
func (t *tree) begin(text []byte) {
	t.text = text
	t.nodes = append(t.nodes[:0], node{kind: '{', first: '{', parent: -1, end: 1, text: text, val: text})
}

// addField adds a field with a string.
func (t *tree) addField(k *keyClass, val []byte, esc bool) {
	t.add(node{kind: '"', first: '"', class: k, esc: esc, key: k.key, val: val, text: val})
	t.nodes[0].end = int32(len(t.nodes))
}

// offset returns where the text of a value begins in that of the tree.
func (t *tree) offset(x *node) int { return cap(t.text) - cap(x.text) }

const maxDepth = 64

// parse reads the value at the start of b and returns its length. complete is false if b ends
// within the value, whose parts are then kept; ok is false if b is not JSON.
func (t *tree) parse(b []byte) (n int, complete, ok bool) {
	t.nodes, t.text = t.nodes[:0], b
	at, i, depth := int32(-1), 0, 0
	for {
		i = skipSpace(b, i)
		if i >= len(b) {
			return t.broken(at, i)
		}
		var key []byte
		closing := false
		if at >= 0 {
			open := t.nodes[at].kind
			switch c := b[i]; {
			case c == open+2: // the end of the container
				closing = true
			case open == '{':
				k, _, next, done := quoted(b, i)
				if c != '"' {
					return i, false, false
				}
				if !done {
					return t.broken(at, len(b))
				}
				if i = skipSpace(b, next); i >= len(b) {
					return t.broken(at, i)
				}
				if b[i] != ':' {
					return i, false, false
				}
				if i = skipSpace(b, i+1); i >= len(b) {
					return t.broken(at, i)
				}
				key = k
			}
		}
		if !closing {
			switch c := b[i]; c {
			case '{', '[':
				if depth++; depth > maxDepth {
					return i, false, false
				}
				t.nodes = append(t.nodes, node{kind: c, first: c, parent: at, key: key, text: b[i:]})
				at = int32(len(t.nodes) - 1)
				i++
				continue
			case '"':
				val, esc, next, done := quoted(b, i)
				if !done {
					return t.broken(at, len(b))
				}
				t.add(node{kind: '"', first: '"', esc: esc, parent: at, key: key, val: val, text: b[i:next]})
				i = next
			default:
				start := i
				for i < len(b) && !delimits(b[i]) {
					i++
				}
				if i == start || !literal(b[start:i]) {
					return i, false, i >= len(b) && i > start
				}
				if i == len(b) && at >= 0 {
					return t.broken(at, i)
				}
				t.add(node{kind: '0', first: '0', parent: at, key: key, val: b[start:i], text: b[start:i]})
			}
		}
		for {
			if closing {
				x := &t.nodes[at]
				i++
				x.text = x.text[:len(x.text)-len(b)+i]
				x.val = x.text
				x.end = int32(len(t.nodes))
				at = x.parent
				depth--
				closing = false
			}
			if at < 0 {
				return i, true, true
			}
			if i = skipSpace(b, i); i >= len(b) {
				return t.broken(at, i)
			}
			if b[i] == ',' {
				i++
				break
			}
			if b[i] != t.nodes[at].kind+2 {
				return i, false, false
			}
			closing = true
		}
	}
}

func (t *tree) add(n node) {
	n.end = int32(len(t.nodes) + 1)
	t.nodes = append(t.nodes, n)
}

// broken ends the containers that are open.
func (t *tree) broken(at int32, n int) (int, bool, bool) {
	for ; at >= 0; at = t.nodes[at].parent {
		x := &t.nodes[at]
		x.end, x.open, x.val = int32(len(t.nodes)), true, x.text
	}
	return n, false, true
}

func delimits(c byte) bool {
	return c == ',' || c == '}' || c == ']' || c == ' ' || c == '\n' || c == '\r' || c == '\t'
}

func literal(b []byte) bool {
	switch c := b[0]; {
	case c == '-' || '0' <= c && c <= '9':
		return len(bytes.Trim(b, "+-.0123456789eE")) == 0
	default:
		return strings.HasPrefix("true", string(b)) || strings.HasPrefix("false", string(b)) || strings.HasPrefix("null", string(b))
	}
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// quoted reads the string at b[i], which is a quote. next is the index after it.
func quoted(b []byte, i int) (val []byte, esc bool, next int, done bool) {
	start := i + 1
	for i = start; i <= len(b); i++ {
		k := bytes.IndexByte(b[i:], '"')
		if k < 0 {
			break
		}
		i += k
		n := 0
		for j := i - 1; j >= start && b[j] == '\\'; j-- {
			n++
		}
		if n%2 == 0 {
			val = b[start:i]
			return val, n > 0 || bytes.IndexByte(val, '\\') >= 0, i + 1, true
		}
	}
	return nil, false, len(b), false
}

// unescape appends the text of a JSON string. An unknown escape is kept.
func unescape(dst, raw []byte) []byte {
	for {
		k := bytes.IndexByte(raw, '\\')
		if k < 0 || k+1 == len(raw) {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:k]...)
		n := 2
		switch c := raw[k+1]; c {
		case '"', '\\', '/', '\'':
			dst = append(dst, c)
		case 'b', 'f', 'n', 'r', 't':
			dst = append(dst, "\b\f\n\r\t"[strings.IndexByte("bfnrt", c)])
		case 'u', 'x':
			r, width := runeEscape(raw[k:])
			if width == 0 {
				dst = append(dst, raw[k:k+2]...)
				break
			}
			n = width
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, raw[k:k+2]...)
		}
		raw = raw[k+n:]
	}
}

// runeEscape reads \u0041, two of them that are a surrogate pair, or \x41.
func runeEscape(b []byte) (r rune, width int) {
	digits := 4
	if b[1] == 'x' {
		digits = 2
	}
	r, ok := hexRune(b, digits)
	if !ok {
		return 0, 0
	}
	if digits == 4 && utf16.IsSurrogate(r) {
		if len(b) > 7 && b[6] == '\\' && b[7] == 'u' {
			if low, ok := hexRune(b[6:], 4); ok {
				if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
					return pair, 12
				}
			}
		}
		return utf8.RuneError, 6
	}
	return r, 2 + digits
}

func hexRune(b []byte, digits int) (r rune, ok bool) {
	if len(b) < 2+digits {
		return 0, false
	}
	for _, c := range b[2 : 2+digits] {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
