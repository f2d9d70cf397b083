package envelope

import (
	"bytes"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// node is a value in a JSON text. The nodes of the values inside a container follow the node of the container, up to
// index end.
type node struct {
	kind    byte // '{', '[', '"', or '0' for a number, true, false and null
	first   byte // original kind; a list of attributes gets the kind '{'
	open    bool // whether the end of the container is missing
	esc     bool // whether the string has escapes
	record  bool // whether the value is or contains a record
	certain bool // whether the value is a record of an envelope, whatever its fields are
	passed  bool // whether the value was emitted as a line
	parent  int32
	end     int32
	line    int32     // index of the field that contains the line of a record; zero if there is none
	class   *keyClass // meaning of the key
	key     []byte    // raw key; nil for an element of an array
	val     []byte    // text of the value, for a string without the quotes
	text    []byte    // text of the value as it was written
}

// tree is one parsed JSON value. Parsing the next value reuses its memory.
type tree struct {
	nodes []node
	text  []byte
}

// begin makes the tree an object to which addField adds fields.
func (t *tree) begin(text []byte) {
	t.text = text
	t.nodes = append(t.nodes[:0], node{kind: '{', first: '{', parent: -1, end: 1, text: text, val: text})
}

// addField adds a field whose value is a string.
func (t *tree) addField(k *keyClass, val []byte, esc bool) {
	t.add(node{kind: '"', first: '"', class: k, esc: esc, key: k.key, val: val, text: val})
	t.nodes[0].end = int32(len(t.nodes))
}

func (t *tree) items(i int32) iter.Seq2[int32, *node] {
	return func(yield func(int32, *node) bool) {
		for c := i + 1; c < t.nodes[i].end && yield(c, &t.nodes[c]); c = t.nodes[c].end {
		}
	}
}

func (t *tree) any(i int32, has func(*node) bool) bool {
	for _, y := range t.items(i) {
		if has(y) {
			return true
		}
	}
	return false
}

// offset returns the position of a value's text in the text of the tree.
func (t *tree) offset(x *node) int { return cap(t.text) - cap(x.text) }

const maxDepth = 64

type ending uint8

const (
	invalid ending = iota // the text is not JSON
	cutOff                // the text ends before the end of the value
	complete
)

// parse parses the value at the start of b and returns its length. If the text ends within the value, the tree contains
// the part that was read.
func (t *tree) parse(b []byte) (int, ending) {
	t.nodes, t.text = t.nodes[:0], b
	return t.parseValue(0, -1, nil, 0)
}

func (t *tree) parseValue(i int, parent int32, key []byte, depth int) (int, ending) {
	b := t.text
	if i = skipSpace(b, i); i == len(b) {
		return i, cutOff
	}
	switch c := b[i]; c {
	case '{', '[':
		if depth == maxDepth {
			return i, invalid
		}
		at := len(t.nodes)
		t.nodes = append(t.nodes, node{kind: c, first: c, parent: parent, key: key})
		end, how := t.parseMembers(int32(at), i+1, depth+1)
		x := &t.nodes[at]
		x.text, x.val, x.open, x.end = b[i:end], b[i:end], how == cutOff, int32(len(t.nodes))
		return end, how
	case '"':
		val, esc, end, done := quoted(b, i)
		if !done {
			return end, cutOff
		}
		t.add(node{kind: c, first: c, esc: esc, parent: parent, key: key, val: val, text: b[i:end]})
		return end, complete
	}
	end := i
	for end < len(b) && !delimits(b[end]) {
		end++
	}
	switch {
	case end == i || !isLiteral(b[i:end]):
		return i, invalid
	case end == len(b) && parent >= 0:
		return end, cutOff
	}
	t.add(node{kind: '0', first: '0', parent: parent, key: key, val: b[i:end], text: b[i:end]})
	return end, complete
}

func (t *tree) parseMembers(pos int32, i, depth int) (int, ending) {
	b, kind := t.text, t.nodes[pos].kind
	for {
		if i = skipSpace(b, i); i == len(b) {
			return i, cutOff
		}
		if b[i] == kind+2 { // closing bracket of kind
			return i + 1, complete
		}
		var key []byte
		if kind == '{' {
			if b[i] != '"' {
				return i, invalid
			}
			name, _, next, done := quoted(b, i)
			if i = skipSpace(b, next); !done || i == len(b) {
				return len(b), cutOff
			}
			if b[i] != ':' {
				return i, invalid
			}
			key, i = name, i+1
		}
		var how ending
		if i, how = t.parseValue(i, pos, key, depth); how != complete {
			return i, how
		}
		if i = skipSpace(b, i); i == len(b) {
			return i, cutOff
		}
		if b[i] == ',' {
			i++
		} else if b[i] != kind+2 {
			return i, invalid
		}
	}
}

func (t *tree) add(n node) {
	n.end = int32(len(t.nodes) + 1)
	t.nodes = append(t.nodes, n)
}

func delimits(c byte) bool {
	return c == ',' || c == '}' || c == ']' || c == ' ' || c == '\n' || c == '\r' || c == '\t'
}

func isLiteral(b []byte) bool {
	switch c := b[0]; {
	case c == '-' || '0' <= c && c <= '9':
		return len(bytes.Trim(b, "+-.0123456789eE")) == 0
	default:
		return slices.ContainsFunc([]string{"true", "false", "null"}, func(word string) bool { return strings.HasPrefix(word, string(b)) })
	}
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// quoted reads the string that begins with the quote b[i]. next is the index after it.
func quoted(b []byte, i int) (val []byte, esc bool, next int, done bool) {
	for k := i + 1; k < len(b); k++ {
		switch b[k] {
		case '\\':
			esc = true
			k++
		case '"':
			return b[i+1 : k], esc, k + 1, true
		}
	}
	return nil, false, len(b), false
}

// unescape appends the unescaped text of a JSON string. It keeps unknown escapes unchanged.
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
			width := 4
			if c == 'x' {
				width = 2
			}
			r, ok := parseHex(raw[k+2:], width)
			if !ok {
				dst = append(dst, raw[k:k+2]...)
				break
			}
			if n += width; utf16.IsSurrogate(r) {
				low := rune(0)
				if bytes.HasPrefix(raw[k+n:], []byte(`\u`)) {
					low, _ = parseHex(raw[k+n+2:], 4)
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					n += len(`\u0000`)
				}
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, raw[k:k+2]...)
		}
		raw = raw[k+n:]
	}
}

func parseHex(b []byte, width int) (rune, bool) {
	n, err := strconv.ParseUint(string(b[:min(len(b), width)]), 16, 32)
	return rune(n), err == nil && len(b) >= width
}
