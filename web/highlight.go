package web

import (
	"cmp"
	"html/template"
	"slices"
	"strings"

	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
)

// matchedLine is a log line in which the parts that the rule searches for are marked.
type matchedLine struct {
	Text     string
	HTML     template.HTML // text of the line with marks around the found parts
	Captures []matcher.NamedValue
}

// maxMarked is the maximum length in bytes of a line in which parts are marked.
const maxMarked = 16 << 10

// markMatches marks the parts of a line that a rule found. shown is redacted and safe to show. The rule may therefore
// not match shown, although it matched the original line. In that case nothing is marked.
func markMatches(r *rules.Rule, shown redact.Text) matchedLine {
	line := string(shown)
	out := matchedLine{Text: line, HTML: template.HTML(template.HTMLEscapeString(line))} //nolint:gosec // the text is escaped
	if r == nil || line == "" || len(line) > maxMarked {
		return out
	}
	var found []string
	for _, part := range matcher.Explain(r, nil, []byte(line)).Parts {
		if part.Part >= 0 && part.IsMet { // clear and unless are skipped, because they match other lines than the trigger
			collectTexts(part.Conditions, &found, &out.Captures)
		}
	}
	out.HTML = withMarks(line, found)
	return out
}

// collectTexts collects the texts that the satisfied conditions found, and the values that they captured.
func collectTexts(all []matcher.Condition, found *[]string, captures *[]matcher.NamedValue) {
	for _, c := range all {
		if !c.IsMet || c.Kind == "not" {
			continue
		}
		switch c.Kind {
		case "regex":
			*found = append(*found, c.Got)
		case "contains":
			*found = append(*found, cmp.Or(c.Got, c.Want))
		}
		for _, v := range c.Captures {
			if !slices.Contains(*captures, v) {
				*captures = append(*captures, v)
			}
		}
		collectTexts(c.Conditions, found, captures)
	}
}

// withMarks returns text as HTML. In it, the first occurrence of each string in found is marked.
func withMarks(text string, found []string) template.HTML {
	type span struct{ from, to int }
	var spans []span
	for _, f := range found {
		if i := strings.Index(text, f); i >= 0 && f != "" {
			spans = append(spans, span{i, i + len(f)})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(a.from-b.from, b.to-a.to) })
	var b strings.Builder
	at := 0
	for _, s := range spans {
		if s.to <= at {
			continue
		}
		s.from = max(s.from, at)
		b.WriteString(template.HTMLEscapeString(text[at:s.from]) + "<mark>" + template.HTMLEscapeString(text[s.from:s.to]) + "</mark>")
		at = s.to
	}
	b.WriteString(template.HTMLEscapeString(text[at:]))
	return template.HTML(b.String()) //nolint:gosec // every part of the text is escaped
}

// highlightYAML returns YAML as HTML in which keys, quoted strings and comments have classes. It parses only as much of
// YAML as that requires, and leaves the rest as text.
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
	block int  // indentation of the key of the current block string, plus 1; zero outside a block string
	quote byte // quote character that is still open at the end of the previous line; zero if there is none
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
	from, plain := 0, 0 // start of the current token, and start of the text before it that has no class
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

// closingQuote returns the end of the quoted string that is open at from. If the string ends on this line, closingQuote
// resets the open quote.
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

// beginsKey reports whether a key may follow the text before on its line.
func beginsKey(before string) bool {
	before = strings.TrimRight(before, " ")
	return before == "" || strings.HasSuffix(before, "-") || strings.HasSuffix(before, "{") || strings.HasSuffix(before, ",")
}

// endOfPlain returns the end of the unquoted string that starts at from. The string may contain quotes.
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
