package envelope

import (
	"bytes"
	"html"
	"regexp"
	"slices"
	"strings"

	"crowsnest/internal/lazyre"
)

// undos contains the changes of whole lines that can be undone, in the order in which they are tried.
var undos = []struct {
	outermost bool // whether only the outermost layer of an envelope can be this change
	found     func(lines [][]byte) bool
	undo      func(dst, line []byte) []byte
}{
	{false, func(lines [][]byte) bool { return contain(lines, "\x1b") }, stripEscapes},
	{false, func(lines [][]byte) bool { return count(lines, hasColours)*10 >= len(lines)*3 }, stripColours},
	{false, func(lines [][]byte) bool { return contain(lines, spaces) }, func(dst, line []byte) []byte {
		return append(dst, plainSpaces.Replace(string(line))...)
	}},
	{true, isHTML, unescapeHTML},
	{true, isEscaped, func(dst, line []byte) []byte { return unescape(dst, unquoteLine(line)) }},
	{true, func(lines [][]byte) bool { return mostLines(lines, isQuoted) }, func(dst, line []byte) []byte {
		if text := unquoteLine(line); len(text) < len(line) {
			return unescape(dst, text)
		}
		return append(dst, line...)
	}},
	{false, func(lines [][]byte) bool { return mostLines(lines, func(l []byte) bool { return contains(l, `"=>`) }) }, unrubyLine},
}

func contain(lines [][]byte, chars string) bool {
	return slices.ContainsFunc(lines, func(l []byte) bool { return bytes.ContainsAny(l, chars) })
}

// spaces contains characters that look like a space or are invisible.
const spaces = "\u00a0\u202f\u2007\ufeff\u200b\u200e\u2060\u200c\u200d"

var plainSpaces = strings.NewReplacer("\u00a0", " ", "\u202f", " ", "\u2007", " ", "\ufeff", "", "\u200b", "", "\u200e", "", "\u2060", "", "\u200c", "", "\u200d", "")

// sequence matches the text after an escape character. It sets a color, a position, a title or a link.
const sequence = `(?:\[[0-9;?:]*[A-Za-z]|\][^\x07\x1b]*[\x07\x1b])`

var (
	escapes = regexp.MustCompile(`\x1b` + sequence + `?`)
	colours = regexp.MustCompile(`(?:\^\[|\\(?:x1[bB]|u001[bB]|033|e)|#033|\x{241b})` + sequence + `|\x1b` + sequence + `?`)
)

// stripEscapes removes the escape sequences of a terminal. stripColours also removes colours
// whose escape character was written as text.
func stripEscapes(dst, b []byte) []byte { return append(dst, escapes.ReplaceAll(b, nil)...) }
func stripColours(dst, b []byte) []byte { return append(dst, colours.ReplaceAll(b, nil)...) }
func hasColours(b []byte) bool          { return colours.Match(b) }

// rubyToken matches the parts of a Ruby hash whose notation differs from JSON. fluent-bit
// prints records as Ruby hashes.
var rubyToken = lazyre.New(`"(?:[^"\\]|\\.)*"|=>(?:nil)?`)

func unrubyLine(dst, line []byte) []byte {
	return append(dst, rubyToken.ReplaceAllFunc(line, func(b []byte) []byte {
		switch string(b) {
		case "=>":
			return []byte(":")
		case "=>nil":
			return []byte(":null")
		}
		return b
	})...)
}

var (
	// entity matches the HTML entities that occur in logs.
	entity = lazyre.New(`&(?:quot|lt|gt|amp|nbsp|#(?:34|39|x27|x22));`)
	tag    = lazyre.New(`</?(?:pre|code|span|br|div|p|b|i|a|font|html|head|meta|title|body|table|thead|tbody|tr|td|th|ul|li|style)\b[^<>]*>|<!DOCTYPE[^<>]*>`)
	cell   = lazyre.New(`</t[dh]>`)
)

func isHTML(lines [][]byte) bool {
	found := false
	for _, l := range lines {
		text := stripTags(l)
		if bytes.IndexByte(text, '"') >= 0 {
			return false
		}
		found = found || len(text) < len(l) || entity.Match(text)
	}
	return found
}

// stripTags removes HTML tags. It separates the cells of a table with a tab.
func stripTags(b []byte) []byte {
	if bytes.IndexByte(b, '<') < 0 {
		return b
	}
	return tag.ReplaceAllLiteral(cell.ReplaceAllLiteral(b, []byte("\t")), nil)
}

func unescapeHTML(dst, b []byte) []byte {
	text := html.UnescapeString(string(stripTags(b)))
	return append(dst, strings.ReplaceAll(text, "\u00a0", " ")...)
}

// isEscaped reports whether all quotes in the lines have a backslash, or each line is a quoted string.
func isEscaped(lines [][]byte) bool {
	found, quotes := false, true
	for _, l := range lines {
		text := unquoteLine(l)
		quotes = quotes && len(text) < len(l)
		for i, c := range text {
			switch {
			case c == '"' && (i == 0 || text[i-1] != '\\'):
				return false
			case c == '"', c == '\\' && i+2 < len(text) && text[i+1] == 'n' && headerOf(text[i+2:]) != none:
				found = true
			}
		}
	}
	return found || quotes
}

// isQuoted reports whether a line is a quoted string, as in a JSON list.
func isQuoted(l []byte) bool {
	text := unquoteLine(l)
	return len(text) < len(l) && headerOf(unescape(nil, text)) > word && isEscaped([][]byte{l})
}

// unquoteLine returns a line without the quotes around it and the comma after them.
func unquoteLine(l []byte) []byte {
	t := bytes.TrimSuffix(bytes.TrimSpace(l), []byte(","))
	if k := len(t) - 1; k > 1 && t[0] == t[k] && (t[0] == '"' || t[0] == '\'') {
		return t[1:k]
	}
	return l
}

// mostLines reports whether has returns true for six of ten lines.
func mostLines(lines [][]byte, has func([]byte) bool) bool {
	n := count(lines, has)
	return n*10 >= len(lines)*6 && n > 0
}

func count(lines [][]byte, has func([]byte) bool) (n int) {
	for _, l := range lines {
		if has(l) {
			n++
		}
	}
	return n
}
