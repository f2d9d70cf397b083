package importer

import (
	"slices"
	"strings"

	"crowsnest/internal/lazyre"
	"crowsnest/redact"
	"crowsnest/rules/template"
)

var (
	// labelOfTemplate is a label in a template of Prometheus.
	labelOfTemplate = lazyre.New(`(\$labels|\.Labels)\.([A-Za-z_][A-Za-z0-9_]*)`)
	valueOfTemplate = lazyre.New(`(^|[^A-Za-z0-9_$])\.Value\b`)
)

// annotation translates a template of an annotation. Labels by which the query does not group are
// empty in the ruler; here they are values of the line.
func (r *rule) annotation(text string) string {
	text = labelOfTemplate.ReplaceAllStringFunc(text, func(s string) string {
		name := s[strings.LastIndexByte(s, '.')+1:]
		if slices.Contains(r.by, name) || slices.ContainsFunc(r.labels, func(l entry) bool { return l.name == name }) || name == "severity" {
			return "$labels." + name
		}
		return "$vars." + name
	})
	text = valueOfTemplate.ReplaceAllString(text, "${1}$$value")
	if strings.Contains(text, "{{") && !validTemplate(text) {
		r.warn("the template %q uses what crowsnest lacks, so it is shown as it was written", shorten(redact.Sanitise(text)))
		return literal(text)
	}
	return text
}

func validTemplate(text string) bool {
	_, err := template.Parse(text)
	return err == nil
}
