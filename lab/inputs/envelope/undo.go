package envelope

import (
	"bytes"
	"html"
	"regexp"
	"slices"
	"strings"
)

// undos are changes of lines as a whole, in the order in which they are looked for.
var undos = []struct {
	outermost bool // Only the outermost part of an envelope is so.
	found     func(lines [][]byte) bool
	undo      func(dst, line []byte) []byte
}{
	{false, func(lines [][]byte) bool {
		return slices.ContainsFunc(lines, func(l []byte) bool { return bytes.IndexByte(l, 0x1b) >= 0 })
	}, stripEscapes},
	{false, func(lines [][]byte) bool {
		return slices.ContainsFunc(lines, func(l []byte) bool { return bytes.ContainsAny(l, strange) })
	}, func(dst, line []byte) []byte { return append(dst, plainSpaces.Replace(string(line))...) }},
	{true, isHTML, func(dst, line []byte) []byte { return append(dst, html.UnescapeString(string(line))...) }},
	{true, isEscaped, func(dst, line []byte) []byte { return unescape(dst, unquoteLine(line)) }},
	{true, hasStrings, unquoteStrings},
}

// strange are characters that look like a space or like nothing.
const strange = "\u00a0\u202f\u2007\ufeff\u200b\u200e\u2060\u200c\u200d"

var plainSpaces = strings.NewReplacer("\u00a0", " ", "\u202f", " ", "\u2007", " ", "\ufeff", "", "\u200b", "", "\u200e", "", "\u2060", "", "\u200c", "", "\u200d", "")

// stripEscapes removes the escape sequences of a terminal.
func stripEscapes(dst, b []byte) []byte {
	for {
		k := bytes.IndexByte(b, 0x1b)
		if k < 0 {
			return append(dst, b...)
		}
		dst = append(dst, b[:k]...)
		b = b[k+max(1, sequenceLen(b[k:])):]
	}
}

// sequenceLen returns the length of the escape sequence at the start of b, zero if there is none.
func sequenceLen(b []byte) int {
	switch rest := b[1:]; {
	case len(rest) == 0:
	case rest[0] == ']': // a title or a link
		if k := bytes.IndexAny(rest, "\a\x1b"); k > 0 {
			return k + 2
		}
	case rest[0] == '[':
		rest = bytes.TrimLeft(rest[1:], "0123456789;?:")
		if len(rest) > 0 && (rest[0]|0x20)-'a' < 26 {
			return len(b) - len(rest) + 1
		}
	}
	return 0
}

// isHTML reports whether lines are escaped for HTML as a whole.
func isHTML(lines [][]byte) bool {
	return !slices.ContainsFunc(lines, func(l []byte) bool { return bytes.IndexByte(l, '"') >= 0 }) && slices.ContainsFunc(lines, entity.Match)
}

// entity matches the entities that logs need.
var entity = regexp.MustCompile(`&(?:quot|lt|gt|amp|#(?:34|39|x27|x22));`)

// isEscaped reports whether lines have a backslash before every quote as a whole, or are the
// texts of strings with their quotes.
func isEscaped(lines [][]byte) bool {
	found, quotes := false, len(lines) > 0
	for _, l := range lines {
		inner := unquoteLine(l)
		quotes = quotes && len(inner) < len(l)
		for i := range inner {
			switch {
			case inner[i] == '"' && (i == 0 || inner[i-1] != '\\'):
				return false
			case inner[i] == '"', inner[i] == '\\' && i+2 < len(inner) && inner[i+1] == 'n' && headerOf(inner[i+2:]) != none:
				found = true
			}
		}
	}
	return found || quotes
}

// hasStrings reports whether most lines are the texts of strings with their quotes, in a list.
func hasStrings(lines [][]byte) bool {
	return most(lines, func(l []byte) bool {
		inner := unquoteLine(l)
		return len(inner) < len(l) && headerOf(unescape(nil, inner)) > word && isEscaped([][]byte{l})
	})
}

func unquoteStrings(dst, l []byte) []byte {
	if inner := unquoteLine(l); len(inner) < len(l) {
		return unescape(dst, inner)
	}
	return append(dst, l...)
}

// unquoteLine returns a line without the quotes around it, and without a comma after them.
func unquoteLine(l []byte) []byte {
	t := bytes.TrimSpace(l)
	t = bytes.TrimSuffix(t, []byte(","))
	if len(t) > 2 && (t[0] == '"' && t[len(t)-1] == '"' || t[0] == '\'' && t[len(t)-1] == '\'') {
		return t[1 : len(t)-1]
	}
	return l
}
