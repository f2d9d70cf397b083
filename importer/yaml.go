package importer

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/common/model"
)

// yamlWriter writes a rule as YAML. Texts are double-quoted or, if that is more readable,
// single-quoted or blocks.
type yamlWriter struct{ strings.Builder }

func (w *yamlWriter) line(indent int, format string, args ...any) {
	w.WriteString(strings.Repeat(" ", indent))
	fmt.Fprintf(w, format, args...)
	w.WriteByte('\n')
}

// text returns the rule as an item of a list.
func (r *rule) text() string {
	w := &yamlWriter{}
	for _, c := range r.comments {
		w.line(0, "# %s", oneLine(c))
	}
	for _, c := range r.warnings {
		w.line(0, "# Check: %s", oneLine(c))
	}
	w.line(0, "- alert: %s", r.alert)
	w.line(2, "from: %s", quote(r.from))
	w.line(2, "origin: any")
	w.conditions(r)
	if len(r.by) > 0 {
		names := make([]string, len(r.by))
		for i, n := range r.by {
			names[i] = quoteName(n)
		}
		w.line(2, "by: [%s]", strings.Join(names, ", "))
	}
	w.line(2, "severity: %s", r.severity)
	w.entries(2, "annotations", r.annotations)
	w.remediation(r)
	w.tests(r)
	return w.String()
}

func (w *yamlWriter) conditions(r *rule) {
	if len(r.sequence) > 0 {
		w.line(2, "sequence:")
		for i := range r.sequence {
			w.writeItem(2, func(inner *yamlWriter) { inner.matcher(4, &r.sequence[i]) })
		}
	} else {
		w.line(2, "match:")
		w.matcher(4, &r.match)
	}
	if r.count > 1 {
		w.line(2, "count: %d", r.count)
	}
	w.duration("within", r.within)
	if r.distinct != "" {
		w.line(2, "distinct: %s", quoteName(r.distinct))
	}
	if r.clear != nil {
		w.line(2, "clear:")
		w.matcher(4, r.clear)
	}
	if r.unless != nil {
		w.line(2, "unless:")
		w.matcher(4, r.unless)
		w.line(4, "within: %s", duration(r.before))
	}
	w.duration("for", r.wait)
	w.duration("keep_firing_for", r.keep)
	w.duration("expire", r.expire)
}

func (w *yamlWriter) duration(key string, d time.Duration) {
	if d > 0 {
		w.line(2, "%s: %s", key, duration(d))
	}
}

func duration(d time.Duration) string {
	if d%time.Millisecond != 0 {
		d = (d/time.Millisecond + 1) * time.Millisecond
	}
	return model.Duration(d).String()
}

// item writes a pattern as an item of a list.
func (w *yamlWriter) item(indent int, m *pattern) {
	if text, ok := m.onlyText(); ok {
		w.line(indent, "- %s", quote(text))
		return
	}
	w.writeItem(indent, func(inner *yamlWriter) { inner.pattern(indent+2, m) })
}

// writeItem writes a mapping as an item of a list. write indents it by two more.
func (w *yamlWriter) writeItem(indent int, write func(*yamlWriter)) {
	inner := &yamlWriter{}
	write(inner)
	w.WriteString(strings.Repeat(" ", indent) + "- " + inner.String()[indent+2:])
}

// matcher writes a pattern that counts anywhere in a line, as in the language it comes from.
func (w *yamlWriter) matcher(indent int, m *pattern) {
	if m.hasText() {
		w.line(indent, "in: anywhere")
	}
	w.pattern(indent, m)
}

func (w *yamlWriter) pattern(indent int, m *pattern) {
	if len(m.contains) == 1 {
		w.line(indent, "contains: %s", quote(m.contains[0]))
	} else if len(m.contains) > 1 {
		w.line(indent, "contains:")
		for _, t := range m.contains {
			w.line(indent, "- %s", quote(t))
		}
	}
	if m.regex != "" {
		w.line(indent, "regex: %s", quote(m.regex))
	}
	if len(m.fields) > 0 {
		w.line(indent, "field:")
		for _, f := range m.fields {
			w.line(indent+2, "%s: %s", quoteName(f.name), quote(f.value))
		}
	}
	if len(m.any) > 0 {
		w.line(indent, "any:")
		for i := range m.any {
			w.item(indent, &m.any[i])
		}
	}
	if m.not != nil {
		if text, ok := m.not.onlyText(); ok {
			w.line(indent, "not: %s", quote(text))
			return
		}
		w.line(indent, "not:")
		w.pattern(indent+2, m.not)
	}
}

func (w *yamlWriter) entries(indent int, key string, all []entry) {
	if len(all) == 0 {
		return
	}
	w.line(indent, "%s:", key)
	for _, e := range all {
		w.prose(indent+2, quoteName(e.name)+": ", e.value)
	}
}

// prose writes a text of any number of lines after a key or a dash.
func (w *yamlWriter) prose(indent int, head, text string) {
	if !blockable(text) {
		w.line(indent, "%s%s", head, quote(text))
		return
	}
	w.line(indent, "%s|-", head)
	for _, l := range strings.Split(text, "\n") {
		if l == "" {
			w.WriteByte('\n')
			continue
		}
		w.line(indent+2, "%s", l)
	}
}

// blockable reports whether a text can be written as a block without loss.
func blockable(s string) bool {
	first, _, several := strings.Cut(s, "\n")
	return several && first != "" && first[0] != ' ' && strings.TrimRight(s, " \n") == s &&
		!strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && !printable(r) })
}

func printable(r rune) bool {
	return r == ' ' || unicode.IsGraphic(r) && !unicode.IsSpace(r) && r != unicode.ReplacementChar && r != 0xfeff
}

func (w *yamlWriter) remediation(r *rule) {
	if r.summary == "" && r.runbook == "" && len(r.steps)+len(r.affects) == 0 {
		return
	}
	w.line(2, "remediation:")
	if r.summary != "" {
		w.prose(4, "summary: ", r.summary)
	}
	if r.runbook != "" {
		w.line(4, "runbook_url: %s", quote(r.runbook))
	}
	if len(r.steps) > 0 {
		w.line(4, "steps:")
		for _, s := range r.steps {
			w.prose(4, "- ", s)
		}
	}
	if len(r.affects) == 0 {
		return
	}
	w.line(4, "affects:")
	for _, a := range r.affects {
		w.line(4, "- {component: %s, image: %s, versions: %s}", quote(a.component), quote(a.image), quote(a.versions))
	}
}

func (w *yamlWriter) tests(r *rule) {
	if len(r.tests) == 0 {
		return
	}
	w.line(2, "tests:")
	for _, t := range r.tests {
		labels := make([]string, len(t.stream))
		for i, l := range t.stream {
			labels[i] = quoteName(l.name) + ": " + quote(l.value)
		}
		w.line(2, "- name: %s", quote(t.name))
		w.line(4, "stream: {%s}", strings.Join(labels, ", "))
		w.line(4, "input:")
		for _, l := range t.lines {
			repeat := ""
			if l.repeat > 1 {
				repeat = fmt.Sprintf(", repeat: %d, every: %s", l.repeat, duration(l.every))
			}
			w.line(4, "- {at: %s, line: %s%s}", duration(l.at), quote(l.text), repeat)
		}
		firing := "none"
		if t.fires {
			firing = "[{alertname: " + r.alert + "}]"
		}
		w.line(4, "expect: [{at: %s, firing: %s}]", duration(t.at), firing)
	}
}

// quote writes a text on one line: in single quotes if double quotes would need escapes.
func quote(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !printable(r) }) || !strings.ContainsAny(s, `"\`) {
		return doubleQuoted(s)
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// doubleQuoted writes a text in double quotes, with escapes that YAML knows.
func doubleQuoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\n':
			b.WriteString(`\n`)
		case printable(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// quoteName writes a name, in quotes unless it is a plain word that YAML cannot read as
// something else.
func quoteName(s string) string {
	plain := s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z')
	}) && (s[0] > '9')
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		plain = false
	}
	if !plain {
		return quote(s)
	}
	return s
}

// oneLine makes a text fit into a comment.
func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if !printable(r) {
			return ' '
		}
		return r
	}, s)), " ")
}
