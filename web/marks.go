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

// matchedLine is a log line in which the texts that the rule looks for are marked.
type matchedLine struct {
	Text     string
	HTML     template.HTML // text of the line with marks
	Captures []matcher.NamedValue
}

// maxMarked bounds the length in bytes of a line that is explained.
const maxMarked = 16 << 10

// markMatches marks the texts that a rule found in a line. shown is redacted and safe to show,
// so the rule may no longer match it. Nothing is marked in that case.
func markMatches(r *rules.Rule, shown redact.Text) matchedLine {
	line := string(shown)
	out := matchedLine{Text: line, HTML: template.HTML(template.HTMLEscapeString(line))} //nolint:gosec // the text is escaped
	if r == nil || line == "" || len(line) > maxMarked {
		return out
	}
	var found []string
	for _, part := range matcher.Explain(r, nil, []byte(line)).Parts {
		if part.Part >= 0 && part.Held { // clear and unless are skipped, because they match other lines
			collectTexts(part.Conditions, &found, &out.Captures)
		}
	}
	out.HTML = withMarks(line, found)
	return out
}

// collectTexts collects what satisfied conditions found, and their captures.
func collectTexts(all []matcher.Condition, found *[]string, captures *[]matcher.NamedValue) {
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
		collectTexts(c.Conditions, found, captures)
	}
}

// withMarks returns a text as HTML in which the first occurrence of each found text is marked.
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
