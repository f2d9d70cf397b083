package web

import (
	"html/template"
	"strings"
)

// highlightYAML returns YAML as HTML in which keys, quoted texts and comments are elements. It
// recognizes only as much of YAML as that requires. Everything else is text.
func highlightYAML(text string) template.HTML {
	var b strings.Builder
	y := yamlWriter{b: &b}
	for line := range strings.SplitAfterSeq(text, "\n") {
		y.writeLine(line)
	}
	return template.HTML(b.String()) //nolint:gosec // every part of the text is escaped
}

type yamlWriter struct {
	b     *strings.Builder
	block int  // indentation of the key of a block of text, plus 1; zero outside of a block
	quote byte // quote that is still open at the end of the previous line; zero if there is none
}

func (y *yamlWriter) writeClass(class, text string) {
	text = template.HTMLEscapeString(text)
	if class != "" && text != "" {
		text = `<span class="y-` + class + `">` + text + "</span>"
	}
	y.b.WriteString(text)
}

func (y *yamlWriter) writeLine(line string) {
	indent := len(line) - len(strings.TrimLeft(line, " "))
	if y.block > 0 && (strings.TrimSpace(line) == "" || indent >= y.block) {
		y.writeClass("s", line)
		return
	}
	y.block = 0
	from, plain := 0, 0 // start of the current token, and of the text that has no class
	flush := func(class string, start, end int) {
		y.writeClass("", line[plain:start])
		y.writeClass(class, line[start:end])
		plain, from = end, end
	}
	for from < len(line) {
		start, c := from, line[from]
		switch {
		case y.quote != 0 || c == '\'' || c == '"':
			if y.quote == 0 {
				y.quote = c
				from++
			}
			end := y.closingQuote(line, from)
			if rest := line[end:]; strings.HasPrefix(rest, ":") {
				flush("k", start, end)
			} else {
				flush("s", start, end)
			}
		case c == '#' && (start == 0 || line[start-1] == ' '):
			flush("c", start, len(line))
		case c == '-' && strings.HasPrefix(line[start+1:], " "): // the dash of a list item
			from++
		case wordByte(c):
			for from < len(line) && wordByte(line[from]) {
				from++
			}
			if from < len(line) && line[from] == ':' && (from+1 == len(line) || strings.IndexByte(" \n", line[from+1]) >= 0) && beginsKey(line[:start]) {
				flush("k", start, from)
			} else {
				from = endOfPlain(line, from)
			}
		default:
			from++
		}
	}
	y.writeClass("", line[plain:])
	if rest := strings.TrimRight(line, " \n"); y.quote == 0 && (strings.HasSuffix(rest, ": |") || strings.HasSuffix(rest, ": >") || strings.HasSuffix(rest, ": |-") || strings.HasSuffix(rest, ": >-")) {
		y.block = len(line) - len(strings.TrimLeft(line, " -")) + 1
	}
}

// closingQuote returns the end of the quoted text that is open at from. If the text ends on
// this line, it marks the text as closed.
func (y *yamlWriter) closingQuote(line string, from int) int {
	for i := from; i < len(line); i++ {
		switch {
		case y.quote == '"' && line[i] == '\\':
			i++
		case line[i] == y.quote && y.quote == '\'' && strings.HasPrefix(line[i+1:], "'"):
			i++
		case line[i] == y.quote:
			y.quote = 0
			return i + 1
		}
	}
	return len(line)
}

func wordByte(c byte) bool {
	return c == '_' || c == '-' || c == '.' || c == '/' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// beginsKey reports whether a key can follow before on its line.
func beginsKey(before string) bool {
	before = strings.TrimRight(before, " ")
	return before == "" || strings.HasSuffix(before, "-") || strings.HasSuffix(before, "{") || strings.HasSuffix(before, ",")
}

// endOfPlain returns the end of the unquoted text that starts at from, which may contain quotes.
func endOfPlain(line string, from int) int {
	for i := from; i < len(line); i++ {
		switch line[i] {
		case ',', '}', ']', ':', '{', '[':
			return i
		case '#':
			if line[i-1] == ' ' {
				return i
			}
		}
	}
	return len(line)
}
