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

// matchedLine is a line of a log with what the rule found in it.
type matchedLine struct {
	Text     string
	HTML     template.HTML // the text with marks
	Captures []matcher.NamedValue
}

// maxMarked bounds the lines that are explained, in bytes.
const maxMarked = 16 << 10

// matched marks what a rule found in a line. The line is redacted and made safe to show, so
// the rule may no longer match it: then nothing is marked.
func matched(r *rules.Rule, shown redact.Text) matchedLine {
	line := string(shown)
	out := matchedLine{Text: line, HTML: template.HTML(template.HTMLEscapeString(line))} //nolint:gosec // escaped
	if r == nil || line == "" || len(line) > maxMarked {
		return out
	}
	var found []string
	for _, part := range matcher.Explain(r, nil, []byte(line)).Parts {
		if part.Part >= 0 && part.Held { // not clear and unless: other lines are theirs
			collect(part.Conditions, &found, &out.Captures)
		}
	}
	out.HTML = withMarks(line, found)
	return out
}

// collect gathers the texts that held conditions found, and their captures.
func collect(all []matcher.Condition, found *[]string, captures *[]matcher.NamedValue) {
	for _, c := range all {
		if !c.Held || c.Kind == "not" {
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
		collect(c.Conditions, found, captures)
	}
}

// withMarks returns a text as HTML with the first occurrence of each of the texts marked.
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
