package web

import (
	"html/template"
	"strings"
)

// highlightYAML returns YAML with its keys, quoted texts and comments as elements. It knows
// only as much of YAML as that takes: what it takes for something else is text.
func highlightYAML(text string) template.HTML {
	var b strings.Builder
	y := yamlWriter{b: &b}
	for line := range strings.SplitAfterSeq(text, "\n") {
		y.line(line)
	}
	return template.HTML(b.String()) //nolint:gosec // every part of the text is escaped
}

type yamlWriter struct {
	b     *strings.Builder
	block int  // indentation of the key of a block of text, plus 1; zero if there is none
	quote byte // quote that is open at the end of the line before; zero if there is none
}

func (y *yamlWriter) write(class, text string) {
	text = template.HTMLEscapeString(text)
	if class != "" && text != "" {
		text = `<span class="y-` + class + `">` + text + "</span>"
	}
	y.b.WriteString(text)
}

func (y *yamlWriter) line(line string) {
	indent := len(line) - len(strings.TrimLeft(line, " "))
	if y.block > 0 && (strings.TrimSpace(line) == "" || indent >= y.block) {
		y.write("s", line)
		return
	}
	y.block = 0
	from, plain := 0, 0 // starts of the token and of the text without a class
	flush := func(class string, start, end int) {
		y.write("", line[plain:start])
		y.write(class, line[start:end])
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
			end := y.closing(line, from)
			if rest := line[end:]; strings.HasPrefix(rest, ":") {
				flush("k", start, end)
			} else {
				flush("s", start, end)
			}
		case c == '#' && (start == 0 || line[start-1] == ' '):
			flush("c", start, len(line))
		case c == '-' && strings.HasPrefix(line[start+1:], " "): // the dash of a list
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
	y.write("", line[plain:])
	if rest := strings.TrimRight(line, " \n"); y.quote == 0 && (strings.HasSuffix(rest, ": |") || strings.HasSuffix(rest, ": >") || strings.HasSuffix(rest, ": |-") || strings.HasSuffix(rest, ": >-")) {
		y.block = len(line) - len(strings.TrimLeft(line, " -")) + 1
	}
}

// closing returns the end of a quoted text that is open at from, and closes it if it ends on
// the line.
func (y *yamlWriter) closing(line string, from int) int {
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

// beginsKey reports whether a key can follow a text on its line.
func beginsKey(before string) bool {
	before = strings.TrimRight(before, " ")
	return before == "" || strings.HasSuffix(before, "-") || strings.HasSuffix(before, "{") || strings.HasSuffix(before, ",")
}

// endOfPlain returns where the plain text that a word begins ends: quotes in it are text.
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
