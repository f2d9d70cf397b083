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
	{false, func(lines [][]byte) bool { return share(lines, hasColours)*10 >= len(lines)*3 }, stripColours},
	{false, func(lines [][]byte) bool {
		return slices.ContainsFunc(lines, func(l []byte) bool { return bytes.ContainsAny(l, strange) })
	}, func(dst, line []byte) []byte { return append(dst, plainSpaces.Replace(string(line))...) }},
	{true, isHTML, unescapeHTML},
	{true, isEscaped, func(dst, line []byte) []byte { return unescape(dst, unquoteLine(line)) }},
	{true, hasStrings, unquoteStrings},
	{true, func(lines [][]byte) bool { return most(lines, isList) }, func(dst, line []byte) []byte { // of Python
		if isList(line) {
			line = bytes.ReplaceAll(line[2:len(line)-2], []byte("', '"), []byte("\n"))
		}
		return append(dst, line...)
	}},
}

func isList(b []byte) bool {
	return len(b) > 3 && bytes.HasPrefix(b, []byte("['")) && bytes.HasSuffix(b, []byte("']"))
}

// strange are characters that look like a space or like nothing.
const strange = "\u00a0\u202f\u2007\ufeff\u200b\u200e\u2060\u200c\u200d"

var plainSpaces = strings.NewReplacer("\u00a0", " ", "\u202f", " ", "\u2007", " ", "\ufeff", "", "\u200b", "", "\u200e", "", "\u2060", "", "\u200c", "", "\u200d", "")

// stripEscapes removes the escape sequences of a terminal, stripColours also those whose escape
// character is written out.
func stripEscapes(dst, b []byte) []byte { return stripSequences(dst, b, "\x1b") }
func stripColours(dst, b []byte) []byte { return stripSequences(dst, b, "\x1b\\^#\u241b") }
func hasColours(b []byte) bool          { return len(stripColours(nil, b)) < len(b) }

func stripSequences(dst, b []byte, starts string) []byte {
	for {
		k := bytes.IndexAny(b, starts)
		if k < 0 {
			return append(dst, b...)
		}
		n := sequenceLen(b[k:])
		if dst = append(dst, b[:k]...); n == 0 && b[k] != 0x1b {
			dst = append(dst, b[k])
		}
		b = b[k+max(1, n):]
	}
}

var escapes = []string{"\x1b", "^[", `\x1b`, `\u001b`, `\033`, `\e`, "#033", `\x1B`, `\u001B`, "\u241b"}

// sequenceLen returns the length of the escape sequence at the start of b.
func sequenceLen(b []byte) int {
	for _, e := range escapes {
		rest, ok := bytes.CutPrefix(b, []byte(e))
		switch {
		case !ok || len(rest) == 0:
		case rest[0] == ']': // a title or a link
			if k := bytes.IndexAny(rest, "\a\x1b"); k > 0 {
				return len(e) + k + 1
			}
		case rest[0] == '[':
			rest = bytes.TrimLeft(rest[1:], "0123456789;?:")
			if len(rest) > 0 && (rest[0]|0x20)-'a' < 26 {
				return len(b) - len(rest) + 1
			}
		}
	}
	return 0
}

// isHTML reports whether lines are escaped for HTML as a whole, or are between tags of a page.
func isHTML(lines [][]byte) bool {
	found := false
	for _, l := range lines {
		text := stripTags(nil, l)
		if bytes.IndexByte(text, '"') >= 0 {
			return false
		}
		found = found || len(text) < len(l) || entity.Match(text)
	}
	return found
}

// entity matches the entities of what logs have.
var entity = regexp.MustCompile(`&(?:quot|lt|gt|amp|nbsp|#(?:34|39|x27|x22));`)

var tag = regexp.MustCompile(`^</?(?:pre|code|span|br|div|p|b|i|a|font|html|head|meta|title|body|table|thead|tbody|tr|td|th|ul|li|style)\b[^<>]*>|^<!DOCTYPE[^<>]*>`)

// isTag reports whether a text begins with a tag of HTML, whose end may be missing.
func isTag(b []byte) bool { return tag.Match(append(b[:len(b):len(b)], '>')) }

// stripTags removes the tags of HTML.
func stripTags(dst, b []byte) []byte {
	for {
		k := bytes.IndexByte(b, '<')
		if k < 0 {
			return append(dst, b...)
		}
		n := tag.FindIndex(b[k:])
		if dst = append(dst, b[:k]...); n == nil {
			n = []int{0, 1}
			dst = append(dst, '<')
		} else if cell := string(b[k:][:n[1]]); cell == "</td>" || cell == "</th>" {
			dst = append(dst, '\t')
		}
		b = b[k+n[1]:]
	}
}

func unescapeHTML(dst, b []byte) []byte {
	start := len(dst)
	if dst = stripTags(dst, b); bytes.IndexByte(dst[start:], '&') < 0 {
		return dst
	}
	text := html.UnescapeString(string(dst[start:]))
	return append(dst[:start], bytes.ReplaceAll([]byte(text), []byte("\u00a0"), []byte(" "))...)
}

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
